# SPDX-License-Identifier: Apache-2.0
"""From pods and options to a job request."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.bridge.build import needing, pod

from slinky.bridge import names
from slinky.bridge.config import BridgeSettings, Policy, PolicyRule
from slinky.bridge.devices.classes import Catalog
from slinky.bridge.devices.inventory import CPUS, GresKind
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import annotations, pod_resources
from slinky.bridge.workload.annotations import TABLE, OptionError
from slinky.bridge.workload.grouping import Workload, WorkloadRoot
from slinky.bridge.workload.job_spec import JobContext, build_job_spec
from slinky.slurm import JobRequest, number

ALONE = Workload("ns", "Pod", "p")
GROUP = Workload("ns", "PodGroup", "g")
CATALOG = Catalog({"example.com/gpu": "gpu.example.com"})


def request(
    *pods: WorkloadPod, unit: Workload = ALONE, options: dict[str, str] | None = None, **settings: Any
) -> JobRequest:
    root = WorkloadRoot({names.OPTION + name: value for name, value in (options or {}).items()})
    return build_job_spec(unit, root, pods or (pod(),), JobContext(BridgeSettings(**settings), CATALOG)).request


def test_the_default_job_is_external_exclusive_and_in_the_configured_partition() -> None:
    result = request(partition="ext", mcs_label="kubernetes")
    assert result.flags == ("EXTERNAL_JOB",)
    assert result.shared == ("none",)
    assert (result.partition, result.mcs_label, result.nodes, result.tasks_per_node) == ("ext", "kubernetes", "1", 1)
    assert result.required_nodes is None


@pytest.mark.parametrize(
    ("amounts", "field", "expected"),
    [
        ({"cpu": "1500m"}, "cpus_per_task", 2),
        ({"memory": "100M"}, "memory_per_node", number(96)),  # 95.4 MiB: never less than the kubelet admits
        ({"nvidia.com/gpu": "2"}, "tres_per_node", "gres/gpu:2"),
        ({"nvidia.com/gpu": "1", "amd.com/gpu": "2"}, "tres_per_node", "gres/gpu:3"),
        ({"example.com/gpu": "3"}, "tres_per_node", None),
        ({"ephemeral-storage": "1Gi"}, "tres_per_node", None),
    ],
)
def test_requests_of_pods_are_rounded_up(amounts: dict[str, str], field: str, expected: object) -> None:
    assert getattr(request(needing(amounts)), field) == expected


def test_init_containers_sidecars_overhead_and_limits_count_as_in_kubernetes() -> None:
    spec = {
        "initContainers": [
            {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
            {"name": "init", "resources": {"requests": {"cpu": "4"}}},
        ],
        "containers": [
            {"name": "main", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}}
        ],
        "overhead": {"memory": "64Mi"},
    }
    result = request(pod(spec=spec))
    assert result.cpus_per_task == 5  # the init container beside the sidecar
    assert result.memory_per_node == number(1088)


def test_overhead_counts_also_for_pods_without_requests() -> None:
    overhead = {"overhead": {"cpu": "250m", "memory": "160Mi"}}
    result = request(pod(spec={"containers": [{"name": "c"}], **overhead}))
    assert (result.cpus_per_task, result.memory_per_node) == (1, number(160))
    limited = pod(spec={"containers": [{"name": "c", "resources": {"limits": {"memory": "1Gi"}}}], **overhead})
    assert "cpu" not in pod_resources.effective_resources(limited, pod_resources.limits_of)


def test_pod_level_resources_replace_those_of_containers() -> None:
    spec = {"resources": {"requests": {"cpu": "3"}}, "containers": [{"name": "a"}, {"name": "b"}]}
    assert request(pod(spec=spec)).cpus_per_task == 3


def test_pods_that_share_a_node_are_tasks_on_it() -> None:
    pods = [needing({"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}, f"p-{i}") for i in range(5)]
    result = request(*pods, unit=GROUP, options={"pods-per-node": "2"})
    assert (result.nodes, result.tasks, result.tasks_per_node, result.cpus_per_task) == ("3", 5, 2, 1)
    assert result.memory_per_node == number(2048)
    assert result.tres_per_node == "gres/gpu:2"


def test_sharing_a_node_needs_a_gang() -> None:
    with pytest.raises(OptionError, match="requires a gang"):
        request(options={"pods-per-node": "2"})


def test_a_shared_job_always_requests_memory() -> None:
    assert request(options={"exclusive": "false"}).memory_per_node == number(1)
    assert request(options={"exclusive": "false"}).shared == ()
    assert request(options={"exclusive": "yes"}).shared == ("none",)
    assert request().memory_per_node is None


def test_nodes_are_shared_by_configuration_as_well() -> None:
    sharing = Policy(rules=(PolicyRule(default={"exclusive": "false"}),))
    assert request(policy=sharing).shared == ()
    assert request(policy=sharing, options={"exclusive": "true"}).shared == ("none",)


def test_the_deadline_of_a_batch_job_is_the_time_limit_unless_an_option_says_otherwise() -> None:
    root = WorkloadRoot({names.OPTION + "timelimit": "5"}, deadline=90)
    world = JobContext(BridgeSettings())
    assert build_job_spec(ALONE, WorkloadRoot(deadline=90), [pod()], world).request.time_limit == number(2)
    assert build_job_spec(ALONE, root, [pod()], world).request.time_limit == number(5)


def test_node_limits_that_contradict_the_pods_are_rejected() -> None:
    assert request(options={"min-nodes": "1", "max-nodes": "4"}).nodes == "1"
    with pytest.raises(OptionError, match="contradict"):
        request(options={"min-nodes": "2"})


@pytest.mark.parametrize("option", TABLE, ids=lambda option: option.name)
def test_the_example_of_every_option_is_accepted_and_reaches_its_field(option: annotations.Option) -> None:
    unit, pods = (GROUP, [pod(f"p-{i}") for i in range(8)]) if "node" in option.name else (ALONE, [pod()])
    result = request(*pods, unit=unit, options={option.name: option.example}, policy=Policy("trust-annotations"))
    if option.field and option.field not in {"minimum_nodes", "maximum_nodes"}:
        assert getattr(result, option.field) == option.parse(option.example)
    assert option.field == "" or option.field in JobRequest.__struct_fields__


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timelimit", "soon"),
        ("timelimit", "0"),
        ("timelimit", "0s"),
        ("timelimit", "1h30"),
        ("timelimit", "-5m"),
        ("timelimit", "999999999w"),
        ("timelimit", "99999-00:00:00w"),
        ("begin", "-5"),
        ("begin", "99999999999999"),
        ("begin", "1969-01-01"),
        ("deadline", "0"),
        ("cpu-per-task", "70k"),
        ("min-nodes", "-1"),
        ("cpu-per-task", "0"),
        ("mem-per-node", "much"),
        ("partition", "a b"),
        ("account", ""),
        ("priority", "99999999999"),
        ("hold", "yes"),
        ("begin", "tomorrow"),
        ("comment", "two\nlines"),
        ("comment", "x" * 1025),
        ("nice", "9" * 5000),
        ("nice", "1_0"),
        ("begin", "9" * 5000),
        ("segment", "²"),
        ("pods-per-node", "٣"),
        ("timelimit", "٣h"),
        ("timelimit", "٣"),
        ("mem-per-node", "9E"),
    ],
)
def test_an_invalid_value_is_reported_with_the_option(name: str, value: str) -> None:
    with pytest.raises(OptionError, match=name):
        request(options={name: value})


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 90), ("90s", 2), ("2h", 120), ("1d", 1440), ("1w", 10080), ("10:30", 11), ("1:30:00", 90), ("1-12", 2160),
     ("1-12:30:00", 2190), ("1h30m", 90), ("1h30m1s", 91), ("1.5h", 90), ("90m0s", 90), ("500ms", 1), ("1w2d", 12960)],
)  # fmt: skip
def test_times_are_read_as_slurm_reads_them(text: str, expected: int) -> None:
    assert annotations.parse_minutes(text) == number(expected)


@given(st.integers(1, 200), st.integers(1, 16))
def test_there_are_always_enough_nodes_for_all_pods(pods: int, per_node: int) -> None:
    result = request(*[pod(f"p-{i}") for i in range(pods)], unit=GROUP, options={"pods-per-node": str(per_node)})
    assert int(result.nodes or 0) * (result.tasks_per_node or 0) >= pods
    assert (int(result.nodes or 0) - 1) * per_node < pods
    assert result.minimum_nodes == result.maximum_nodes == int(result.nodes or 0)


def test_unknown_options_are_ignored() -> None:
    assert request(options={"qoss": "x"}) == request()


def notes_of(workload: Workload, options: dict[str, str], **settings: Any) -> tuple[str, ...]:
    root = WorkloadRoot({names.OPTION + name: value for name, value in options.items()}, notes=("first",))
    return build_job_spec(workload, root, [pod()], JobContext(BridgeSettings(**settings))).notes


def test_options_without_effect_are_noted() -> None:
    forced = Policy(rules=(PolicyRule(force={"account": "team"}),))
    assert notes_of(ALONE, {"account": "team"}, policy=forced) == ("first",)
    overridden = "the option account has no effect ('rich'), because the policy sets it to 'team'"
    assert notes_of(ALONE, {"account": "rich"}, policy=forced) == ("first", overridden)
    assert notes_of(Workload("ns", "Job", "j"), {"gang": "true"}) == ("first",)
    assert "only a batch Job or a JobSet" in notes_of(ALONE, {"gang": "true"})[1]
    assert "because PodGroup g groups the pods" in notes_of(GROUP, {"gang": "true"})[1]


# --- devices

GPU = GresKind("gpu", "h100")


def wish(pods: list[WorkloadPod], **more: Any) -> JobRequest:
    per_node = more.pop("per_node", 1)
    gang = Workload("ns", "PodGroup", "g")
    root = WorkloadRoot({names.OPTION + "pods-per-node": str(per_node)} if per_node > 1 else {})
    return build_job_spec(gang, root, pods, JobContext(BridgeSettings(), CATALOG, **more)).request


def test_every_node_has_the_devices_of_its_pods() -> None:
    pods = [pod(f"p-{i}") for i in range(4)]
    claimed = {"uid-p-0": {GPU: 2, GresKind("nic", "x"): 1}, "uid-p-1": {GPU: 1}}
    assert wish(pods, devices_by_pod=claimed, per_node=2).tres_per_node == "gres/gpu:h100:4,gres/nic:x:2"


def test_a_claim_that_pods_share_is_counted_once_and_keeps_them_on_one_node() -> None:
    pods = [pod(f"p-{i}") for i in range(3)]
    assert wish(pods, shared_devices={GPU: 2}, per_node=3).tres_per_node == "gres/gpu:h100:2"
    with pytest.raises(OptionError, match="pods-per-node to 3"):
        wish(pods, shared_devices={GPU: 2}, per_node=2)


@pytest.mark.parametrize(("plain", "claimed", "threads", "expected"), [("2", 5, 1, 5), ("8", 5, 1, 8), ("1", 5, 2, 6)])
def test_cpus_that_are_devices_come_in_whole_cores(plain: str, claimed: int, threads: int, expected: int) -> None:
    pods = [needing({"cpu": plain})]
    result = wish(pods, devices_by_pod={"uid-p": {CPUS: claimed}}, threads_per_core=threads)
    assert (result.cpus_per_task, result.tres_per_node) == (expected, None)


@pytest.mark.parametrize(("option", "kind"), [("gres", GPU), ("cpu-per-task", CPUS)])
def test_an_option_that_would_replace_claimed_devices_is_refused(option: str, kind: GresKind) -> None:
    world = JobContext(BridgeSettings(), CATALOG, {"uid-p": {kind: 1}})
    root = WorkloadRoot({names.OPTION + option: "gres/gpu:1" if option == "gres" else "2"})
    with pytest.raises(OptionError, match=f"{option} cannot be combined with"):
        build_job_spec(ALONE, root, [pod()], world)
    build_job_spec(ALONE, root, [pod()], JobContext(BridgeSettings(), CATALOG))
