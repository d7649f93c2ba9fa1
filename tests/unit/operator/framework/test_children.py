# SPDX-License-Identifier: Apache-2.0
"""Which objects the operator keeps in its caches."""

import re

from slinky.api.names.child_names import ROLES, SLURMCTLD_TRIAL
from slinky.operator.framework.children import CHILD_SELECTOR


def is_selected(labels: dict[str, str]) -> bool:
    """Whether the selector, a list of `key in (values)`, matches."""
    terms = re.findall(r"([\w./-]+) in \(([^)]*)\)", CHILD_SELECTOR)
    assert len(terms) == 2
    return all(labels.get(key) in values.split(", ") for key, values in terms)


def test_children_of_every_role_are_cached_and_objects_of_other_applications_are_not() -> None:
    for role in (*ROLES, SLURMCTLD_TRIAL):
        assert is_selected(role.labels("slurm"))
        assert not is_selected({**role.labels("slurm"), "app.kubernetes.io/name": "ingress-nginx"})
    assert not is_selected({"app.kubernetes.io/name": "slurmd"})
