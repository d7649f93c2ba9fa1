# SPDX-License-Identifier: Apache-2.0
"""Each rule refuses what it is there for, and lets everything else in."""

import glob
import shlex
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slinky.api import Controller, NodeSet
from slinky.api.names import metadata
from slinky.kube import AdmissionResponse
from slinky.webhook.application import RULES
from slinky.webhook.deletion import farewell
from slinky.webhook.evaluate import AdmissionChange, RuleContext, judge
from slinky.webhook.slurm_names import clash
from slinky.webhook.text_checks import node_settings

KEY = {"name": "keys", "key": "k"}
SMALLEST: dict[str, dict[str, Any]] = {
    "controller": {"slurmKeyRef": KEY, "jwtKeyRef": KEY},
    "accounting": {
        "slurmKeyRef": KEY,
        "jwtKeyRef": KEY,
        "storageConfig": {"host": "db", "passwordKeyRef": KEY},
    },
    "restapi": {"controllerRef": {"name": "slurm"}},
    "loginset": {"controllerRef": {"name": "slurm"}, "sssdConfRef": KEY},
    "nodeset": {"controllerRef": {"name": "slurm"}},
    "token": {"jwtKeyRef": KEY, "username": "alice"},
}


def made(kind: str, name: str = "slurm", **spec: Any) -> Any:
    whole = {"metadata": {"name": name, "namespace": "ns"}, "spec": {**SMALLEST[kind], **spec}}
    return msgspec.convert(whole, RULES[kind].view)


def answer(kind: str, new: Any, old: Any = None, world: RuleContext | None = None) -> AdmissionResponse:
    return judge(RULES[kind], AdmissionChange(new, old, world or RuleContext()))


def nodeset(name: str, **spec: Any) -> NodeSet:
    found: NodeSet = made("nodeset", name, **spec)
    return found


@pytest.mark.parametrize("kind", SMALLEST)
def test_the_smallest_object_is_let_in_without_a_word(kind: str) -> None:
    assert answer(kind, made(kind)) == AdmissionResponse()


NAMED: list[tuple[str, str, str]] = [
    ("controller", "c" * 42, "longer than 52 characters, which the StatefulSet of slurmctld needs"),
    ("controller", "my.cluster", "lower-case letters, digits and dashes only"),
    ("controller", "1st", "lower-case letters, digits and dashes only"),
    ("accounting", "c" * 42, "longer than 52 characters, which the StatefulSet of slurmdbd needs"),
    ("restapi", "r" * 56, "longer than 63 characters, as a Service must"),
    ("loginset", "a.b", "as a Service must"),
    ("nodeset", "a.b", "as the label of its pods must"),
    ("nodeset", "n" * 62, "as a host name with its ordinal must"),
]


@pytest.mark.parametrize(("kind", "name", "why"), NAMED, ids=lambda value: str(value)[:30])
def test_a_name_that_a_child_could_not_have_is_refused(kind: str, name: str, why: str) -> None:
    reply = answer(kind, made(kind, name))
    assert not reply.allowed
    assert "metadata.name" in reply.message
    assert why in reply.message


def hosts(prefix: str) -> dict[str, Any]:
    return {"template": {"spec": {"hostname": prefix}}}


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    # a site's text in a configuration file
    ("controller", {"extraConf": "include /etc/shadow"}, "spec.extraConf: includes are not allowed"),
    ("controller", {"extraConf": "just words"}, "spec.extraConf: cannot read"),
    ("accounting", {"extraConf": "Include x"}, "spec.extraConf: includes are not allowed"),
    # cluster names
    ("controller", {"clusterName": "Caps"}, "spec.clusterName"),
    ("controller", {"clusterName": "a b"}, "spec.clusterName"),
    ("controller", {"clusterName": "../../etc"}, "spec.clusterName"),
    # references
    ("controller", {"configFileRefs": [{"name": "gone"}]}, "spec.configFileRefs: ConfigMap gone does not exist"),
    ("controller", {"configFileRefs": [{"name": "own"}]}, "slurm.conf, which is generated"),
    ("controller", {"prologScriptRefs": [{"name": "gone"}]}, "spec.prologScriptRefs: ConfigMap gone does not exist"),
    ("controller", {"epilogSlurmctldScriptRefs": [{"name": "gone"}]}, "spec.epilogSlurmctldScriptRefs"),
    (
        "controller",
        {"ha": {"enabled": True}, "persistence": {"existingClaim": "narrow"}},
        "claim narrow must offer ReadWriteMany",
    ),
    # the database
    ("accounting", {"storageConfig": {"host": "db\nStoragePass=x", "passwordKeyRef": KEY}}, "spec.storageConfig.host"),
    (
        "accounting",
        {"storageConfig": {"host": "db", "username": "a b", "passwordKeyRef": KEY}},
        "spec.storageConfig.username",
    ),
    # daemons outside
    (
        "controller",
        {"external": True, "externalConfig": {"host": "a\nSlurmUser=root", "port": 1}},
        "spec.externalConfig.host",
    ),
    ("accounting", {"external": True, "externalConfig": {"host": "a b", "port": 1}}, "spec.externalConfig.host"),
    # settings of nodes
    ("nodeset", {"extraConf": "Weight=1 oops"}, "spec.extraConf: 'oops' is not Key=Value"),
    ("nodeset", {"extraConf": "Weight="}, "is not Key=Value"),
    ("nodeset", {"extraConf": "Weight=$(reboot)"}, "spec.extraConf: the character '$'"),
    ("nodeset", {"extraConf": "Weight=1;reboot"}, "spec.extraConf: the character ';'"),
    ("nodeset", {"extraConf": "Weight=1' --evil '"}, "spec.extraConf: the character"),
    ("nodeset", {"extraConf": "Weight=1\nWeight=2"}, r"spec.extraConf: the character '\n'"),
    ("nodeset", {"extraConf": "NodeName=other"}, "spec.extraConf: NodeName may not be set here"),
    ("nodeset", {"extraConf": "nodeaddr=10.0.0.1"}, "spec.extraConf: nodeaddr may not be set here"),
    ("nodeset", {"extraConf": "Topology=default:s1"}, "spec.extraConf: Topology may not be set here"),
    # partitions
    ("nodeset", {"partition": {"config": "State=UP\n"}}, "spec.partition.config"),
    ("nodeset", {"partition": {"config": "Nodes=ALL"}}, "spec.partition.config: Nodes may not be set here"),
    ("nodeset", {"partition": {"config": "State=UP # PartitionName=x"}}, "spec.partition.config"),
    ("nodeset", {"partition": {"config": "MaxTime="}}, "spec.partition.config"),
    ("nodeset", {"partition": {"enabled": True}, **hosts("default-")}, "for the defaults of all others"),
    # host names
    ("nodeset", hosts("Gpu_"), "spec.template.spec.hostname"),
    ("nodeset", hosts("a.b-"), "spec.template.spec.hostname"),
    ("nodeset", {**hosts("h" * 60 + "-"), "replicas": 1000}, "longer than 63"),
    ("nodeset", {**hosts("a\nSlurmUser=root"), "scalingMode": "DaemonSet"}, "spec.template.spec.hostname"),
    ("nodeset", {**hosts("a,b"), "scalingMode": "DaemonSet"}, "spec.template.spec.hostname"),
    # the rest
    ("nodeset", {"volumeClaimTemplates": [{"metadata": {}}]}, "spec.volumeClaimTemplates[0].metadata.name"),
    ("nodeset", {"volumeClaimTemplates": [{"metadata": {"name": "a"}}] * 2}, "'a' is there twice"),
    ("nodeset", {"ssh": {"extraSshdConfig": "a\x00b"}}, "spec.ssh.extraSshdConfig"),
    ("nodeset", {"updateStrategy": {"scheduledUpdate": {"flags": ["a,b"]}}}, "scheduledUpdate.flags"),
    ("loginset", {"extraSshdConfig": "a\x07"}, "spec.extraSshdConfig: the control character"),
    ("loginset", {"rootSshAuthorizedKeys": "a\x00"}, "spec.rootSshAuthorizedKeys"),
    ("token", {"username": "a b"}, "spec.username"),
    ("token", {"username": "Alice_Smith"}, "set spec.secretRef"),
    ("token", {"secretRef": {"name": "keys", "key": "t"}}, "spec.secretRef: Secret keys holds the key that signs"),
]

WORLD = RuleContext(
    config_maps={"own": frozenset({"slurm.conf", "gres.conf"}), "fine": frozenset({"gres.conf", "notes.txt"})},
    claims={"narrow": frozenset({"ReadWriteOnce"}), "wide": frozenset({"ReadWriteMany"})},
)


@pytest.mark.parametrize(("kind", "spec", "why"), REFUSED, ids=lambda value: str(value)[:60])
def test_what_cannot_work_or_hides_something_is_refused_with_its_field(
    kind: str, spec: dict[str, Any], why: str
) -> None:
    reply = answer(kind, made(kind, **spec), world=WORLD)
    assert not reply.allowed
    assert why in reply.message


WARNED: list[tuple[str, dict[str, Any], str]] = [
    ("controller", {"configFileRefs": [{"name": "fine"}]}, "notes.txt, which is not a file Slurm is known to read"),
    ("controller", {"service": {"spec": {"externalIPs": ["10.0.0.1"]}}}, "externalIPs are ignored"),
    ("controller", {"extraConf": "ClusterName=x"}, "ClusterName follows from the rest"),
    ("controller", {"externalConfig": {"host": "a", "port": 1}}, "spec.externalConfig has no effect"),
    ("accounting", {"externalConfig": {"host": "a", "port": 1}}, "spec.externalConfig has no effect"),
    ("accounting", {"service": {"spec": {"externalIPs": ["10.0.0.1"]}}}, "externalIPs are ignored"),
    ("restapi", {"service": {"spec": {"externalIPs": ["10.0.0.1"]}}}, "externalIPs are ignored"),
    ("loginset", {"service": {"spec": {"externalIPs": ["10.0.0.1"]}}}, "externalIPs are ignored"),
    ("nodeset", {"scalingMode": "DaemonSet", "pinToNode": True}, "spec.pinToNode has no effect in DaemonSet mode"),
    ("nodeset", {"pruneSlurmNodeRecords": "NodeNotFound"}, "has no effect in StatefulSet mode"),
    ("nodeset", {"partition": {"enabled": True}, **hosts("all-")}, "the partition has all workers"),
    ("nodeset", {"drain": {"onTimeout": "Cancel"}}, "spec.drain.onTimeout has no effect without a timeout"),
    ("token", {"username": "root"}, "can do anything"),
]


@pytest.mark.parametrize(("kind", "spec", "why"), WARNED, ids=lambda value: str(value)[:60])
def test_what_is_odd_is_let_in_with_a_warning(kind: str, spec: dict[str, Any], why: str) -> None:
    reply = answer(kind, made(kind, **spec), world=WORLD)
    assert reply.allowed, reply.message
    assert any(why in text for text in reply.warnings), reply.warnings


@pytest.mark.parametrize("kind", ["controller", "accounting"])
def test_moving_a_daemon_out_is_let_in_with_a_warning(kind: str) -> None:
    out = made(kind, external=True, externalConfig={"host": "outside.example", "port": 1})
    assert any("spec.external: the daemon" in text for text in answer(kind, out, made(kind)).warnings)
    assert not any("spec.external: the daemon" in text for text in answer(kind, made(kind), out).warnings)


WELCOME: list[tuple[str, dict[str, Any]]] = [
    ("controller", {"extraConf": "SelectTypeParameters=CR_Core\nPartitionName=all Nodes=ALL Default=YES # day\n"}),
    ("controller", {"ha": {"enabled": True}, "persistence": {"existingClaim": "wide"}}),
    ("controller", {"ha": {"enabled": True}, "persistence": {"existingClaim": "not-there-yet"}}),
    ("nodeset", {"extraConf": "Weight=10 Gres=gpu:h100:8 Features=a,b CpuSpecList=0-3"}),
    ("nodeset", {"extraConf": "Gres=gpu:h100:8(S:0-1)\n"}),
    ("nodeset", hosts("default-")),
    ("nodeset", {"partition": {"enabled": True, "config": "State=UP MaxTime=UNLIMITED Default=YES"}}),
    ("nodeset", {"template": {"spec": {"hostname": "gpu-"}}, "replicas": 0}),
    ("nodeset", {"scalingMode": "DaemonSet"}),
    ("loginset", {"extraSshdConfig": "X11Forwarding no\nMatch User a\r\n\tAllowTcpForwarding yes\n"}),
    ("token", {"username": "alice_smith", "secretRef": {"name": "alice", "key": "t"}}),
]


@pytest.mark.parametrize(("kind", "spec"), WELCOME, ids=lambda value: str(value)[:60])
def test_what_is_fine_is_let_in_without_a_word(kind: str, spec: dict[str, Any]) -> None:
    assert answer(kind, made(kind, **spec), world=WORLD) == AdmissionResponse()


CONSTANT: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("controller", {}, {"clusterName": "other"}, "spec.clusterName is immutable (it is ns_slurm)"),
    ("controller", {"clusterName": "one"}, {}, "spec.clusterName is immutable (it is one)"),
    ("controller", {}, {"jwtKeyRef": {"name": "b", "key": "k"}}, "spec.jwtKeyRef is immutable"),
    ("controller", {}, {"persistence": {"enabled": False}}, "spec.persistence.enabled is immutable"),
    ("controller", {}, {"persistence": {"existingClaim": "a"}}, "spec.persistence.existingClaim is immutable"),
    ("accounting", {}, {"jwtKeyRef": {"name": "b", "key": "k"}}, "spec.jwtKeyRef is immutable"),
    ("token", {}, {"jwtKeyRef": {"name": "b", "key": "k"}}, "spec.jwtKeyRef is immutable"),
    ("nodeset", {}, {"volumeClaimTemplates": [{"metadata": {"name": "a"}}]}, "spec.volumeClaimTemplates is immutable"),
]


@pytest.mark.parametrize(("kind", "before", "after", "why"), CONSTANT, ids=lambda value: str(value)[:40])
def test_what_the_cluster_hangs_on_stays(kind: str, before: dict[str, Any], after: dict[str, Any], why: str) -> None:
    reply = answer(kind, made(kind, **after), made(kind, **before))
    assert not reply.allowed
    assert why in reply.message


def test_another_spelling_of_the_same_identity_is_no_change() -> None:
    old = made("controller")
    new = made("controller", clusterName="ns_slurm", jwtKeyRef=None, jwtHs256KeyRef=KEY, persistence={"enabled": True})
    assert answer("controller", new, old).allowed


def test_what_was_wrong_already_only_warns_but_a_new_mistake_is_refused() -> None:
    old = made("nodeset", extraConf="oops")
    scaled = answer("nodeset", made("nodeset", extraConf="oops", replicas=3), old)
    assert scaled.allowed
    assert scaled.warnings == ("spec.extraConf: 'oops' is not Key=Value",)
    worse = answer("nodeset", made("nodeset", extraConf="oops and"), old)
    assert not worse.allowed
    assert "'and'" in worse.message


def test_an_update_that_leaves_the_spec_alone_is_never_refused() -> None:
    bad = made("controller", configFileRefs=[{"name": "gone"}])
    assert answer("controller", bad, bad) == AdmissionResponse()


def test_an_object_on_its_way_out_is_never_refused() -> None:
    bad = made("nodeset", extraConf="oops")
    leaving = msgspec.structs.replace(
        bad, metadata=msgspec.structs.replace(bad.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    )
    assert answer("nodeset", leaving, made("nodeset")) == AdmissionResponse()


def staffed(workers: int, **annotations: str) -> NodeSet:
    found = nodeset("gpu")
    meta = msgspec.structs.replace(found.metadata, annotations=annotations)
    status = msgspec.structs.replace(found.status, replicas=workers)
    return msgspec.structs.replace(found, metadata=meta, status=status)


GIVEN_UP = {metadata.FORCE_DELETE: "true"}
CLUSTER: Controller = made("controller")


@pytest.mark.parametrize(
    ("at", "sets", "propagation", "allowed"),
    [
        (staffed(2), [], "Foreground", False),
        (staffed(2), [], "Background", True),
        (staffed(2), [], "Orphan", True),
        (staffed(2), [], "", True),
        (staffed(0), [], "Foreground", True),
        (staffed(2, **GIVEN_UP), [], "Foreground", True),
        (CLUSTER, [staffed(1), staffed(2)], "Foreground", False),
        (CLUSTER, [staffed(0)], "Foreground", True),
        (CLUSTER, [staffed(1)], "Background", True),
        (made("controller", external=True), [staffed(1)], "Foreground", True),
        (made("restapi"), [], "Foreground", True),
    ],
)
def test_only_a_deletion_that_would_end_work_is_refused(
    at: Any, sets: list[NodeSet], propagation: str, allowed: bool
) -> None:
    assert farewell(at, RuleContext(node_sets=sets), propagation).allowed == allowed


@pytest.mark.parametrize(
    ("one", "other", "clashing"),
    [
        ({}, {}, False),
        (hosts("gpu-"), hosts("gpu-"), True),
        (hosts("gpu-"), hosts("gpu"), True),
        (hosts("gpu-"), hosts("gpu-1"), True),
        (hosts("gpu-"), hosts("gpu-1-"), False),
        (hosts("gpu-"), {**hosts("gpu-1"), "scalingMode": "DaemonSet"}, False),
        (hosts("a-"), {}, True),
    ],
)
def test_two_sets_of_one_cluster_never_share_a_slurm_name(
    one: dict[str, Any], other: dict[str, Any], clashing: bool
) -> None:
    new, there = nodeset("b", **one), nodeset("a", **other)
    assert answer("nodeset", new, world=RuleContext(node_sets=(there,))).allowed is not clashing
    assert clash(new, there) == clash(there, new)


@given(
    st.text(alphabet=st.characters(codec="utf-8"), max_size=40) | st.from_regex(r"\A([A-Z][a-z]{1,4}=.{1,6} ?){1,3}\Z")
)
@example("Weight=1 Gres=gpu:8")
def test_a_shell_sees_in_accepted_settings_what_a_person_sees(text: str) -> None:
    if not list(node_settings("f", text)):
        assert shlex.split(text, comments=True) == text.split()
        assert glob.escape(text) == text


def test_another_cluster_may_use_the_same_names() -> None:
    there = nodeset("a", **{**hosts("gpu-"), "controllerRef": {"name": "other"}})
    assert answer("nodeset", nodeset("b", **hosts("gpu-")), world=RuleContext(node_sets=(there,))).allowed


@given(st.integers(0, 200), st.integers(0, 200), st.sampled_from(["n-", "n-1", "n-10", "m-", "n"]))
def test_sets_that_do_not_clash_have_no_host_in_common(first: int, second: int, prefix: str) -> None:
    one, other = nodeset("x", **hosts("n-")), nodeset("y", **hosts(prefix))
    assert clash(one, other) or one.hostname(first) != other.hostname(second)


@pytest.mark.parametrize("name", ["my.cluster", "c" * 50])
def test_a_cluster_outside_has_workers_whose_service_needs_a_name_too(name: str) -> None:
    reply = answer("controller", made("controller", name, external=True, clusterName="c"))
    assert not reply.allowed
    assert "as a Service must" in reply.message


@pytest.mark.parametrize(
    ("line", "spec", "clashing"),
    [
        ("NodeName=gpu-[0-1] CPUs=4", {}, True),
        ("NodeName=gpu-[2-9]", {}, False),
        ("NodeName=gpu-00", {}, False),
        ("NodeName=gpu-00", {"ordinalPadding": 2}, True),
        ("NodeName=gpu-0", {"scalingMode": "DaemonSet"}, False),
        ("NodeName=h-1", hosts("h-"), True),
        ("NodeName=gpu-x,other[1", {}, False),
        (f"NodeName=gpu-{'9' * 5000}", {}, False),
        ("NodeSet=gpu Feature=x", {}, True),
        ("PartitionName=gpu Nodes=ALL", {}, False),
    ],
    ids=lambda value: str(value)[:30],
)
def test_hosts_of_the_text_and_of_node_sets_never_clash(line: str, spec: dict[str, Any], clashing: bool) -> None:
    text: Controller = made("controller", extraConf=line)
    nodes = nodeset("gpu", replicas=2, **spec)
    assert answer("nodeset", nodes, world=RuleContext(controllers=(text,))).allowed is not clashing
    assert answer("controller", text, world=RuleContext(node_sets=(nodes,))).allowed is not clashing


def test_partitions_of_the_text_and_of_node_sets_never_clash() -> None:
    text: Controller = made("controller", extraConf="PartitionName=gpu Nodes=ALL")
    nodes = nodeset("gpu", partition={"enabled": True})
    assert not answer("nodeset", nodes, world=RuleContext(controllers=(text,))).allowed
    assert not answer("controller", text, world=RuleContext(node_sets=(nodes,))).allowed
    assert answer("nodeset", nodeset("gpu"), world=RuleContext(controllers=(text,))).allowed
