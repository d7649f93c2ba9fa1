# SPDX-License-Identifier: Apache-2.0
"""GPU time is counted by state and account."""

from tests.unit.exporter.test_families import cluster, host, job

from slinky.exporter.gpu_time import PAUSE_MAX, GpuTime
from slinky.exporter.observed_metrics import OTHER
from slinky.exporter.snapshot import MetricSource

UP = frozenset({MetricSource.JOBS, MetricSource.NODES})
HOSTS = (
    host("n1", "MIXED", gres="gpu:h100:4", gres_used="gpu:h100:1"),
    host("n2", "DOWN", gres="gpu:h100:4"),
)


def seconds(clock: GpuTime) -> dict[tuple[str, str], float]:
    samples = clock.collect("c1").samples
    return {(sample.labels["state"], sample.labels["account"]): sample.value for sample in samples}


def test_gpus_count_by_state_and_account() -> None:
    running = job("1", "RUNNING", account="a", tres_alloc_str="gres/gpu=1")
    clock = GpuTime(100)
    clock.add(cluster(jobs=(running,), hosts=HOSTS, up=UP), 10)
    assert seconds(clock) == {("allocated", "a"): 10, ("idle", ""): 30, ("unavailable", ""): 40}


def test_what_is_not_known_is_not_counted() -> None:
    clock = GpuTime(100)
    clock.add(cluster(hosts=HOSTS), 10)
    assert seconds(clock) == {}
    clock.add(cluster(hosts=HOSTS, up=UP), 10 * PAUSE_MAX)
    assert seconds(clock)["idle", ""] == 3 * PAUSE_MAX


def test_accounts_beyond_the_limit_are_added_up() -> None:
    clock = GpuTime(3)
    jobs = tuple(job(str(i), "RUNNING", account=f"a{i}", tres_alloc_str="gres/gpu=1") for i in range(1, 6))
    clock.add(cluster(jobs=jobs, hosts=HOSTS[:1], up=UP), 1)
    assert seconds(clock)["allocated", OTHER] == 3
