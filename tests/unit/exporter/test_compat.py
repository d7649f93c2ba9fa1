# SPDX-License-Identifier: Apache-2.0
"""Pages with the names of other exporters: their values, and that no name has two meanings on one page."""

import re

import pytest
from tests.unit.exporter.test_families import HOSTS, QUEUE, at, cluster, job

from slinky.exporter import series
from slinky.exporter.compat import COMPAT_PAGES
from slinky.exporter.compat.slurmctld import read_statistics
from slinky.exporter.families import FAMILIES, PREFIX
from slinky.exporter.reference import OWN_LABELS
from slinky.exporter.snapshot import MetricSource
from slinky.slurm import Diag, number
from slinky.slurm.model.statistics import BackfillExits, ScheduleExits

DETAILS = ("accounts", "users", "nodes")
QUEUED = (*QUEUE, job("6", "PENDING", user_name="eve", user_id=7, state_reason="Dependency", priority=at(1)))
DIAG = Diag(server_thread_count=3, bf_cycle_last=2_000_000, bf_exit=BackfillExits(bf_max_time=5))
SNAPSHOT = cluster(
    jobs=QUEUED, hosts=HOSTS, diag=DIAG, up=frozenset({MetricSource.JOBS, MetricSource.NODES, MetricSource.STATISTICS})
)


@pytest.mark.parametrize(
    ("page", "name", "labels", "expected"),
    [
        ("slurm-exporter", "slurm_jobs_total", (), 6),
        ("slurm-exporter", "slurm_jobs_pending_total", (), 4),
        ("slurm-exporter", "slurm_jobs_hold_total", (), 2),
        ("slurm-exporter", "slurm_jobs_timeout_total", (), 0),
        ("slurm-exporter", "slurm_account_jobs_running_total", ("a",), 1),
        ("slurm-exporter", "slurm_account_jobs_running_total", ("b",), 0),
        ("slurm-exporter", "slurm_user_jobs_pending_total", ("7", "eve"), 1),
        ("slurm-exporter", "slurm_jobs_cpus_alloc_total", (), 4),
        ("slurm-exporter", "slurm_nodes_total", (), 7),
        ("slurm-exporter", "slurm_nodes_drain_total", (), 2),
        ("slurm-exporter", "slurm_partition_nodes_idle_total", ("all",), 2),
        ("slurm-exporter", "slurm_node_memory_alloc_bytes", ("n1",), 100),
        ("slurm-exporter", "slurm_bfscheduler_cycle_seconds", (), 2_000_000),
        ("slurm-exporter", "slurm_bfscheduler_maxtime_total", (), 5),
        ("slurmctld", "slurm_server_thread_cnt", (), 3),
        ("slurmctld", "slurm_bf_exit_timeout", (), 5),
        ("vpenso", "slurm_queue_pending", (), 4),
        ("vpenso", "slurm_queue_pending_dependency", (), 1),
        ("vpenso", "slurm_nodes_drain", (), 2),
        ("vpenso", "slurm_nodes_idle", (), 2),
        ("vpenso", "slurm_cpus_total", (), 56),
        ("vpenso", "slurm_cpus_idle", (), 30),
        ("vpenso", "slurm_gpus_total", (), 8),
        ("vpenso", "slurm_gpus_utilization", (), 0.125),
        ("vpenso", "slurm_account_jobs_pending", ("b",), 1),
        ("vpenso", "slurm_account_jobs_running", ("b",), None),
        ("vpenso", "slurm_node_cpu_alloc", ("n1", "mix"), 2),
        ("vpenso", "slurm_scheduler_threads", (), 3),
    ],
)
def test_figures_have_the_names_and_units_of_the_other_exporter(
    page: str, name: str, labels: tuple[str, ...], expected: float | None
) -> None:
    family = next(family for family in COMPAT_PAGES[page] if family.name == name)
    assert family.compute(SNAPSHOT).get(labels) == expected


@pytest.mark.parametrize("page", COMPAT_PAGES)
def test_a_page_can_be_rendered_and_has_no_series_without_slurm(page: str) -> None:
    families = COMPAT_PAGES[page]
    assert sum(len(metric.samples) for metric in series.collect_compat(families, SNAPSHOT, DETAILS, 100)) > 50
    down = cluster()
    assert not [sample for m in series.collect_compat(families, down, DETAILS, 100) for sample in m.samples]


@pytest.mark.parametrize("page", COMPAT_PAGES)
def test_every_old_name_has_a_replacement_that_exists(page: str) -> None:
    families = COMPAT_PAGES[page]
    names = [family.name for family in families]
    assert len(names) == len(set(names)), "a name has two meanings on one page"
    known = {PREFIX + family.name for family in FAMILIES} | {PREFIX + name for name in OWN_LABELS}
    for family in families:
        used = {name.removesuffix("_total") for name in re.findall(r"slinky_slurm_\w+", family.replacement)}
        assert used, family.name
        assert used <= known, family.name


def test_the_statistics_can_be_read_from_the_names_that_they_are_offered_under() -> None:
    diag = Diag(
        server_thread_count=3,
        bf_active=True,
        bf_when_last_cycle=number(17),
        job_states_ts=number(18),
        bf_exit=BackfillExits(bf_max_time=5),
        schedule_exit=ScheduleExits(licenses=2),
    )
    offered = {family.name: family.compute(cluster(diag=diag)) for family in COMPAT_PAGES["slurmctld"]}
    assert read_statistics({name: values[()] for name, values in offered.items()}) == diag
    assert read_statistics({"slurm_server_thread_cnt": -1.0, "unknown": 7.0}) == Diag()
