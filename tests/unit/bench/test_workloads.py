# SPDX-License-Identifier: Apache-2.0
"""Workloads of the forecast bench: SWF files, generated days, their replay and the figures."""

import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from xml.dom import minidom

from bench.workloads.accuracy import Accuracy, accuracy, coverage
from bench.workloads.lublin import day_cycle, generate_workload
from bench.workloads.plot import error_plot
from bench.workloads.replay import EPOCH, Look, Replay, ReplayedJob
from bench.workloads.report import is_as_good, write_report
from bench.workloads.slurmctld_replay import has_new_cycle
from bench.workloads.swf import WorkloadJob, read_swf
from hypothesis import given
from hypothesis import strategies as st

from slinky.slurm import Diag, number

SWF = """\
; Version: 2.2
; MaxNodes: 64

1 0 -1 100 8 -1 -1 8 600 -1 1 3 1 -1 1 -1 -1 -1
2 50 -1 -1 8 -1 -1 8 600 -1 0 3 1 -1 1 -1 -1 -1
3 60.0 5 900 5 -1 -1 -1 -1 -1 1 4 1 -1 1 -1 -1 -1 ; no request
4 60 5 900
5 60 5 x 5 -1 -1 -1 -1 -1 1 4 1 -1 1 -1 -1 -1
6 60 5 1e400 5 -1 -1 -1 -1 -1 1 4 1 -1 1 -1 -1 -1
"""


def test_an_swf_file_is_read() -> None:
    assert list(read_swf(SWF.splitlines(), processors_per_node=4)) == [
        WorkloadJob(1, 0, 100, 600, 2, "user3"),
        WorkloadJob(3, 60, 900, 900, 2, "user4"),
    ]


@given(st.lists(st.text(max_size=200), max_size=20))
def test_any_text_is_read_without_an_error(lines: list[str]) -> None:
    for job in read_swf(lines):
        assert job.run > 0 and job.nodes > 0 and job.limit >= job.run


def test_generated_days_have_the_load_that_is_asked_for() -> None:
    jobs = generate_workload(seed=1, nodes=64, days=2, load=0.8)
    work = sum(job.run * job.nodes for job in jobs)
    assert 0.8 <= work / (64 * 2 * 86400) < 1.2
    assert all(1 <= job.nodes <= 64 and job.run <= job.limit and 0 <= job.submit < 2 * 86400 for job in jobs)
    assert jobs == generate_workload(seed=1, nodes=64, days=2, load=0.8)


def test_most_jobs_arrive_in_the_afternoon() -> None:
    cycle = day_cycle()
    assert abs(fmean(cycle) - 1) < 1e-9
    assert 24 <= cycle.index(max(cycle)) <= 32
    assert cycle.index(min(cycle)) < 14


def test_a_replayed_job_waits_for_the_real_end_and_not_for_the_limit() -> None:
    first, second = WorkloadJob(1, 0, 600, 3600, 2, "a"), WorkloadJob(2, 60, 60, 3600, 2, "a")
    [job] = Replay([first, second], nodes=2).run()
    assert (job.job.job_id, job.start) == (2, EPOCH + 600)
    assert job.looks == [Look(EPOCH + 60, EPOCH + 3600, EPOCH + 3600, EPOCH + 3600)]
    result = accuracy([job], lambda look: look.plan)
    assert (result.median_error, result.bias) == (3000, {"2 to 8 nodes": -3000})
    assert coverage([job]) == 0


def test_jobs_never_share_more_nodes_than_there_are() -> None:
    jobs = generate_workload(seed=2, nodes=16, days=1, load=0.9)
    waited = Replay(jobs, nodes=16).run()
    assert all(job.start > EPOCH + job.job.submit for job in waited)


def test_a_plot_is_valid_xml_and_escapes_names() -> None:
    document = minidom.parseString(error_plot("<title> & more", {"a & b": [1.0, 100000.0], "c": [0.0]}))  # noqa: S318
    assert len(document.getElementsByTagName("polyline")) == 2


def test_a_forecast_is_as_good_only_if_every_figure_is() -> None:
    ours = Accuracy(60, 600, {"1 node": -30}, 10)
    assert is_as_good(ours, ours)
    assert is_as_good(ours, replace(ours, bias={"1 node": 40}))
    for worse in ({"median_error": 61}, {"p90_error": 601}, {"bias": {"1 node": 31}}, {"instability": 11}):
        assert not is_as_good(replace(ours, **worse), ours)


def test_a_report_has_a_table_figures_and_a_plot(tmp_path: Path) -> None:
    job = ReplayedJob(WorkloadJob(1, 0, 60, 600, 1, "a"), start=1000, looks=[Look(0, 900, 1100, 2000)])
    assert write_report([job], tmp_path, "x", {"days": 2})
    figures = json.loads((tmp_path / "x.json").read_text())
    assert (figures["jobs"], figures["coverage"], figures["days"]) == (1, 1.0, 2)
    assert "100% of the jobs" in (tmp_path / "x.md").read_text()
    assert (tmp_path / "x.svg").exists()


def test_a_cycle_counts_only_if_it_began_after_the_change() -> None:
    before = Diag(req_time=number(100))
    assert has_new_cycle(before, Diag(bf_when_last_cycle=number(103), bf_cycle_last=2_000_000))
    assert not has_new_cycle(before, Diag(bf_when_last_cycle=number(103), bf_cycle_last=4_000_000))
    assert not has_new_cycle(before, Diag())
