# SPDX-License-Identifier: Apache-2.0
"""Which objects the operator keeps in its caches."""

import re

import pytest

from slinky.api.names.child_names import ROLES, SLURMCTLD_TRIAL
from slinky.kube.errors import ApiStatus, Details, Invalid, StatusCause
from slinky.operator.framework.children import CHILD_SELECTOR, changes_immutable_fields


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


SPEC = StatusCause("FieldValueForbidden", "Forbidden: updates to statefulset spec for fields other than ...", "spec")
NAME = StatusCause("FieldValueInvalid", 'Invalid value: "a": field is immutable', "spec.serviceName")
DEFAULTED = StatusCause("FieldValueForbidden", "Forbidden: not with this type", "spec.updateStrategy.rollingUpdate")
PORT = StatusCause("FieldValueInvalid", "Invalid value: 70000: must be between 1 and 65535", "spec.template.spec")


@pytest.mark.parametrize(
    ("causes", "expected"),
    [
        ([SPEC], True),  # Kubernetes 1.36 and older
        ([NAME], True),  # Kubernetes 1.37 and newer
        ([NAME, DEFAULTED], True),
        ([NAME, PORT], False),
        ([PORT], False),
        ([], False),
    ],
)
def test_a_stateful_set_is_recreated_only_for_immutable_fields(causes: list[StatusCause], expected: bool) -> None:
    refusal = Invalid(ApiStatus(code=422, details=Details(causes=tuple(causes))))
    assert changes_immutable_fields(refusal) == expected
