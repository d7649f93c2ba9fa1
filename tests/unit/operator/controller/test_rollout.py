# SPDX-License-Identifier: Apache-2.0
"""Several slurmctld get their new files one after another, although a standby is never ready."""

from typing import Any

import pytest
from tests.unit.operator.samples import controller, pod

from slinky.kube.views import ContainerStatus, Pod, PodStatus, ReplicaStatus
from slinky.operator.build.config_files import Files
from slinky.operator.build.pod_parts import DaemonHashes, Images
from slinky.operator.controller.objects import stateful_set
from slinky.operator.controller.rollout import REVISION, next_pod_to_replace


def slurmctld(ordinal: int, state: str) -> Pod:
    """`state` is a revision, and whether it serves (!), stands by, has not started (?) or goes (-)."""
    made = pod(f"slurm-controller-{ordinal}", ready=1 if "!" in state else None, labels={REVISION: state[:1]})
    running = (ContainerStatus("slurmctld", started="?" not in state),)
    status = PodStatus(phase="Running", conditions=made.status.conditions, container_statuses=running)
    going = "2026-01-01T00:00:00Z" if "-" in state else None
    meta = made.metadata
    return Pod(type(meta)(name=meta.name, labels=meta.labels, deletion_timestamp=going), made.spec, status)


TURNS = [
    ("nothing to do", ["b!", "b"], None),
    ("the standby first", ["a!", "a"], 1),
    ("the last standby first", ["a!", "a", "a"], 2),
    ("the next standby when the new one has started", ["a!", "a", "b"], 1),
    ("the one in charge last", ["a!", "b"], 0),
    ("not while a new one starts", ["a!", "b?"], None),
    ("not while one goes", ["a!", "a-"], None),
    ("not while one is missing", ["a!"], None),
    ("after a failover the standby is the first", ["a", "a!"], 0),
    ("one that cannot start with the old files is in nobody's way", ["a!", "a?"], 1),
]


@pytest.mark.parametrize(("law", "states", "turn"), TURNS, ids=[case[0] for case in TURNS])
def test_which_slurmctld_is_replaced_next(law: str, states: list[str], turn: int | None) -> None:
    pods = [slurmctld(ordinal, state) for ordinal, state in enumerate(states)]
    result = next_pod_to_replace(pods, max(2, len(states)), ReplicaStatus(update_revision="b"))
    assert (result and result.metadata.name) == (None if turn is None else f"slurm-controller-{turn}")


def test_no_pod_is_replaced_while_the_revision_is_unknown() -> None:
    assert next_pod_to_replace([slurmctld(0, "a!"), slurmctld(1, "a")], 2, ReplicaStatus()) is None


def test_a_stateful_set_with_standbys_is_updated_on_delete() -> None:
    ha: dict[str, Any] = {"ha": {"enabled": True}, "persistence": {"existingClaim": "shared"}}
    pair = stateful_set(controller(**ha), None, DaemonHashes(), Files(), Images("reg/{daemon}:1"))["spec"]
    assert pair["updateStrategy"] == {"type": "OnDelete"}
    alone = stateful_set(controller(), None, DaemonHashes(), Files(), Images("reg/{daemon}:1"))["spec"]
    assert alone["updateStrategy"]["type"] == "RollingUpdate"
