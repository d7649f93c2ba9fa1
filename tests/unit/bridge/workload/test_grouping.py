# SPDX-License-Identifier: Apache-2.0
"""Which pods are one job, and whether a gang is complete."""

from typing import Any

import msgspec
import pytest
from tests.unit.bridge.build import pod

from slinky.bridge import names
from slinky.bridge.views import (
    JobSet,
    LeaderWorkerSet,
    NativeGroup,
    PodGroup,
    WorkloadBatchJob,
)
from slinky.bridge.views.native import VERSIONS, native_groups
from slinky.bridge.workload import grouping
from slinky.bridge.workload.grouping import GroupMissing, Workload
from slinky.kube import Discovery, Key, Object, ServedKind

META = {"name": "g", "namespace": "ns"}


def nothing(kind: str, key: Key) -> None:
    return None


def no_jobs(uid: str) -> list[Object]:
    return []


def nobody(job: str) -> None:
    return None


@pytest.mark.parametrize(
    ("labels", "spec", "expected"),
    [
        ({}, {}, Workload("ns", "Pod", "p")),
        ({names.JOB_NAME: "j"}, {}, Workload("ns", "Pod", "p")),
        ({names.JOBSET_NAME: "js"}, {}, Workload("ns", "Pod", "p")),
        ({names.POD_GROUP_LABEL: "g"}, {}, Workload("ns", "PodGroup", "g")),
        ({names.LWS_NAME: "l", names.LWS_GROUP: "2"}, {}, Workload("ns", "LeaderWorkerSet", "l", "2")),
        ({names.POD_GROUP_LABEL: "g"}, {"schedulingGroup": {"podGroupName": "n"}}, Workload("ns", "NativeGroup", "n")),
    ],
)
def test_the_grouping_object_that_wins(labels: dict[str, str], spec: dict[str, object], expected: Workload) -> None:
    result = pod(labels=labels, spec=spec)
    assert grouping.workload_of(result, nothing, nobody) == expected
    assert grouping.group_key(expected) in grouping.group_keys_of(result)


def test_batch_jobs_and_jobsets_are_gangs_only_with_the_option_gang() -> None:
    asking = msgspec.convert({"metadata": {**META, "annotations": {names.OPTION + "gang": "true"}}}, WorkloadBatchJob)

    def find(kind: str, key: Key) -> Object | None:
        return asking if kind == "Job" and key == Key("ns", "j") else None

    assert grouping.workload_of(pod(labels={names.JOB_NAME: "j"}), find, nobody) == Workload("ns", "Job", "j")
    assert grouping.workload_of(pod(labels={names.JOB_NAME: "k"}), find, nobody) == Workload("ns", "Pod", "p")


@pytest.mark.parametrize(("kind", "label"), [("Job", names.JOB_NAME), ("JobSet", names.JOBSET_NAME)])
@pytest.mark.parametrize("prefix", [names.OPTION, names.OLD_OPTION])
def test_the_option_gang_has_precedence_over_a_native_group(kind: str, label: str, prefix: str) -> None:
    asking = msgspec.convert({"metadata": {**META, "annotations": {prefix + "gang": "true"}}}, Object)
    native, gang = Workload("ns", "NativeGroup", "n"), Workload("ns", kind, "j")
    member: dict[str, Any] = {"labels": {label: "j"}, "spec": {"schedulingGroup": {"podGroupName": "n"}}}

    def find(wanted: str, key: Key) -> Object | None:
        return asking if wanted == kind else None

    assert grouping.workload_of(pod(**member), find, nobody) == gang
    assert grouping.workload_of(pod(**member), nothing, nobody) == native
    # A pod keeps the job that was submitted for its native group.
    assert grouping.workload_of(pod(job="7", **member), find, {"7": native}.get) == native


@pytest.mark.parametrize(("kind", "label"), [("Job", names.JOB_NAME), ("JobSet", names.JOBSET_NAME)])
def test_a_pod_with_the_job_of_a_gang_stays_in_it_when_its_root_is_gone(kind: str, label: str) -> None:
    gang = Workload("ns", kind, "j")
    jobs = {"7": gang, "8": Workload("ns", "Pod", "p"), "9": Workload("other", kind, "j")}
    homes = {job: grouping.workload_of(pod(labels={label: "j"}, job=job), nothing, jobs.get) for job in ("7", "8", "9")}
    alone = Workload("ns", "Pod", "p")
    assert homes == {"7": gang, "8": alone, "9": alone}
    assert grouping.workload_of(pod(labels={label: "j"}), nothing, jobs.get) == alone


def owned(uid: str, kind: str = "Job", group: str = "batch") -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1", "kind": kind, "name": "j", "uid": uid, "controller": True}


def test_every_owner_of_a_pod_must_be_cached_with_the_same_uid() -> None:
    job = msgspec.convert(
        {"metadata": {**META, "uid": "u1", "ownerReferences": [owned("s1", "JobSet")]}}, WorkloadBatchJob
    )
    job_set = msgspec.convert({"metadata": {**META, "uid": "s1"}}, JobSet)
    present: dict[str, Object] = {}

    def unseen(uid: str, *kinds: str) -> str:
        young = pod(owners=[owned(uid)])
        result = grouping.find_missing_owner(
            young, lambda kind, _: present.get(kind), lambda owner: owner.kind in kinds
        )
        return result.kind if result else ""

    assert unseen("u1", "Job", "JobSet") == "Job"
    present["Job"] = job
    assert unseen("u1", "Job", "JobSet") == "JobSet"
    assert unseen("u1", "Job") == ""  # nobody watches what is above
    present["JobSet"] = job_set
    assert unseen("u1", "Job", "JobSet") == ""
    assert unseen("u2", "Job", "JobSet") == "Job"  # another under the same name
    assert grouping.find_missing_owner(pod(), nothing, lambda _: True) is None


def served(*kinds: tuple[str, str, str]) -> Discovery:
    return Discovery(ServedKind(group, version, kind, f"{kind.lower()}s", True) for group, version, kind in kinds)


def test_new_grouping_kinds_and_versions_are_detected() -> None:
    sets, old = ("jobset.x-k8s.io", "v1alpha2", "JobSet"), ("scheduling.k8s.io", "v1alpha2", "PodGroup")
    new = ("scheduling.k8s.io", "v1beta1", "PodGroup")
    at_first = grouping.served_group_kinds(served(old))
    assert list(at_first) == ["Job", "NativeGroup"]
    assert grouping.new_group_kinds(at_first, served(old)) == ""
    assert grouping.new_group_kinds(at_first, served(old, sets)) == "JobSet of jobset.x-k8s.io/v1alpha2"
    assert grouping.new_group_kinds(at_first, served(old, new)) == "PodGroup of scheduling.k8s.io/v1beta1"
    # What goes is no reason: a server that is just starting may not tell of everything.
    assert grouping.new_group_kinds(at_first, served()) == ""


@pytest.mark.parametrize(
    ("kind", "spec", "needed"),
    [
        (PodGroup, {"minMember": 3}, 3),
        (PodGroup, {}, 1),
        (NativeGroup, {"schedulingPolicy": {"gang": {"minCount": 4}}}, 4),
        (NativeGroup, {"schedulingPolicy": {}}, 1),
        (LeaderWorkerSet, {"leaderWorkerTemplate": {"size": 5}}, 5),
        (WorkloadBatchJob, {"parallelism": 4, "completions": 2}, 2),
        (JobSet, {"replicatedJobs": [{"replicas": 2, "template": {"spec": {"parallelism": 3}}}, {"replicas": 1}]}, 7),
    ],
)
def test_how_many_members_make_a_gang(kind: type[Object], spec: dict[str, object], needed: int) -> None:
    result = msgspec.convert({"metadata": META, "spec": spec}, kind)
    assert grouping.root_of_group(Workload("ns", "X", "g"), result, no_jobs).min_members == needed


@pytest.mark.parametrize(("completions", "succeeded", "needed"), [(9, 4, 4), (9, 7, 2), (9, 9, 1), (None, 3, 4)])
def test_pods_that_have_succeeded_are_not_waited_for(completions: int | None, succeeded: int, needed: int) -> None:
    done = {"spec": {"parallelism": 4, "completions": completions}, "status": {"succeeded": succeeded}}
    job = msgspec.convert({"metadata": META, **done}, WorkloadBatchJob)
    assert grouping.root_of_group(Workload("ns", "Job", "g"), job, no_jobs).min_members == needed


def test_batch_jobs_of_a_jobset_that_have_succeeded_are_not_waited_for() -> None:
    shape = {"parallelism": 2, "completions": 2}
    spec = {"replicatedJobs": [{"name": "w", "replicas": 3, "template": {"spec": shape}}]}
    job_set = msgspec.convert({"metadata": {**META, "uid": "s1"}, "spec": spec}, JobSet)

    def batch_job(name: str, succeeded: int) -> WorkloadBatchJob:
        return msgspec.convert({"metadata": {"name": name}, "status": {"succeeded": succeeded}}, WorkloadBatchJob)

    def jobs_of(uid: str) -> list[Object]:
        """The first is done, the second half done, the third does not exist yet; the others are no replicas of it."""
        assert uid == "s1"
        return [batch_job("g-w-0", 2), batch_job("g-w-1", 1), batch_job("g-w-7", 2), batch_job("g-other-2", 2)]

    root = grouping.root_of_group(Workload("ns", "JobSet", "g"), job_set, jobs_of)
    assert (root.min_members, root.succeeded) == (0 + 1 + 2, 3)


def test_the_size_of_a_jobset_is_computed_without_a_loop_over_its_replicas() -> None:
    largest = 2**31 - 1
    spec = {"replicatedJobs": [{"name": "w", "replicas": largest, "template": {"spec": {"parallelism": 2}}}]}
    job_set = msgspec.convert({"metadata": META, "spec": spec}, JobSet)
    assert grouping.root_of_group(Workload("ns", "JobSet", "g"), job_set, no_jobs).min_members == 2 * largest


@pytest.mark.parametrize(("size", "needed"), [("3", 3), ("²", 5), ("9" * 5000, 5), ("-1", 5), ("", 5)])
def test_the_size_of_a_leader_worker_group_is_bounded(size: str, needed: int) -> None:
    group = msgspec.convert({"metadata": META, "spec": {"leaderWorkerTemplate": {"size": 5}}}, LeaderWorkerSet)
    pods = [pod(annotations={names.LWS_SIZE: size})]
    root = grouping.root_of_group(Workload("ns", "LeaderWorkerSet", "g", "0"), group, no_jobs, pods)
    assert root.min_members == needed


def test_a_podgroup_gives_its_name_to_the_job() -> None:
    group = msgspec.convert({"metadata": META, "spec": {"minMember": 2}}, PodGroup)
    assert grouping.root_of_group(Workload("ns", "PodGroup", "g"), group, no_jobs).name == "g"


@pytest.mark.parametrize(
    ("spec", "expected_text"),
    [
        ({"startupPolicy": {"startupPolicyOrder": "InOrder"}}, True),
        ({"startupPolicy": {"startupPolicyOrder": "AnyOrder"}}, False),
        ({"replicatedJobs": [{"name": "a"}, {"name": "b", "dependsOn": [{"name": "a", "status": "Ready"}]}]}, True),
    ],
)
def test_a_jobset_whose_batch_jobs_wait_for_each_other_gets_a_hint(spec: dict[str, Any], expected_text: bool) -> None:
    result = msgspec.convert({"metadata": META, "spec": spec}, JobSet)
    assert bool(grouping.root_of_group(Workload("ns", "JobSet", "g"), result, no_jobs).hint) is expected_text


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
    result = msgspec.convert({"metadata": META, "spec": {"schedulingPolicy": {}, **spec}}, VERSIONS[version])
    assert result.workload == name


def test_the_preferred_supported_version_is_chosen() -> None:
    chosen = native_groups(["v1", "v1alpha2", "v1beta1"])
    assert chosen is not None
    assert chosen.version == "v1beta1"
    assert native_groups(["v1alpha1", "v2"]) is None


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"parentCompositePodGroupName": "p"}, "groups of groups"),
        ({"schedulingConstraints": {"topology": [{"key": "rack"}]}}, "switches"),
        ({"schedulingConstraints": {"topology": []}}, ""),
    ],
)
def test_unsupported_demands_of_a_native_group_are_reported(spec: dict[str, Any], message: str) -> None:
    result = msgspec.convert({"metadata": META, "spec": spec}, VERSIONS["v1beta1"])
    problem = grouping.root_of_group(Workload("ns", "NativeGroup", "g"), result, no_jobs).unsupported
    assert message in problem if message else not problem


def test_a_group_without_its_object_waits() -> None:
    with pytest.raises(GroupMissing):
        grouping.root_of_group(Workload("ns", "PodGroup", "g"), None, no_jobs)


def test_groups_of_the_same_name_in_different_namespaces_are_different() -> None:
    unit = Workload("ns", "PodGroup", "g")
    stranger = pod(namespace="other", labels={names.POD_GROUP_LABEL: "g"})
    assert grouping.workload_of(stranger, nothing, nobody) != unit


@pytest.mark.parametrize("text", ["²", "9" * 5000, "-1", "1_0", " 1", "٣"])
def test_an_unusable_index_is_no_error_for_a_running_pod(text: str) -> None:
    odd = pod("a", annotations={names.JOB_INDEX: text})
    assert grouping.rank(odd) == grouping.rank(pod("a"))
    assert "batch.kubernetes.io/job-completion-index of pod a" in grouping.find_invalid_number([odd])


def test_rank_follows_indexes_and_then_names_in_natural_order() -> None:
    named = [pod(f"w-{i}") for i in (10, 9, 1)]
    assert [p.metadata.name for p in sorted(named, key=grouping.rank)] == ["w-1", "w-9", "w-10"]
    indexed = [pod("a", labels={names.LWS_WORKER: "1"}), pod("b", labels={names.LWS_WORKER: "0"})]
    assert [p.metadata.name for p in sorted(indexed, key=grouping.rank)] == ["b", "a"]
