# SPDX-License-Identifier: Apache-2.0
"""The rows of `slinky top`, and what it says without a terminal."""

import importlib.util
from typing import Any

import pytest
from tests.unit.insight.queues import cluster, host, job, running
from typer.testing import CliRunner

from slinky.cli.live.top_rows import (
    JOB_COLUMNS,
    NODE_COLUMNS,
    ROWS_MAX,
    PodPhase,
    TopData,
    find_row_host,
    find_row_job,
    job_rows,
    node_rows,
    summary,
)
from slinky.cli.main import app

DRAINED = host("n9", words=("IDLE", "DRAIN"), reason="fan\x1b", reason_set_by_user="ops")


def data(**fields: Any) -> TopData:
    jobs = (job(7), running(5, "n1"), job(9, name="\x1b[2J", job_state=("COMPLETED",)))
    return TopData("slurm/prod", cluster(*jobs, hosts=(host("n1"), host("n2"), DRAINED)), **fields)


def test_running_jobs_come_first_with_their_pods() -> None:
    pods = (PodPhase(5, "p-0", "Running"), PodPhase(5, "p-1", "Pending"), PodPhase(7, "q", "Pending"))
    rows = dict(job_rows(data(pods=pods)))
    assert list(rows) == ["job/5", "job/7"]
    assert all(len(cells) == len(JOB_COLUMNS) for cells in rows.values())
    assert rows["job/5"][4:7] == ("RUNNING", "10 min", "n1")
    assert rows["job/5"][-1] == "1 Running, 1 Pending"
    assert (rows["job/7"][6], rows["job/7"][-1]) == ("(Resources)", "q Pending")


def test_nodes_that_need_attention_come_first() -> None:
    rows = node_rows(data())
    assert [key for key, _ in rows] == ["node/n9", "node/n1", "node/n2"]
    assert len(rows[0][1]) == len(NODE_COLUMNS)
    assert rows[0][1][-1] == "fan\\x1b [ops]"


def test_tables_are_bounded() -> None:
    large = TopData("x", cluster(*(running(number, "n1") for number in range(1, 2 * ROWS_MAX))))
    assert len(job_rows(large)) == ROWS_MAX


def test_the_summary_counts_both_sides() -> None:
    text = summary(data(pods=(PodPhase(5, "p", "Running"),)))
    assert text == ("slurm/prod   jobs: 1 pending, 1 running   nodes: 2 idle, 1 drained   pods: 1 running")
    assert summary(data(pods_unknown="no permission to list pods")).endswith("pods unknown: no permission to list pods")


def test_rows_lead_back_to_their_objects() -> None:
    shown = data()
    found = find_row_job(shown, "job/7")
    assert found is not None
    assert found.job_id == 7
    assert find_row_job(shown, "node/n1") is None
    assert find_row_job(shown, "job/404") is None
    assert find_row_host(shown, "node/n9") is DRAINED
    assert find_row_host(shown, "job/7") is None


@pytest.mark.parametrize(
    ("spec", "code", "words"), [(None, 1, "pip install 'slinky[top]'"), (object(), 2, "needs a terminal")]
)
def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, spec: object, code: int, words: str) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    result = CliRunner().invoke(app, ["top", "--url", "http://127.0.0.1:1"])
    assert (result.exit_code, words in result.output) == (code, True), result.output
