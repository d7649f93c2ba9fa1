# SPDX-License-Identifier: Apache-2.0
"""Families of metrics as functions of a snapshot."""

import re

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from slinky.bounds import METRIC_LABEL_MAX
from slinky.exporter import series
from slinky.exporter.families import FAMILIES, PREFIX
from slinky.exporter.snapshot import ClusterSnapshot, MetricSource
from slinky.insight.group_limits import group_limits
from slinky.slurm import Diag, Host, Job, JobRecord, License, Reservation, Share, Tres, number
from slinky.slurm.model.accounts import Association, AssociationMax, AssociationTres

NOW = 1_000_000.0
DETAILS = ("accounts", "users", "nodes", "jobs")


def job(key: str, state: str, **fields: object) -> JobRecord:
    detail = msgspec.convert({"job_id": int(key), "job_state": [state], "partition": "gpu", **fields}, Job)
    return JobRecord(key, detail.state, "", detail)


def host(name: str, *words: str, **fields: object) -> Host:
    return msgspec.convert({"name": name, "state": words, "partitions": ["gpu"], "cpus": 8, **fields}, Host)


def cluster(**fields: object) -> ClusterSnapshot:
    return ClusterSnapshot("c1", NOW, **fields)  # type: ignore[arg-type]


def value(snapshot: ClusterSnapshot, name: str, *labels: str) -> float | None:
    """The value of one series; None if there is none."""
    family = next(family for family in FAMILIES if family.name == name)
    return family.compute(snapshot).get(labels)


def at(seconds: float) -> dict[str, object]:
    """A number as Slurm sends it."""
    return {"set": True, "infinite": False, "number": seconds}


GANG = {"tres_req_str": "cpu=8,mem=2G,node=2,gres/gpu=4", "priority": at(9), "eligible_time": at(999_000)}
HELD = {"tres_req_str": "cpu=1,node=64", "hold": True, "priority": at(0), "eligible_time": at(1)}
QUEUE = (
    job("1", "RUNNING", account="a", tres_alloc_str="cpu=4,gres/gpu:h100=2", nodes="n[1-2]", start_time=at(999_990)),
    job("2", "PENDING", account="a", state_reason="Resources", **GANG),
    job("3", "PENDING", account="b", state_reason="JobHeldUser", **HELD),
    job("4", "PENDING", partition="gpu,cpu", state_reason="ReqNodeNotAvail, Reserved", tres_req_str="cpu=1,node=1"),
    job("5", "COMPLETED", account="b"),
)


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("jobs", ("gpu", "running"), 1),
        ("jobs", ("gpu", "pending"), 3),
        ("jobs", ("cpu", "pending"), None),
        ("account_jobs", ("b", "completed"), 1),
        ("jobs_pending", ("gpu", "Resources"), 1),
        ("jobs_pending", ("gpu", "ReqNodeNotAvail"), 1),
        ("pending_nodes", ("gpu",), 67),
        ("pending_cpus", ("gpu",), 10),
        ("pending_memory_bytes", ("gpu",), 2**31),
        ("pending_gres", ("gpu", "gpu", ""), 4),
        ("pending_largest_job_nodes", ("gpu",), 2),
        ("pending_oldest_eligible_seconds", ("gpu",), 1000),
        ("pending_smallest_job_nodes", ("gpu",), 2),
        ("pending_scalable_jobs", ("gpu",), 2),
        ("pending_scalable_nodes", ("gpu",), 3),
        ("account_gres_allocated", ("a", "gpu", "h100"), 2),
        ("job_node", ("1", "n2"), 1),
        ("job_gpus", ("1",), 2),
        ("job_running_seconds", ("1",), 10),
    ],
)
def test_figures_of_a_queue(name: str, labels: tuple[str, ...], expected: float | None) -> None:
    assert value(cluster(jobs=QUEUE), name, *labels) == expected


HOSTS = (
    host("n1", "MIXED", alloc_cpus=2, real_memory=1000, alloc_memory=100, gres="gpu:h100:4", gres_used="gpu:h100:1"),
    host("n2", "IDLE", "DRAIN", reason="bad fan", reason_changed_at=at(999_400), gres="gpu:h100:4"),
    host("n3", "DOWN", "DRAIN", "NOT_RESPONDING", reason="slurm-bridge: node is not ready"),
    host("n4", "IDLE", partitions=["gpu", "all"], topology="default:b1"),
    host("n5", "IDLE", partitions=["all"], topology="default:b1"),
    host("n6", "MIXED", partitions=["all"], topology="default:b1"),
    host("n7", "DOWN", partitions=["all"], topology="default:b2"),
)


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("nodes", ("gpu", "mixed"), 1),
        ("nodes", ("gpu", "drained"), 2),
        ("nodes", ("all", "idle"), 2),
        ("node_flags", ("gpu", "not_responding"), 1),
        ("cluster_nodes", ("idle",), 2),
        ("cluster_cpus", ("allocated",), 2),
        ("cluster_memory_bytes", ("idle",), 900 * 2**20),
        ("cluster_gres", ("gpu", "h100", "unavailable"), 4),
        ("nodes_draining", ("administrator",), 1),
        ("nodes_draining", ("bridge",), 1),
        ("node_drain_oldest_seconds", ("administrator",), 600),
        ("cpus", ("gpu", "allocated"), 2),
        ("cpus", ("gpu", "idle"), 14),
        ("cpus", ("gpu", "unavailable"), 16),
        ("memory_bytes", ("gpu", "idle"), 900 * 2**20),
        ("gres", ("gpu", "gpu", "h100", "allocated"), 1),
        ("gres", ("gpu", "gpu", "h100", "idle"), 3),
        ("gres", ("gpu", "gpu", "h100", "unavailable"), 4),
        ("topology_nodes", ("default:b1",), 3),
        ("topology_idle_nodes", ("default:b1",), 2),
        ("topology_idle_nodes", ("default:b2",), 0),
        ("topology_largest_idle_nodes", ("default",), 2),
        ("topology_free_segments", ("default", "1"), 2),
        ("topology_free_segments", ("default", "2"), 1),
        ("topology_free_segments", ("default", "4"), 0),
        ("node_cpus_allocated", ("n1",), 2),
    ],
)
def test_figures_of_nodes(name: str, labels: tuple[str, ...], expected: float) -> None:
    assert value(cluster(hosts=HOSTS), name, *labels) == expected


def test_figures_of_the_controller_reservations_and_licences() -> None:
    calls = [{"message_type": "REQUEST_PING", "count": 7, "total_time": 500_000}]
    users = [{"user": "alice", "count": 3}]
    statistics = {"server_thread_count": 3, "bf_cycle_last": 2_000_000, "rpcs_by_message_type": calls}
    statistics |= {"schedule_cycle_sum": 4_000_000, "bf_exit": {"bf_max_time": 5}, "rpcs_by_user": users}
    reserved = Reservation("r", node_count=2, node_list="n[1-2]", start_time=number(NOW - 1), end_time=number(NOW + 1))
    snapshot = cluster(
        hosts=HOSTS,
        diag=msgspec.convert(statistics, Diag),
        reservations=(reserved,),
        licenses=(License("matlab", total=3, used=1, free=2),),
    )
    assert value(snapshot, "controller_threads") == 3
    assert value(snapshot, "backfill_last_cycle_seconds") == 2
    assert value(snapshot, "controller_requests", "REQUEST_PING") == 7
    assert value(snapshot, "controller_request_seconds", "REQUEST_PING") == 0.5
    assert value(snapshot, "reservation_active", "r") == 1
    assert value(snapshot, "reservation_busy_nodes", "r") == 1
    assert value(snapshot, "reservation_unavailable_nodes", "r") == 1
    assert value(snapshot, "licenses", "matlab", "free") == 2
    assert value(snapshot, "scheduler_cycle_seconds") == 4
    assert value(snapshot, "backfill_exits", "bf_max_time") == 5
    assert value(snapshot, "controller_user_requests", "alice") == 3


def test_figures_of_accounts_and_their_limits() -> None:
    lab = Association("lab", max=AssociationMax(tres=AssociationTres(total=(Tres("cpu", count=8),))))
    share = {"name": "lab", "shares_normalized": at(1), "fairshare": {"level": at(2)}, "type": ["ASSOCIATION"]}
    user = {"name": "eve", "parent": "lab", "fairshare": {"factor": at(1)}, "type": ["USER"]}
    running = job("1", "RUNNING", account="lab", tres_alloc_str="cpu=3")
    snapshot = cluster(
        jobs=(running,),
        up=frozenset({MetricSource.JOBS}),
        shares=(msgspec.convert(share, Share), msgspec.convert(user, Share)),
        limits=group_limits((), (lab,), "c1"),
    )
    assert value(snapshot, "limit", "account", "lab", "cpu") == 8
    assert value(snapshot, "limit_used", "account", "lab", "cpu") == 3
    assert value(snapshot, "account_shares_ratio", "lab") == 1
    assert value(snapshot, "account_fairshare_level", "lab") == 2
    assert value(snapshot, "account_usage_ratio", "lab") is None, "an unset figure is no zero"
    assert value(snapshot, "user_fairshare_factor", "lab", "eve") == 1
    unknown = cluster(limits=snapshot.limits)
    assert value(unknown, "limit_used", "account", "lab", "cpu") is None, "the use is unknown"


def render(snapshot: ClusterSnapshot, maximum: int = 100) -> str:
    class Once(Collector):
        def collect(self) -> list[Metric]:
            return list(series.collect(snapshot, DETAILS, maximum))

    registry = CollectorRegistry()
    registry.register(Once())
    return generate_latest(registry).decode()


def test_a_source_that_is_down_has_no_series() -> None:
    text = render(cluster(ages={MetricSource.JOBS: 500.0}, up=frozenset({MetricSource.NODES})))
    assert 'slinky_slurm_up{cluster="c1",source="jobs"} 0.0' in text
    assert 'slinky_slurm_up{cluster="c1",source="nodes"} 1.0' in text
    assert 'slinky_slurm_source_age_seconds{cluster="c1",source="jobs"} 500.0' in text
    assert "slinky_slurm_jobs{" not in text


def test_hostile_names_stay_inside_their_label() -> None:
    names = ('a"b\\n', "line\nbreak", "}", "x" * 10_000)
    records = [job(str(i), "PENDING", account=name) for i, name in enumerate(names, 1)]
    families = {family.name: family for family in text_string_to_metric_families(render(cluster(jobs=records)))}
    accounts = {sample.labels["account"] for sample in families["slinky_slurm_account_jobs"].samples}
    assert {'a"b\\n', "line\nbreak", "}", "x" * METRIC_LABEL_MAX} == accounts


def test_series_beyond_the_limit_are_added_up() -> None:
    records = [job(str(i), "PENDING", account=f"a{i % 20}") for i in range(1, 101)]
    text = render(cluster(jobs=records), maximum=5)
    counts = [float(match[1]) for match in re.finditer(r"slinky_slurm_account_jobs\{.*\} (\S+)", text)]
    assert len(counts) == 5
    assert sum(counts) == 100
    assert 'slinky_slurm_series_dropped{cluster="c1",family="account_jobs"} 16.0' in text


def test_families_have_good_names() -> None:
    names = [family.name for family in FAMILIES]
    assert len(names) == len(set(names))
    for family in FAMILIES:
        assert re.fullmatch(r"[a-z_]+", PREFIX + family.name)
        assert family.help.endswith(".")
        assert not family.name.endswith("_total"), "the renderer adds _total to counters"
