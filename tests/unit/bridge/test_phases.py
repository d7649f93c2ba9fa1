# SPDX-License-Identifier: Apache-2.0
"""Grouping, constraints, placement, identity, words."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.bridge import config, constrain, identity, intake, kinds, names, place, policy, reasons, watch, workload
from slinky.bridge.config import ConfigError, PriorityRule, Rule
from slinky.bridge.devices.classes import Catalog
from slinky.bridge.identity import Self
from slinky.bridge.place import Misplaced
from slinky.bridge.views import (
    BatchJob,
    JobSet,
    LeaderWorkerSet,
    NativeGroup,
    NodeSelector,
    PodGroup,
)
from slinky.bridge.views.native import VERSIONS, native_groups
from slinky.bridge.workload import Missing, Unit
from slinky.kube import Discovery, Key, Object, Served
from slinky.slurm import JobRequest

from .build import NOW, needing, node, pod, record

ME = Self("cluster-uid", "bridge")
META = {"name": "g", "namespace": "ns"}


def nothing(kind: str, key: Key) -> None:
    return None


def nobody(job: str) -> None:
    return None


# --- workload


@pytest.mark.parametrize(
    ("labels", "spec", "expected"),
    [
        ({}, {}, Unit("ns", "Pod", "p")),
        ({names.JOB_NAME: "j"}, {}, Unit("ns", "Pod", "p")),
        ({names.JOBSET_NAME: "js"}, {}, Unit("ns", "Pod", "p")),
        ({names.POD_GROUP_LABEL: "g"}, {}, Unit("ns", "PodGroup", "g")),
        ({names.LWS_NAME: "l", names.LWS_GROUP: "2"}, {}, Unit("ns", "LeaderWorkerSet", "l", "2")),
        ({names.POD_GROUP_LABEL: "g"}, {"schedulingGroup": {"podGroupName": "n"}}, Unit("ns", "NativeGroup", "n")),
    ],
)
def test_the_grouping_object_that_wins(labels: dict[str, str], spec: dict[str, object], expected: Unit) -> None:
    found = pod(labels=labels, spec=spec)
    assert workload.unit_of(found, nothing, nobody) == expected
    assert workload.group_index(expected) in workload.groups_of(found)


def test_batch_jobs_and_jobsets_are_gangs_only_if_they_say_so() -> None:
    asking = msgspec.convert({"metadata": {**META, "annotations": {workload.GANG: "true"}}}, BatchJob)

    def find(kind: str, key: Key) -> Object | None:
        return asking if kind == "Job" and key == Key("ns", "j") else None

    assert workload.unit_of(pod(labels={names.JOB_NAME: "j"}), find, nobody) == Unit("ns", "Job", "j")
    assert workload.unit_of(pod(labels={names.JOB_NAME: "k"}), find, nobody) == Unit("ns", "Pod", "p")


@pytest.mark.parametrize(("kind", "label"), [("Job", names.JOB_NAME), ("JobSet", names.JOBSET_NAME)])
def test_a_pod_with_the_job_of_a_gang_stays_in_it_when_its_root_is_gone(kind: str, label: str) -> None:
    gang = Unit("ns", kind, "j")
    jobs = {"7": gang, "8": Unit("ns", "Pod", "p"), "9": Unit("other", kind, "j")}
    homes = {job: workload.unit_of(pod(labels={label: "j"}, job=job), nothing, jobs.get) for job in ("7", "8", "9")}
    alone = Unit("ns", "Pod", "p")
    assert homes == {"7": gang, "8": alone, "9": alone}
    assert workload.unit_of(pod(labels={label: "j"}), nothing, jobs.get) == alone


def owned(uid: str, kind: str = "Job", group: str = "batch") -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1", "kind": kind, "name": "j", "uid": uid, "controller": True}


def test_an_owner_counts_as_seen_by_its_uid_and_so_do_those_above_it() -> None:
    job = msgspec.convert({"metadata": {**META, "uid": "u1", "ownerReferences": [owned("s1", "JobSet")]}}, BatchJob)
    job_set = msgspec.convert({"metadata": {**META, "uid": "s1"}}, JobSet)
    there: dict[str, Object] = {}

    def unseen(uid: str, *kinds: str) -> str:
        young = pod(owners=[owned(uid)])
        found = workload.unseen(young, lambda kind, _: there.get(kind), lambda owner: owner.kind in kinds)
        return found.kind if found else ""

    assert unseen("u1", "Job", "JobSet") == "Job"
    there["Job"] = job
    assert unseen("u1", "Job", "JobSet") == "JobSet"
    assert unseen("u1", "Job") == ""  # nobody watches what is above
    there["JobSet"] = job_set
    assert unseen("u1", "Job", "JobSet") == ""
    assert unseen("u2", "Job", "JobSet") == "Job"  # another under the same name
    assert workload.unseen(pod(), nothing, lambda _: True) is None


def served(*kinds: tuple[str, str, str]) -> Discovery:
    return Discovery(Served(group, version, kind, f"{kind.lower()}s", True) for group, version, kind in kinds)


def test_grouping_kinds_that_come_later_or_in_another_version_are_news() -> None:
    sets, old = ("jobset.x-k8s.io", "v1alpha2", "JobSet"), ("scheduling.k8s.io", "v1alpha2", "PodGroup")
    new = ("scheduling.k8s.io", "v1beta1", "PodGroup")
    at_first = kinds.grouping(served(old))
    assert list(at_first) == ["Job", "NativeGroup"]
    assert kinds.news(at_first, served(old)) == ""
    assert kinds.news(at_first, served(old, sets)) == "JobSet of jobset.x-k8s.io/v1alpha2"
    assert kinds.news(at_first, served(old, new)) == "PodGroup of scheduling.k8s.io/v1beta1"
    # What goes is no reason: a server that is just starting may not tell of everything.
    assert kinds.news(at_first, served()) == ""


@pytest.mark.parametrize(
    ("kind", "spec", "needed"),
    [
        (PodGroup, {"minMember": 3}, 3),
        (PodGroup, {}, 1),
        (NativeGroup, {"schedulingPolicy": {"gang": {"minCount": 4}}}, 4),
        (NativeGroup, {"schedulingPolicy": {}}, 1),
        (LeaderWorkerSet, {"leaderWorkerTemplate": {"size": 5}}, 5),
        (BatchJob, {"parallelism": 4, "completions": 2}, 2),
        (JobSet, {"replicatedJobs": [{"replicas": 2, "template": {"spec": {"parallelism": 3}}}, {"replicas": 1}]}, 7),
    ],
)
def test_how_many_members_make_a_gang(kind: type[Object], spec: dict[str, object], needed: int) -> None:
    found = msgspec.convert({"metadata": META, "spec": spec}, kind)
    assert workload.root_of_group(Unit("ns", "X", "g"), found, nothing).needed == needed


@pytest.mark.parametrize(("completions", "succeeded", "needed"), [(9, 4, 4), (9, 7, 2), (9, 9, 1), (None, 3, 4)])
def test_pods_that_have_succeeded_are_not_waited_for(completions: int | None, succeeded: int, needed: int) -> None:
    done = {"spec": {"parallelism": 4, "completions": completions}, "status": {"succeeded": succeeded}}
    job = msgspec.convert({"metadata": META, **done}, BatchJob)
    assert workload.root_of_group(Unit("ns", "Job", "g"), job, nothing).needed == needed


def test_batch_jobs_of_a_jobset_that_have_succeeded_are_not_waited_for() -> None:
    shape = {"parallelism": 2, "completions": 2}
    spec = {"replicatedJobs": [{"name": "w", "replicas": 3, "template": {"spec": shape}}]}
    job_set = msgspec.convert({"metadata": {**META, "uid": "s1"}, "spec": spec}, JobSet)

    def find(kind: str, key: Key) -> Object | None:
        """The first is done, the second half done, the third is left over from an older JobSet of the same name."""
        uid, succeeded = {"g-w-0": ("s1", 2), "g-w-1": ("s1", 1), "g-w-2": ("s0", 2)}[key.name]
        meta = {"name": key.name, "ownerReferences": [owned(uid, "JobSet")]}
        return msgspec.convert({"metadata": meta, "spec": shape, "status": {"succeeded": succeeded}}, BatchJob)

    assert workload.root_of_group(Unit("ns", "JobSet", "g"), job_set, find).needed == 0 + 1 + 2


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"startupPolicy": {"startupPolicyOrder": "InOrder"}}, True),
        ({"startupPolicy": {"startupPolicyOrder": "AnyOrder"}}, False),
        ({"replicatedJobs": [{"name": "a"}, {"name": "b", "dependsOn": [{"name": "a", "status": "Ready"}]}]}, True),
    ],
)
def test_a_jobset_whose_batch_jobs_wait_for_each_other_says_so(spec: dict[str, Any], told: bool) -> None:
    found = msgspec.convert({"metadata": META, "spec": spec}, JobSet)
    assert bool(workload.root_of_group(Unit("ns", "JobSet", "g"), found, nothing).hint) is told


@pytest.mark.parametrize(
    ("version", "spec", "name"),
    [
        ("v1alpha2", {"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}}, "w"),
        ("v1beta1", {"workloadRef": {"workloadName": "w", "templateName": "t"}}, "w"),
        ("v1alpha3", {"workloadRef": {"workloadName": "w", "templateName": "t"}}, "w"),
        ("v1beta1", {"podGroupTemplateRef": {"workload": {"workloadName": "w"}}}, ""),
    ],
)
def test_each_version_of_the_native_group_has_its_own_reference(version: str, spec: dict[str, Any], name: str) -> None:
    found = msgspec.convert({"metadata": META, "spec": {"schedulingPolicy": {}, **spec}}, VERSIONS[version])
    assert found.workload == name


def test_the_best_version_that_is_understood_is_chosen() -> None:
    chosen = native_groups(["v1", "v1alpha2", "v1beta1"])
    assert chosen is not None
    assert chosen.version == "v1beta1"
    assert native_groups(["v1alpha1", "v2"]) is None


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"parentCompositePodGroupName": "p"}, "groups of groups"),
        ({"schedulingConstraints": {"topology": [{"key": "rack"}]}}, "switches"),
        ({"schedulingConstraints": {"topology": []}}, ""),
    ],
)
def test_what_a_native_group_demands_in_vain_is_told(spec: dict[str, Any], words: str) -> None:
    found = msgspec.convert({"metadata": META, "spec": spec}, VERSIONS["v1beta1"])
    problem = workload.root_of_group(Unit("ns", "NativeGroup", "g"), found, nothing).problem
    assert words in problem if words else not problem


def test_a_group_without_its_object_waits() -> None:
    with pytest.raises(Missing):
        workload.root_of_group(Unit("ns", "PodGroup", "g"), None, nothing)


def test_pods_of_the_same_group_name_elsewhere_are_strangers() -> None:
    unit = Unit("ns", "PodGroup", "g")
    stranger = pod(namespace="other", labels={names.POD_GROUP_LABEL: "g"})
    assert workload.unit_of(stranger, nothing, nobody) != unit


def test_rank_follows_indexes_and_then_counts_as_people_do() -> None:
    named = [pod(f"w-{i}") for i in (10, 9, 1)]
    assert [p.metadata.name for p in sorted(named, key=workload.rank)] == ["w-1", "w-9", "w-10"]
    indexed = [pod("a", labels={names.LWS_WORKER: "1"}), pod("b", labels={names.LWS_WORKER: "0"})]
    assert [p.metadata.name for p in sorted(indexed, key=workload.rank)] == ["b", "a"]


# --- constrain

TERM = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}]}


@pytest.mark.parametrize(
    ("spec", "suits", "not_suits"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, {"labels": {"disk": "ssd"}}, {"labels": {"disk": "hdd"}}),
        (
            {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERM}}},
            {"labels": {"zone": "b"}},
            {"labels": {"zone": "c"}},
        ),
        ({}, {}, {"taints": [{"key": "x", "effect": "NoSchedule"}]}),
        (
            {"tolerations": [{"key": "x", "operator": "Exists"}]},
            {"taints": [{"key": "x", "effect": "NoExecute"}]},
            {"taints": [{"key": "y", "effect": "NoExecute"}]},
        ),
        (
            {},
            {"taints": [{"key": "x", "effect": "PreferNoSchedule"}]},
            {"taints": [{"key": "x", "effect": "NoExecute"}]},
        ),
    ],
)
def test_what_a_pod_can_never_use(spec: dict[str, Any], suits: dict[str, Any], not_suits: dict[str, Any]) -> None:
    shape = constrain.shape_of(pod(spec=spec))
    assert not constrain.why_not(shape, node(**suits), Catalog())
    assert constrain.why_not(shape, node(**not_suits), Catalog())


@pytest.mark.parametrize(
    "taint",
    [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
        {"key": names.MANAGED_TAINT, "effect": "NoExecute", "value": names.SCHEDULER},
    ],
)
def test_what_passes_by_waiting_is_no_constraint(taint: dict[str, str]) -> None:
    assert not constrain.why_not(constrain.shape_of(pod()), node(taints=[taint]), Catalog())


def test_a_full_node_is_slurms_business_and_a_small_one_is_ours() -> None:
    shape = constrain.shape_of(needing({"cpu": "4", "example.com/fpga": "1"}))
    assert "fpga" in constrain.why_not(shape, node(), Catalog())
    assert not constrain.why_not(shape, node(amounts={"example.com/fpga": "1"}), Catalog())


def test_a_resource_behind_a_device_class_is_not_asked_of_the_kubelet() -> None:
    shape = constrain.shape_of(needing({"example.com/gpu": "1"}))
    assert not constrain.why_not(shape, node(), Catalog({"example.com/gpu": "gpu.example.com"}))


def test_volumes_keep_a_pod_where_they_are() -> None:
    local = msgspec.convert(TERM, NodeSelector)
    shape = constrain.shape_of(pod(), [local])
    assert constrain.excluded(shape, [node("a", labels={"zone": "a"}), node("z")], Catalog()) == {"z"}


@pytest.mark.parametrize(
    ("operator", "values", "label", "holds"),
    [
        ("NotIn", ["a"], None, True), ("NotIn", ["a"], "a", False), ("Exists", [], "a", True),
        ("DoesNotExist", [], "a", False), ("Gt", ["3"], "4", True), ("Gt", ["3"], "x", False),
        ("Lt", ["3"], "2", True), ("Weird", [], "a", False),
        # Numbers are compared as numbers, strictly, and only where both are.
        ("Gt", ["9"], "10", True), ("Lt", ["10"], "9", True), ("Gt", ["3"], "3", False), ("Lt", ["3"], "3", False),
        ("Gt", ["-5"], "-4", True), ("Lt", ["-4"], "-5", True), ("Gt", ["3"], None, False), ("Lt", ["3"], None, False),
        ("Lt", ["3"], "x", False), ("Gt", ["x"], "4", False), ("Gt", [], "4", False), ("Lt", ["3.5"], "3", False),
    ],
)  # fmt: skip
def test_label_operators(operator: str, values: list[str], label: str | None, holds: bool) -> None:
    term = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": operator, "values": values}]}]}
    found = node(labels={"k": label} if label else {})
    assert constrain.selects(msgspec.convert(term, NodeSelector), found) is holds


# --- place


def test_ranks_follow_slurms_order_of_hosts() -> None:
    pods = [pod(f"w-{i}", job="7") for i in (2, 0, 1)]
    found = place.assign(pods, ["h3", "h1", "h2"], {f"h{i}": f"n{i}" for i in (1, 2, 3)})
    assert found == {"uid-w-0": "n3", "uid-w-1": "n1", "uid-w-2": "n2"}


def test_what_was_assigned_stays() -> None:
    pods = [pod("w-0"), pod("w-1", annotations={names.NODE_ANNOTATION: "a"}), pod("w-2", node="b")]
    found = place.assign(pods, ["a", "b", "c"], {n: n for n in "abc"})
    assert found == {"uid-w-0": "c", "uid-w-1": "a", "uid-w-2": "b"}


@pytest.mark.parametrize(
    ("pods", "hosts"), [([pod("a"), pod("b")], ["a"]), ([pod("a")], ["strange"]), ([pod("a", node="z")], ["a"])]
)
def test_a_job_that_does_not_suit_its_pods_is_told(pods: list[object], hosts: list[str]) -> None:
    with pytest.raises(Misplaced):
        place.assign(pods, hosts, {n: n for n in "abc"})  # type: ignore[arg-type]


@given(st.integers(1, 60), st.integers(1, 8), st.randoms())
def test_no_place_is_given_twice(count: int, per_node: int, dice: object) -> None:
    hosts = [f"h{i}" for i in range(-(-count // per_node))]
    pods = [pod(f"p-{i}") for i in range(count)]
    dice.shuffle(pods)  # type: ignore[attr-defined]
    found = place.assign(pods, hosts, {host: host for host in hosts}, per_node)
    assert len(found) == count
    assert max(list(found.values()).count(host) for host in hosts) <= per_node


def test_a_gang_without_its_options_is_placed_as_it_was() -> None:
    bound = [pod(f"p-{i}", node="a") for i in range(2)]
    assert place.crowding([*bound, pod("p-2")], ["a", "b"]) == 2
    assert place.crowding([pod("p")], ["a"]) == 1


# --- identity


def test_a_job_says_whose_it_is_and_for_which_pods() -> None:
    (signed,) = identity.sign([JobRequest(name="x")], [[pod()]], ME, "ns/Pod/p")
    comment = identity.parse(signed.admin_comment or "")
    assert comment is not None
    assert comment.pods == ["ns/p"]
    assert identity.ours(comment, ME)
    assert identity.speaks_for(comment, ME, pod())
    assert comment.slinky.members == identity.members([pod()]) != identity.members([pod(uid="another")])


@pytest.mark.parametrize("text", ["", "hello", "{}", '{"a": 1}', "[1]", '{"pods": "x"}', "\x00"])
def test_anybody_elses_comment_is_nobody(text: str) -> None:
    assert identity.parse(text) is None


def test_another_bridge_or_cluster_is_foreign() -> None:
    (signed,) = identity.sign([JobRequest()], [[pod()]], ME, "u")
    comment = identity.parse(signed.admin_comment or "")
    assert not identity.ours(comment, Self("other", "bridge"))
    assert not identity.ours(comment, Self("cluster-uid", "other"))
    assert not identity.speaks_for(comment, Self("other", "bridge"), pod())


def test_a_job_of_an_older_bridge_is_recognised_by_name_and_never_ours_to_cancel() -> None:
    old = identity.parse('{"pods":["ns/p"]}')
    assert identity.speaks_for(old, ME, pod())
    assert not identity.ours(old, ME)


def test_a_placed_pod_knows_its_job_whatever_becomes_of_the_comment() -> None:
    placed = pod(node="n1", annotations={names.SLUID_ANNOTATION: "s1"})
    assert identity.speaks_for(None, ME, placed, "s1")
    assert not identity.speaks_for(identity.parse('{"pods":["ns/p"]}'), ME, placed, "s2")


def test_a_pod_without_a_node_cannot_choose_its_job() -> None:
    posing = pod(job="7", annotations={names.SLUID_ANNOTATION: "s1"})
    assert not identity.speaks_for(identity.parse('{"pods":["ns/another"]}'), ME, posing, "s1")


def test_the_digest_follows_the_wish_and_not_the_signature() -> None:
    wish = JobRequest(name="x")
    assert identity.digest(identity.sign([wish], [[pod()]], ME, "u")) == identity.digest([wish])
    assert identity.digest([wish]) != identity.digest([JobRequest(name="y")])


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        ({}, {"constraints": "a100"}, ""),
        ({"constraints": "a100"}, {"constraints": "h100"}, ""),
        ({"constraints": "a100", "qos": "high"}, {"qos": "high"}, "cannot be rid of constraints"),
        ({"excluded_nodes": ("n1",)}, {}, ""),  # this an update can take back
        ({"hold": True}, {}, ""),  # somebody else's to release
        ({"shared": ("none",)}, {"shared": ()}, "shares nodes"),
        ({"user_id": "alice"}, {"user_id": "bob"}, "its user"),
    ],
)
def test_a_waiting_job_is_replaced_for_what_an_update_cannot_say(before: Any, now: Any, words: str) -> None:
    (signed,) = identity.sign([JobRequest(**before)], [[pod()]], ME, "u")
    comment = identity.parse(signed.admin_comment or "")
    assert comment is not None
    told = identity.outgrown(comment.slinky, [JobRequest(**now)])
    assert words in told if words else not told


def test_what_one_component_asks_for_is_not_anothers() -> None:
    plain, devices = JobRequest(), JobRequest(tres_per_node="gres/gpu:1")
    signed = identity.sign([plain, devices], [[pod("a")], [pod("b")]], ME, "u")
    comment = identity.parse(signed[0].admin_comment or "")
    assert comment is not None
    assert "tres_per_node+1" in identity.outgrown(comment.slinky, [devices, plain])
    assert identity.outgrown(identity.Identity(identity.VERSION), [plain]) == ""  # signed by an older version of ours


# --- words


def test_every_reason_has_a_sentence() -> None:
    for token in (*reasons.WAITING, "QOSMaxCpuPerUserLimit", "AssocGrpCpuLimit", "SomethingNew", ""):
        assert str(reasons.waiting(token)).strip()
    assert "SomethingNew" in str(reasons.waiting("SomethingNew"))
    assert reasons.waiting("ReqNodeNotAvail, UnavailableNodes:k001").sentence.startswith("Nodes")


def test_a_start_that_hardly_moved_is_no_news() -> None:
    said = watch.of_pending(record("7", "PENDING", reason="Priority"))
    old = pod(
        status={
            "conditions": [{"type": names.SCHEDULED, "status": "False", "reason": "Priority", "message": said.message}]
        }
    )
    assert not watch.news(old, said, NOW)
    assert watch.news(pod(), said, NOW)


@pytest.mark.parametrize(
    ("before", "after", "alike"),
    [("12:10", "12:11", True), ("12:10", "12:13", False), ("22:00", "22:45", True), ("22:00", "23:30", False)],
)
def test_a_start_that_is_far_away_may_move_more(before: str, after: str, alike: bool) -> None:
    first, second = (f"x. Expected to start at 2026-06-01T{time}:00Z." for time in (before, after))
    assert watch.alike(first, second, NOW) is watch.alike(second, first, NOW) is alike
    assert not watch.alike(first, second.replace("x.", "y."), NOW)


@given(st.text(max_size=60))
def test_a_condition_reason_is_always_valid(token: str) -> None:
    said = watch.of_pending(record("7", "PENDING", reason=token))
    assert said.reason.replace("_", "a").isalnum()


# --- intake


def test_a_deletion_timestamp_already_holds_the_grace() -> None:
    leaving = pod(node="n", deleted="2026-06-01T12:00:30Z")
    assert intake.overdue(leaving, NOW, 100) == 130
    assert intake.overdue(pod(), NOW, 100) is None


@pytest.mark.parametrize("label", ["", "x7", "-7", "7 ", "\u0667"])
def test_a_label_that_is_no_number_names_no_job(label: str) -> None:
    assert intake.job_id(pod(labels={names.JOB_LABEL: label})) == ""


# --- configuration


def test_an_existing_file_works_unchanged() -> None:
    text = """
schedulerName: slurm-bridge-scheduler
slurmRestApi: http://slurm-restapi.slurm:6820
managedNamespaces: [slurm-bridge]
managedNamespaceSelector:
mcsLabel: kubernetes
partition: slurm-bridge
clientQPS: 50
"""
    found, unknown = config.parse(text)
    assert (found.partition, found.mcs_label, found.managed_namespaces) == (
        "slurm-bridge",
        "kubernetes",
        ("slurm-bridge",),
    )
    assert unknown == ("clientQPS",)


@pytest.mark.parametrize("text", ["[1]", "partition: [1]", "a: b: c", "taint: Sometimes"])
def test_a_file_that_cannot_be_used_says_where(text: str) -> None:
    with pytest.raises(ConfigError):
        config.parse(text)


@pytest.mark.parametrize(
    "rule", [Rule(force={"acount": "x"}), Rule(default={"timelimit": "soon"}), Rule(refuse=("x",))]
)
def test_a_policy_that_names_what_does_not_exist_is_refused(rule: Rule) -> None:
    with pytest.raises(ConfigError):
        policy.check([rule], {})


def test_a_priority_class_must_mean_something() -> None:
    with pytest.raises(ConfigError):
        policy.check([], {"high": PriorityRule()})
    with pytest.raises(ConfigError, match="between"):
        policy.check([], {"high": PriorityRule(priority=-1)})
    policy.check([], {"high": PriorityRule(priority=0)})


def test_pods_for_which_slurm_was_just_asked_go_first_and_those_that_run_last() -> None:
    most = pod("a", spec={"priority": 2**31 - 1})
    asked, queued, runs = pod("b", held=True), pod("c", job="7"), pod("d", job="7", node="n1", phase="Running")
    ending = pod("e", job="7", node="n1", deleted="2026-06-01T12:00:00Z")
    order = sorted((runs, queued, most, ending, asked), key=intake.urgency, reverse=True)
    assert [order[0], order[1], order[-1]] == [asked, most, runs]
    assert intake.urgency(queued) == intake.urgency(ending) == 0
