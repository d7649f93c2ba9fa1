# SPDX-License-Identifier: Apache-2.0
"""Each rule refuses the changes that it is meant for, and no others."""

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
from slinky.webhook.evaluate import AdmissionChange, RuleContext, evaluate
from slinky.webhook.rules.deletion import review_deletion
from slinky.webhook.rules.slurm_names import names_clash
from slinky.webhook.rules.text_checks import node_settings

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


def build(kind: str, name: str = "slurm", **spec: Any) -> Any:
    manifest = {"metadata": {"name": name, "namespace": "ns"}, "spec": {**SMALLEST[kind], **spec}}
    return msgspec.convert(manifest, RULES[kind].view)


def answer(kind: str, new: Any, old: Any = None, context: RuleContext | None = None) -> AdmissionResponse:
    return evaluate(RULES[kind], AdmissionChange(new, old, context or RuleContext()))


def nodeset(name: str, **spec: Any) -> NodeSet:
    node_set: NodeSet = build("nodeset", name, **spec)
    return node_set


@pytest.mark.parametrize("kind", SMALLEST)
def test_the_smallest_object_is_admitted_without_warnings(kind: str) -> None:
    assert answer(kind, build(kind)) == AdmissionResponse()


NAMED: list[tuple[str, str, str]] = [
    ("controller", "c" * 42, "longer than 52 characters, the maximum for the StatefulSet of slurmctld"),
    ("controller", "my.cluster", "lower-case letters, digits and dashes"),
    ("controller", "1st", "lower-case letters, digits and dashes"),
    ("accounting", "c" * 42, "longer than 52 characters, the maximum for the StatefulSet of slurmdbd"),
    ("restapi", "r" * 56, "longer than 63 characters, the maximum for a Service"),
    ("loginset", "a.b", "not a valid name for a Service"),
    ("nodeset", "a.b", "not a valid name for a label of its pods"),
    ("nodeset", "n" * 62, "the maximum for a host name with its ordinal"),
]


@pytest.mark.parametrize(("kind", "name", "why"), NAMED, ids=lambda value: str(value)[:30])
def test_a_name_that_a_child_could_not_have_is_refused(kind: str, name: str, why: str) -> None:
    reply = answer(kind, build(kind, name))
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
        "claim narrow must have the access mode ReadWriteMany",
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
    ("nodeset", {"partition": {"config": "Nodes+=ALL"}}, "spec.partition.config: Nodes+= is not allowed"),
    ("controller", {"extraConf": "SlurmctldParameters+=x"}, "spec.extraConf: SlurmctldParameters+= is not allowed"),
    ("controller", {"extraConf": "NodeName=a[0-40000]\nNodeName=b[0-40000]"}, "more than 65533 names"),
    ("nodeset", {"extraConf": "Weight+=1"}, "spec.extraConf: "),
    ("nodeset", {"partition": {"config": "Nodes=ALL"}}, "spec.partition.config: Nodes may not be set here"),
    ("nodeset", {"partition": {"config": "State=UP # PartitionName=x"}}, "spec.partition.config"),
    ("nodeset", {"partition": {"config": "MaxTime="}}, "spec.partition.config"),
    ("nodeset", {"partition": {"enabled": True}, **hosts("default-")}, "for default settings"),
    # host names
    ("nodeset", hosts("Gpu_"), "spec.template.spec.hostname"),
    ("nodeset", hosts("a.b-"), "spec.template.spec.hostname"),
    ("nodeset", {**hosts("h" * 60 + "-"), "replicas": 1000}, "longer than 63"),
    ("nodeset", {**hosts("a\nSlurmUser=root"), "scalingMode": "DaemonSet"}, "spec.template.spec.hostname"),
    ("nodeset", {**hosts("a,b"), "scalingMode": "DaemonSet"}, "spec.template.spec.hostname"),
    # the rest
    ("nodeset", {"volumeClaimTemplates": [{"metadata": {}}]}, "spec.volumeClaimTemplates[0].metadata.name"),
    ("nodeset", {"volumeClaimTemplates": [{"metadata": {"name": "a"}}] * 2}, "'a' is used twice"),
    ("nodeset", {"ssh": {"extraSshdConfig": "a\x00b"}}, "spec.ssh.extraSshdConfig"),
    ("nodeset", {"updateStrategy": {"scheduledUpdate": {"flags": ["a,b"]}}}, "scheduledUpdate.flags"),
    ("loginset", {"extraSshdConfig": "a\x07"}, "spec.extraSshdConfig: the control character"),
    ("loginset", {"rootSshAuthorizedKeys": "a\x00"}, "spec.rootSshAuthorizedKeys"),
    ("token", {"username": "a b"}, "spec.username"),
    ("token", {"username": "Alice_Smith"}, "set spec.secretRef"),
    ("token", {"secretRef": {"name": "keys", "key": "t"}}, "spec.secretRef: Secret keys contains the signing key"),
]

CONTEXT = RuleContext(
    config_maps={"own": frozenset({"slurm.conf", "gres.conf"}), "fine": frozenset({"gres.conf", "notes.txt"})},
    claims={"narrow": frozenset({"ReadWriteOnce"}), "wide": frozenset({"ReadWriteMany"})},
    replicas_managers=frozenset({"helm"}),
)


@pytest.mark.parametrize(("kind", "spec", "why"), REFUSED, ids=lambda value: str(value)[:60])
def test_invalid_or_malicious_fields_are_refused_by_name(kind: str, spec: dict[str, Any], why: str) -> None:
    reply = answer(kind, build(kind, **spec), context=CONTEXT)
    assert not reply.allowed
    assert why in reply.message


WARNED: list[tuple[str, dict[str, Any], str]] = [
    (
        "controller",
        {"configFileRefs": [{"name": "fine"}]},
        "notes.txt, which is not a known configuration file of Slurm",
    ),
    ("controller", {"service": {"spec": {"externalIPs": ["10.0.0.1"]}}}, "externalIPs are ignored"),
    ("controller", {"extraConf": "ClusterName=x"}, "ClusterName is set by the operator"),
    ("controller", {"externalConfig": {"host": "a", "port": 1}}, "spec.externalConfig has no effect"),
    ("accounting", {"externalConfig": {"host": "a", "port": 1}}, "spec.externalConfig has no effect"),
    ("accounting", {"service": {"spec": {"externalIPs": ["10.0.0.1"]}}}, "externalIPs are ignored"),
    ("restapi", {"service": {"spec": {"externalIPs": ["10.0.0.1"]}}}, "externalIPs are ignored"),
    ("loginset", {"service": {"spec": {"externalIPs": ["10.0.0.1"]}}}, "externalIPs are ignored"),
    ("nodeset", {"scalingMode": "DaemonSet", "pinToNode": True}, "spec.pinToNode has no effect in DaemonSet mode"),
    ("nodeset", {"pruneSlurmNodeRecords": "NodeNotFound"}, "has no effect in StatefulSet mode"),
    ("nodeset", {"partition": {"enabled": True}, **hosts("all-")}, "the partition contains all workers"),
    ("nodeset", {"drain": {"onTimeout": "Cancel"}}, "spec.drain.onTimeout has no effect without a timeout"),
    ("nodeset", {"autoscaling": {"maxReplicas": 4}}, "spec.replicas: helm sets the number of workers"),
    ("token", {"username": "root"}, "full control of the Slurm cluster"),
]


@pytest.mark.parametrize(("kind", "spec", "why"), WARNED, ids=lambda value: str(value)[:60])
def test_odd_objects_are_admitted_with_a_warning(kind: str, spec: dict[str, Any], why: str) -> None:
    reply = answer(kind, build(kind, **spec), context=CONTEXT)
    assert reply.allowed, reply.message
    assert any(why in text for text in reply.warnings), reply.warnings


@pytest.mark.parametrize("kind", ["controller", "accounting"])
def test_making_a_daemon_external_is_admitted_with_a_warning(kind: str) -> None:
    out = build(kind, external=True, externalConfig={"host": "outside.example", "port": 1})
    assert any("spec.external: the daemon" in text for text in answer(kind, out, build(kind)).warnings)
    assert not any("spec.external: the daemon" in text for text in answer(kind, build(kind), out).warnings)


ADMITTED: list[tuple[str, dict[str, Any]]] = [
    ("controller", {"extraConf": "SelectTypeParameters=CR_Core\nPartitionName=all Nodes=ALL Default=YES # day\n"}),
    ("controller", {"ha": {"enabled": True}, "persistence": {"existingClaim": "wide"}}),
    ("controller", {"ha": {"enabled": True}, "persistence": {"existingClaim": "not-there-yet"}}),
    ("nodeset", {"extraConf": "Weight=10 Gres=gpu:h100:8 Features=a,b CpuSpecList=0-3"}),
    ("nodeset", {"extraConf": "Gres=gpu:h100:8(S:0-1)\n"}),
    ("nodeset", hosts("default-")),
    ("nodeset", {"partition": {"enabled": True, "config": "State=UP MaxTime=UNLIMITED Default=YES"}}),
    ("nodeset", {"template": {"spec": {"hostname": "gpu-"}}, "replicas": 0}),
    ("nodeset", {"scalingMode": "DaemonSet"}),
    ("nodeset", {"autoscaling": {"maxReplicas": 4, "mode": "External"}}),
    ("loginset", {"extraSshdConfig": "X11Forwarding no\nMatch User a\r\n\tAllowTcpForwarding yes\n"}),
    ("token", {"username": "alice_smith", "secretRef": {"name": "alice", "key": "t"}}),
]


@pytest.mark.parametrize(("kind", "spec"), ADMITTED, ids=lambda value: str(value)[:60])
def test_valid_objects_are_admitted_without_warnings(kind: str, spec: dict[str, Any]) -> None:
    assert answer(kind, build(kind, **spec), context=CONTEXT) == AdmissionResponse()


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
def test_the_identity_of_a_cluster_is_immutable(
    kind: str, before: dict[str, Any], after: dict[str, Any], why: str
) -> None:
    reply = answer(kind, build(kind, **after), build(kind, **before))
    assert not reply.allowed
    assert why in reply.message


def test_another_spelling_of_the_same_identity_is_no_change() -> None:
    old = build("controller")
    new = build("controller", clusterName="ns_slurm", jwtKeyRef=None, jwtHs256KeyRef=KEY, persistence={"enabled": True})
    assert answer("controller", new, old).allowed


def test_what_was_wrong_already_only_warns_but_a_new_mistake_is_refused() -> None:
    old = build("nodeset", extraConf="oops")
    scaled = answer("nodeset", build("nodeset", extraConf="oops", replicas=3), old)
    assert scaled.allowed
    assert scaled.warnings == ("spec.extraConf: 'oops' is not Key=Value",)
    worse = answer("nodeset", build("nodeset", extraConf="oops and"), old)
    assert not worse.allowed
    assert "'and'" in worse.message


def test_an_update_that_leaves_the_spec_alone_is_never_refused() -> None:
    bad = build("controller", configFileRefs=[{"name": "gone"}])
    assert answer("controller", bad, bad) == AdmissionResponse()


def test_an_object_that_is_being_deleted_is_never_refused() -> None:
    bad = build("nodeset", extraConf="oops")
    leaving = msgspec.structs.replace(
        bad, metadata=msgspec.structs.replace(bad.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    )
    assert answer("nodeset", leaving, build("nodeset")) == AdmissionResponse()


def with_workers(workers: int, **annotations: str) -> NodeSet:
    node_set = nodeset("gpu")
    meta = msgspec.structs.replace(node_set.metadata, annotations=annotations)
    status = msgspec.structs.replace(node_set.status, replicas=workers)
    return msgspec.structs.replace(node_set, metadata=meta, status=status)


FORCED = {metadata.FORCE_DELETE: "true"}
CLUSTER: Controller = build("controller")


@pytest.mark.parametrize(
    ("target", "node_sets", "propagation", "allowed"),
    [
        (with_workers(2), [], "Foreground", False),
        (with_workers(2), [], "Background", True),
        (with_workers(2), [], "Orphan", True),
        (with_workers(2), [], "", True),
        (with_workers(0), [], "Foreground", True),
        (with_workers(2, **FORCED), [], "Foreground", True),
        (CLUSTER, [with_workers(1), with_workers(2)], "Foreground", False),
        (CLUSTER, [with_workers(0)], "Foreground", True),
        (CLUSTER, [with_workers(1)], "Background", True),
        (build("controller", external=True), [with_workers(1)], "Foreground", True),
        (build("restapi"), [], "Foreground", True),
    ],
)
def test_only_a_deletion_that_would_end_jobs_is_refused(
    target: Any, node_sets: list[NodeSet], propagation: str, allowed: bool
) -> None:
    assert review_deletion(target, RuleContext(node_sets=node_sets), propagation).allowed == allowed


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
    assert answer("nodeset", new, context=RuleContext(node_sets=(there,))).allowed is not clashing
    assert names_clash(new, there) == names_clash(there, new)


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
    assert answer("nodeset", nodeset("b", **hosts("gpu-")), context=RuleContext(node_sets=(there,))).allowed


@given(st.integers(0, 200), st.integers(0, 200), st.sampled_from(["n-", "n-1", "n-10", "m-", "n"]))
def test_sets_that_do_not_clash_have_no_host_in_common(first: int, second: int, prefix: str) -> None:
    one, other = nodeset("x", **hosts("n-")), nodeset("y", **hosts(prefix))
    assert names_clash(one, other) or one.hostname(first) != other.hostname(second)


@pytest.mark.parametrize("name", ["my.cluster", "c" * 50])
def test_the_worker_service_of_an_external_cluster_needs_a_valid_name(name: str) -> None:
    reply = answer("controller", build("controller", name, external=True, clusterName="c"))
    assert not reply.allowed
    assert "for a Service" in reply.message


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
def test_hosts_of_extra_conf_and_of_node_sets_never_clash(line: str, spec: dict[str, Any], clashing: bool) -> None:
    text: Controller = build("controller", extraConf=line)
    nodes = nodeset("gpu", replicas=2, **spec)
    assert answer("nodeset", nodes, context=RuleContext(controllers=(text,))).allowed is not clashing
    assert answer("controller", text, context=RuleContext(node_sets=(nodes,))).allowed is not clashing


def test_partitions_of_extra_conf_and_of_node_sets_never_clash() -> None:
    text: Controller = build("controller", extraConf="PartitionName=gpu Nodes=ALL")
    nodes = nodeset("gpu", partition={"enabled": True})
    assert not answer("nodeset", nodes, context=RuleContext(controllers=(text,))).allowed
    assert not answer("controller", text, context=RuleContext(node_sets=(nodes,))).allowed
    assert answer("nodeset", nodeset("gpu"), context=RuleContext(controllers=(text,))).allowed
