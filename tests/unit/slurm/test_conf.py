# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.slurm.conf import (
    Block,
    CgroupConf,
    ConfError,
    GresConf,
    GresLine,
    NodeLine,
    NodeSetLine,
    PartitionLine,
    Setting,
    SlurmConf,
    SlurmctldHost,
    SlurmdbdConf,
    Switch,
    Topology,
    build_line,
    checked_cluster_name,
    find_problems,
    merge_options,
    parse,
    parse_devices,
    parse_fragment,
    render,
    topology,
    topology_setting,
)
from slinky.slurm.model.requests import node_conf

INJECTIONS = [
    "a\nb",
    "a\rb",
    "a b",
    "a\tb",
    'a"b',
    "a\\",
    "a#b",
    "",
    " ",
    "a=b",
    "a\x00",
    "x\u2028y",
    "$(id)",
]


def conf(**changes: object) -> SlurmConf:
    settings = {"cluster_name": "lab", "controllers": (SlurmctldHost("ctl", "10.0.0.1"),), **changes}
    return SlurmConf(**settings)  # type: ignore[arg-type]


def settings(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for item in parse(text):
        for setting in item:
            found.setdefault(setting.key, []).append(setting.value)
    return found


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("A=1\nB=2", [(("A", "1"),), (("B", "2"),)]),
        ("A=1 # a comment\n# another\n\n", [(("A", "1"),)]),
        ("A=1\\#2", [(("A", "1#2"),)]),
        ("A=1 \\\nB=2", [(("A", "1"), ("B", "2"))]),
        ("A=1 \\ \nB=2", [(("A", "1"), ("B", "2"))]),
        ("A=1 # not continued \\\nB=2", [(("A", "1"),), (("B", "2"),)]),
        ("A=a\\b\\\\c", [(("A", "ab\\c"),)]),
        ("A=a\\\\#d", [(("A", "a\\"),)]),
        ("A=a\\\\\\#d", [(("A", "a\\#d"),)]),
        ("A=a\\\\\nB=2", [(("A", "a\\"),), (("B", "2"),)]),
        ('A="x y" B=2', [(("A", "x y"), ("B", "2"))]),
        ("A = 1", [(("A", "1"),)]),
        ("A=1\r\nB=2\r\n", [(("A", "1"),), (("B", "2"),)]),
        ("Topology= Cores=2", [(("Topology", "Cores=2"),)]),
    ],
)
def test_text_is_read_as_slurmctld_reads_it(text: str, lines: list[tuple[tuple[str, str], ...]]) -> None:
    assert parse(text) == [tuple(Setting(*pair) for pair in item) for item in lines]


@pytest.mark.parametrize("text", ["A", "A=", "=1", "Include /etc/passwd", 'A="x', "A+=1", "A-=1", "A *= 1", "B=1 A/=1"])
def test_text_that_slurmctld_would_not_accept_is_rejected(text: str) -> None:
    with pytest.raises(ConfError):
        parse(text)


@given(st.lists(st.tuples(st.sampled_from(["A", "Nodes", "X_1"]), st.text(min_size=1, max_size=12)), min_size=1))
def test_rendered_text_parses_back_unchanged_or_is_rejected(pairs: list[tuple[str, str]]) -> None:
    try:
        model = build_line(*pairs)
    except ConfError:
        return
    assert parse(render([model])) == [model]


@given(st.text(max_size=80))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    try:
        lines = parse(text)
    except ConfError:
        return
    assert all(setting.value or setting.value == "" for item in lines for setting in item)


@given(st.text(max_size=60))
def test_a_fragment_adds_no_line(text: str) -> None:
    try:
        found = parse_fragment(text, refuse=("Nodes", "PartitionName"))
    except ConfError:
        return
    head = build_line(("PartitionName", "p"), ("Nodes", "n"))
    assert parse(render([head + found])) == [head + found]
    assert not any(setting.has_key("Nodes") for setting in found)


@pytest.mark.parametrize("bad", INJECTIONS)
def test_no_name_can_add_a_setting_to_slurm_conf(bad: str) -> None:
    for changes in (
        {"controllers": (SlurmctldHost(bad),)},
        {"controllers": (SlurmctldHost("a", bad or "x y"),)},
        {"cluster_name": bad},
        {"slurm_user": bad},
        {"accounting_host": bad},
        {"node_sets": (NodeSetLine(bad, "f"),)},
        {"node_sets": (NodeSetLine("s", bad),)},
        {"partitions": (PartitionLine(bad, "n"),)},
        {"partitions": (PartitionLine("p", bad or "x\n"),)},
        {"prolog": (bad,)},
    ):
        with pytest.raises(ConfError):
            conf(**changes).render()


@pytest.mark.parametrize(
    "bad",
    [
        "MaxTime=1\nPartitionName=x",
        "Topology= Cores=2",
        "Nodes=x",
        "partitionname=x",
        "A=1 #",
        "word",
        "A=1\\",
    ],
)
def test_no_partition_text_can_add_a_line_to_slurm_conf(bad: str) -> None:
    with pytest.raises(ConfError):
        conf(partitions=(PartitionLine("p", "n", bad),)).render()


def test_slurm_conf_has_the_settings_of_the_model() -> None:
    text = conf(
        auth_alt_parameters=("jwt_key=/etc/slurm/jwt.key",),
        slurmctld_parameters=("enable_configless",),
        accounting_host="dbd",
        metrics=True,
        nodes=(NodeLine("c[1-2]", (("CPUs", 2),)),),
        node_sets=(NodeSetLine("gpu", "gpu"),),
        partitions=(PartitionLine("gpu", "gpu", 'MaxTime=60 TRESBillingWeights="CPU=1.0,Mem=0.25G"'),),
        prolog=("b.sh", "a.sh"),
    ).render()
    found = settings(text)
    assert found["SlurmctldHost"] == ["ctl(10.0.0.1)"]
    assert found["AccountingStorageType"] == ["accounting_storage/slurmdbd"]
    assert found["Prolog"] == ["a.sh", "b.sh"]
    assert found["MetricsType"] == ["metrics/openmetrics"]
    assert "PartitionName=gpu Nodes=gpu MaxTime=60 TRESBillingWeights=CPU=1.0,Mem=0.25G" in text
    assert find_problems(text) == []


def test_options_of_model_and_extra_text_are_merged_and_the_model_wins() -> None:
    text = conf(
        slurmctld_parameters=("enable_configless", "timeout=5"),
        extra="slurmctldparameters=power_save_interval=3,timeout=9\nGresTypes=gpu",
    ).render()
    assert parse(text)[-1] == (Setting("SlurmctldParameters", "enable_configless,power_save_interval=3,timeout=5"),)
    assert merge_options("", "b,a") == "a,b"


def test_extra_text_that_slurmctld_would_not_accept_is_rejected() -> None:
    with pytest.raises(ConfError):
        conf(extra="this is not a setting").render()


@pytest.mark.parametrize("bad", ["", "UPPER", "a" * 41, "-a", "a.b", "a b"])
def test_a_cluster_name_must_be_valid_for_the_database(bad: str) -> None:
    with pytest.raises(ConfError):
        checked_cluster_name(bad)


def test_duplicate_definitions_are_found() -> None:
    text = "ClusterName=a\nNodeName=n[1-3]\nNodeName=n2\nPartitionName=p Nodes=n1\nPartitionName=p Nodes=n2\n"
    assert find_problems(text) == [
        "NodeName n2 is defined 2 times",
        "PartitionName p is defined 2 times",
        "SlurmctldHost is missing",
    ]
    assert find_problems("nonsense") == ["cannot read 'nonsense' as Key=Value"]


def test_the_database_password_may_have_special_characters_and_is_never_printed() -> None:
    model = SlurmdbdConf("dbd", "db", "slurm", "p#s w'd\\x", extra="AuthInfo=cred_expire=5")
    assert settings(model.render())["StoragePass"] == ["p#s w'd\\x"]
    assert settings(model.render())["AuthInfo"][-1] == "cred_expire=5,use_client_ids"
    assert "w'd" not in repr(model)
    with pytest.raises(ConfError):
        SlurmdbdConf("dbd", "db", "slurm", "a\nStorageUser=root").render()


def test_devices_always_name_their_nodes() -> None:
    text = GresConf((GresLine("k[1-3]", "gpu", "h100", files="/dev/nvidia[0-7]"),)).render()
    assert "NodeName=k[1-3] Name=gpu Type=h100 File=/dev/nvidia[0-7]" in text
    with pytest.raises(ConfError):
        GresConf((GresLine("k[", "gpu"),)).render()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gpu:h100:8", [("gpu", "h100", 8, ())]),
        ("gpu:8", [("gpu", "", 8, ())]),
        ("gpu", [("gpu", "", 1, ())]),
        ("gres/gpu:h100:2(IDX:0,3)", [("gpu", "h100", 2, (0, 3))]),
        ("gpu:a100:1(S:0-1),nic:2(IDX:0-1)", [("gpu", "a100", 1, ()), ("nic", "", 2, (0, 1))]),
        ("gpu:h100:0(IDX:N/A)", [("gpu", "h100", 0, ())]),
        ("(null)", []),
        ("", []),
    ],
)
def test_the_device_notation_is_parsed(text: str, found: list[tuple[str, str, int, tuple[int, ...]]]) -> None:
    assert [(item.name, item.type, item.count, item.indices) for item in parse_devices(text)] == found


def test_cgroup_conf_takes_only_plugins_that_exist() -> None:
    assert CgroupConf().render() == "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n"
    with pytest.raises(ConfError):
        CgroupConf(plugin="cgroup/v3").render()


TREE = (Switch("root", children="leaf[1-2]"), Switch("leaf1", nodes="c[1-2]"), Switch("leaf2"))


def test_topologies_parse_back_unchanged() -> None:
    model = (
        Topology("tree", cluster_default=True, switches=TREE),
        Topology("nvl", blocks=(Block("b1", "n[1-4]"), Block("b2")), block_sizes=(4, 8)),
        Topology("flat"),
    )
    assert topology.parse_topologies(topology.render_topologies(model)) == model


@pytest.mark.parametrize(
    "switches",
    [
        (Switch("a", children="b"),),
        (Switch("a", children="b"), Switch("b", children="a")),
        (Switch("a", children="c"), Switch("b", children="c"), Switch("c")),
        (Switch("a", nodes="n1"), Switch("b", nodes="n[1-2]")),
        (Switch("a", nodes="n1", children="b"), Switch("b")),
        (Switch("a"), Switch("a")),
        (Switch("a\nb"),),
    ],
)
def test_a_tree_that_slurmctld_would_reject_is_not_rendered(switches: tuple[Switch, ...]) -> None:
    with pytest.raises(ConfError):
        topology.render_topologies([Topology("t", switches=switches)])


@pytest.mark.parametrize("text", ["{", "a: 1", "- 1", "- {}", "- topology: x\n  tree: 3", "- tree: {}"])
def test_text_that_is_not_a_topology_is_rejected(text: str) -> None:
    with pytest.raises(ConfError):
        topology.parse_topologies(text)


def test_the_topology_setting_of_a_node_is_never_empty() -> None:
    assert topology_setting({"default": "leaf2", "nvl": "b1"}) == "default:leaf2,nvl:b1"
    with pytest.raises(ConfError):
        topology_setting({})
    with pytest.raises(ConfError):
        topology_setting({"default": ""})


@pytest.mark.parametrize("bad", ["", "a b", "x State=DOWN", "a\nb", "a=b"])
def test_a_node_line_has_one_setting_per_value(bad: str) -> None:
    assert node_conf("k1", CPUs=2, Topology="default:a") == "NodeName=k1 CPUs=2 Topology=default:a"
    with pytest.raises(ValueError, match="is not valid"):
        node_conf("k1", Topology=bad)
    with pytest.raises(ValueError, match="is not valid"):
        node_conf(bad)


@pytest.mark.parametrize("password", ["a\\b", "a\\", "\\\\", "a\\#b", "it's a $(secret) #1"])
def test_a_password_is_parsed_back_unchanged(password: str) -> None:
    text = SlurmdbdConf(host="h", storage_host="db", storage_user="u", storage_password=password).render()
    assert settings(text)["StoragePass"] == [password]
