# SPDX-License-Identifier: Apache-2.0
"""Whatever users write into labels, annotations and specs: it is used or rejected with an `OptionError`."""

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.bridge.build import pod

from slinky import bounds
from slinky.bridge import names
from slinky.bridge.config import BridgeSettings, Policy, PolicyMode, PolicyRule
from slinky.bridge.views import JobSet, LeaderWorkerSet, PodGroup, WorkloadBatchJob
from slinky.bridge.views.native import VERSIONS
from slinky.bridge.workload import annotations, grouping, hetjob, pod_state
from slinky.bridge.workload.annotations import TABLE, OptionError
from slinky.bridge.workload.grouping import Workload, WorkloadRoot
from slinky.bridge.workload.job_spec import JobContext, build_job_spec
from slinky.kube import Object
from slinky.slurm import Job, number

#: Text that parsers of numbers and times are known to fail on, beside any other text.
HOSTILE = st.one_of(
    st.sampled_from(["", "²", "٣", "1_000", "+1", "-1", " 7 ", "9" * 4301, "9" * 20, "1e9999", "0x10", "NaN", "inf"]),
    st.sampled_from(["1h" * 600, "0001-01-01", "9999-12-31T23:59:59-23:59", "99999-00:00:00", "\x00", "1.5Ei", "1e-9"]),
    st.integers().map(str),
    st.text(max_size=60),
)
INT32 = st.one_of(st.sampled_from([0, -1, 1, 2**31 - 1, -(2**31)]), st.integers(-(2**31), 2**31 - 1))
MARKS = (*grouping.INDEXES, names.LWS_SIZE, names.JOB_LABEL, names.NODE_ANNOTATION, names.SLUID_ANNOTATION)
OPTIONS = st.dictionaries(st.sampled_from([names.OPTION + option.name for option in TABLE]), HOSTILE, max_size=4)
PODS = st.builds(
    lambda labels, marks, deadline: pod(
        labels=labels, annotations=marks, spec={"activeDeadlineSeconds": deadline, "containers": [{"name": "c"}]}
    ),
    st.dictionaries(st.sampled_from(MARKS), HOSTILE, max_size=3),
    st.dictionaries(st.sampled_from(MARKS), HOSTILE, max_size=3),
    st.none() | st.integers(-(2**63), 2**63 - 1),
)
RULES = (PolicyRule(allow={"partition": ("a*",), "licenses": ("*",), "priority": ("*",)}),)
POLICIES = st.builds(Policy, st.sampled_from(get_args(PolicyMode)), st.sampled_from([(), RULES]))


def no_jobs(uid: str) -> list[Object]:
    return []


@given(OPTIONS, st.lists(PODS, min_size=1, max_size=3), POLICIES, HOSTILE)
def test_the_job_of_hostile_pods_is_built_or_rejected(
    options: dict[str, str], pods: Any, policy: Policy, cpu: str
) -> None:
    root = WorkloadRoot(options, min_resources={"cpu": cpu}, deadline=pods[0].spec.active_deadline_seconds)
    settings = BridgeSettings(policy=policy)
    try:
        built = build_job_spec(Workload("ns", "PodGroup", "g"), root, pods, JobContext(settings))
    except OptionError as error:
        assert str(error)
    else:
        msgspec.json.encode(built.requests)


@given(OPTIONS)
def test_hostile_options_are_parsed_or_rejected(options: dict[str, str]) -> None:
    try:
        annotations.parse_options(options)
    except OptionError as error:
        assert len(str(error)) < 500
    annotations.unknown_options(options)


@given(PODS)
def test_hostile_pods_have_a_rank_a_workload_and_perhaps_a_job(one: Any) -> None:
    assert sorted([one, pod("other")], key=grouping.rank)
    assert grouping.workload_of(one, lambda kind, key: None, lambda job: None)
    assert len(pod_state.job_id(one)) <= 10


@given(
    st.sampled_from([PodGroup, JobSet, LeaderWorkerSet, WorkloadBatchJob, *VERSIONS.values()]),
    INT32,
    INT32,
    st.lists(PODS, max_size=2),
)
def test_hostile_sizes_of_groups_have_a_minimum(kind: type[Object], one: int, two: int, pods: Any) -> None:
    template = {"spec": {"parallelism": two, "completions": one, "activeDeadlineSeconds": two}}
    spec: dict[str, Any] = {
        "minMember": one,
        "parallelism": one,
        "completions": two,
        "replicatedJobs": [{"name": "w", "replicas": one, "template": template}],
        "leaderWorkerTemplate": {"size": one},
        "schedulingPolicy": {"gang": {"minCount": one}},
    }
    group = msgspec.convert({"metadata": {"name": "g", "namespace": "ns"}, "spec": spec}, kind)
    root = grouping.root_of_group(Workload("ns", "X", "g"), group, no_jobs, pods)
    assert root.min_members >= 1


@given(st.text("0123456789-,²", max_size=40))
def test_a_hostile_set_of_components_is_bounded(text: str) -> None:
    spans = text.count(",") + 1
    components = hetjob.component_ids(Job(5, het_job_id=number(5), het_job_id_set=text))
    assert len(components) <= spans * bounds.COMPONENTS_MAX


@pytest.mark.parametrize(
    ("text", "expected"),
    [("17", "17"), ("017", ""), ("0", ""), ("4294967295", ""), ("²", ""), ("9" * 60, ""), ("-1", "")],
)
def test_a_label_that_is_no_job_id_is_no_job(text: str, expected: str) -> None:
    assert pod_state.job_id(pod(labels={names.JOB_LABEL: text})) == expected
