# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.operator.samples import controller, node_set

from slinky.operator.nodeset.arguments import arguments, environment, node_conf
from slinky.slurm.conf import ConfError

CASES = [
    ("the set's own feature", "", "Features=gpu"),
    ("features are joined, once each, sorted", "Features=z,a,gpu", "Features=a,gpu,z"),
    ("features by either name", "Feature=b Features=a", "Features=a,b,gpu"),
    ("others keep their value", "weight=3 Gres=gpu:h100:8(S:0-1)", "Features=gpu Gres=gpu:h100:8(S:0-1) Weight=3"),
]


@pytest.mark.parametrize(("law", "extra", "text"), CASES, ids=[case[0] for case in CASES])
def test_what_a_worker_says_of_itself(law: str, extra: str, text: str) -> None:
    assert node_conf(node_set(extraConf=extra)) == text


REFUSED = [
    "Gres=$(reboot)",
    "Gres=a'b",
    "Gres=`id`",
    "Gres=a;b",
    "Gres=a|b",
    "Gres=a&b",
    "A=1\nB=2",
    "Topology=x",
    "NodeName=y",
    "NodeAddr=y",
    "Features+=y",
    "Weight=",
    "Weight",
    'Gres="a b"',
    "Gres=a\\",
    "Gres=>x",
]


@pytest.mark.parametrize("extra", REFUSED)
def test_nothing_reaches_a_command_line_that_a_shell_could_read(extra: str) -> None:
    with pytest.raises(ConfError):
        node_conf(node_set(extraConf=extra))


@given(st.text(max_size=40))
def test_whatever_passes_stays_inside_its_quotes(extra: str) -> None:
    try:
        words = arguments(node_set(extraConf=extra), controller())
    except ConfError:
        return
    inside = words[-1][1:-1]
    assert words[-1] == f"'{inside}'"
    assert not set(inside) & set("'\"`$\\;&|<>\n\r")
    assert "= " not in inside
    assert not inside.endswith("=")


def test_the_controller_is_named_by_its_service() -> None:
    assert arguments(node_set(), controller())[:3] == ["-Z", "--conf-server", "slurm-controller.ns:6817"]
    external = controller(external=True, externalConfig={"host": "ctl.example", "port": 7000})
    assert arguments(node_set(), external)[2] == "ctl.example:7000"


@pytest.mark.parametrize("host", ["a;reboot", "a b", "$(id)", "a\nb", "`id`"])
def test_an_address_outside_is_a_word_before_a_shell_may_read_it(host: str) -> None:
    external = controller(external=True, externalConfig={"host": host, "port": 7000})
    with pytest.raises(ConfError):
        arguments(node_set(), external)


@pytest.mark.parametrize(
    ("container", "pod", "cpus", "memory"),
    [
        ({}, {}, "0", "0"),
        ({"resources": {"limits": {"cpu": "1500m", "memory": "2Gi"}}}, {}, "2", "2048"),
        ({}, {"resources": {"limits": {"cpu": 4}}}, "4", "0"),
    ],
    ids=["no limit", "the container's", "the pod's"],
)
def test_limits_reach_the_worker(container: dict[str, object], pod: dict[str, object], cpus: str, memory: str) -> None:
    variables = {entry["name"]: entry.get("value") for entry in environment(container, pod)}
    assert (variables["POD_CPUS"], variables["POD_MEMORY"]) == (cpus, memory)
