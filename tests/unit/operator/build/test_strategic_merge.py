# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.operator.samples import controller, node_set

from slinky.kube.errors import Blocked
from slinky.operator.build.config_files import Files
from slinky.operator.build.pod_parts import DaemonHashes, Images
from slinky.operator.build.strategic_merge import merge
from slinky.operator.controller import config_trial, objects
from slinky.operator.controller.config_generation import Generation
from slinky.operator.nodeset import objects as node_objects
from slinky.operator.nodeset.objects import Slot, WorkerContext, WorkerHashes

BUILT = {
    "image": "ours",
    "args": ["-D"],
    "env": [{"name": "A", "value": "1"}],
    "securityContext": {"privileged": True, "runAsUser": 401},
    "livenessProbe": {"httpGet": {"path": "/livez"}, "failureThreshold": 6},
    "lifecycle": {"preStop": {"exec": {"command": ["down"]}}},
    "tolerations": [{"key": "worker"}],
    "volumes": [{"name": "logs", "emptyDir": {"medium": "Memory"}}, {"name": "etc", "projected": {"sources": [1]}}],
}

CASES: list[tuple[str, dict[str, Any], str, Any]] = [
    ("a value replaces", {"image": "theirs"}, "image", "theirs"),
    ("nothing leaves what is there", {"image": "", "args": [], "env": None, "securityContext": {}}, "image", "ours"),
    (
        "false is a value",
        {"securityContext": {"privileged": False}},
        "securityContext",
        {"privileged": False, "runAsUser": 401},
    ),
    ("zero is a value", {"securityContext": {"runAsUser": 0}}, "securityContext", {"privileged": True, "runAsUser": 0}),
    ("arguments are added", {"args": ["-v"]}, "args", ["-D", "-v"]),
    ("tolerations are added", {"tolerations": [{"key": "x"}]}, "tolerations", [{"key": "worker"}, {"key": "x"}]),
    ("items of one name merge", {"env": [{"name": "A", "value": "2"}]}, "env", [{"name": "A", "value": "2"}]),
    ("items of another name join", {"env": [{"name": "B"}]}, "env", [{"name": "A", "value": "1"}, {"name": "B"}]),
    (
        "another probe keeps the thresholds",
        {"livenessProbe": {"exec": {"command": ["true"]}}},
        "livenessProbe",
        {"exec": {"command": ["true"]}, "failureThreshold": 6},
    ),
    (
        "another handler replaces ours",
        {"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}},
        "lifecycle",
        {"preStop": {"sleep": {"seconds": 1}}},
    ),
    (
        "a reference replaces a value",
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]},
        "env",
        [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
    ),
    (
        "a volume of another kind replaces ours, one of the same kind adds to it",
        {"volumes": [{"name": "logs", "hostPath": {"path": "/x"}}, {"name": "etc", "projected": {"sources": [2]}}]},
        "volumes",
        [{"name": "logs", "hostPath": {"path": "/x"}}, {"name": "etc", "projected": {"sources": [1, 2]}}],
    ),
    ("new fields arrive", {"tty": True}, "tty", True),
]


@pytest.mark.parametrize(("law", "asked", "field", "result"), CASES, ids=[case[0] for case in CASES])
def test_a_spec_is_merged_over_what_the_operator_builds(
    law: str, asked: dict[str, Any], field: str, result: Any
) -> None:
    assert merge(BUILT, asked)[field] == result


def test_neither_side_is_changed() -> None:
    before = repr(BUILT)
    merge(BUILT, {"env": [{"name": "A", "value": "2"}], "args": ["x"]})
    assert repr(BUILT) == before


@pytest.mark.parametrize("value", ["x", 3, ["x"], [None], [[1]], [{"name": ["x"]}], [{"name": {}}]], ids=str)
@pytest.mark.parametrize("field", ["env", "volumes", "securityContext", "resources", "affinity", "volumeMounts"])
def test_a_value_of_a_wrong_type_is_reported_as_the_users_mistake(field: str, value: Any) -> None:
    """The CRDs accept any object for containers and pod specs, so that every builder meets such values."""
    if field == "volumeMounts" and isinstance(value, list) and isinstance(value[0], dict):
        return
    images, context = Images("x/{daemon}"), WorkerContext(controller(), WorkerHashes(), Images("x/{daemon}"), "d")
    spec, template = {field: value}, {"spec": {field: value}}
    builders: tuple[Callable[[], Any], ...] = (
        lambda: node_objects.pod(node_set(slurmd=spec), Slot(0), context),
        lambda: node_objects.pod(node_set(template=template), Slot(0, node="n"), context),
        lambda: objects.stateful_set(controller(slurmctld=spec), None, DaemonHashes(), Files(), images),
        lambda: config_trial.pod(controller(slurmctld=spec), Generation(1, "d", {}), "n", Files(), images),
        lambda: config_trial.pod(controller(template=template), Generation(1, "d", {}), "n", Files(), images),
    )
    for build in builders:
        with pytest.raises(Blocked) as refused:
            build()
        assert (refused.value.reason, field in refused.value.hint) == ("InvalidTemplate", True)
