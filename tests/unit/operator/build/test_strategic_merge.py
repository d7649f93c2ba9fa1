# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from slinky.kube.errors import Blocked
from slinky.operator.build.strategic_merge import merge

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


@pytest.mark.parametrize("items", [["x"], [None], [{"name": ["x"]}], [{"name": {}}]], ids=str)
@pytest.mark.parametrize("field", ["env", "volumes"])
def test_items_that_cannot_be_merged_are_the_users_business(field: str, items: list[Any]) -> None:
    with pytest.raises(Blocked) as refused:
        merge(BUILT, {field: items})
    assert (refused.value.reason, field in refused.value.hint) == ("InvalidTemplate", True)
