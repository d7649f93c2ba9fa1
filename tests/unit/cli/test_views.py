# SPDX-License-Identifier: Apache-2.0
"""What queue, nodes, status, forecast and explain print, in each format."""

import json
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from tests.unit.insight.queues import cluster, host, job, running

from slinky.cli.cluster.command import CommandError
from slinky.cli.cluster.explain import render_explanations, stream_explanations
from slinky.cli.cluster.forecast import render_forecast
from slinky.cli.cluster.nodes import render_nodes
from slinky.cli.cluster.output import OutputFormat, format_paragraph
from slinky.cli.cluster.queue import render_queue
from slinky.cli.cluster.status import render_status
from slinky.insight.forecast import forecast
from slinky.slurm import number

DRAINED = host("n9", words=("IDLE", "DRAIN"), reason="fan\x1b", reason_set_by_user="ops")
QUEUE = cluster(
    running(5, "n1", user_name="bob"),
    job(7, gpus=8, nodes=3),
    job(8, job_state=("COMPLETED",)),
    hosts=(host("n1"), host("n2"), DRAINED),
    unknown=("licences (refused)",),
)
ANY = (False, "", "", "")
DOCUMENTS = ((OutputFormat.JSON, json.loads), (OutputFormat.YAML, yaml.safe_load))


@pytest.mark.parametrize(
    ("filters", "jobs"),
    [
        (ANY, ["7", "5"]),
        ((True, "", "", ""), ["5"]),
        ((False, "alice", "", ""), ["7"]),
        ((False, "alice,nobody", "work", "R"), []),
        ((False, "", "work", "CD"), ["8"]),
        ((False, "", "", "all"), ["7", "5", "8"]),
    ],
)
def test_the_queue_is_filtered(filters: tuple[bool, str, str, str], jobs: list[str]) -> None:
    filters = (*filters[:3], filters[3].replace("CD", "COMPLETED"))
    names = render_queue((QUEUE, "bob"), filters, OutputFormat.NAME)
    assert names.split() == [f"job/{number}" for number in jobs]


@pytest.mark.parametrize(("output", "load"), DOCUMENTS)
def test_documents_of_each_view(output: OutputFormat, load: Any) -> None:
    assert [row["JOBID"] for row in load(render_queue((QUEUE, ""), ANY, output))] == ["7", "5"]
    assert [row["NODE"] for row in load(render_nodes(QUEUE.hosts, [], ("", ""), output))] == ["n1", "n2", "n9"]
    status = load(render_status(({"cluster": "prod"}, QUEUE), output))
    assert (status["jobs"], status["drained by"]) == ({"running": 1, "pending": 1}, {"ops": 1})
    assert [entry["job"] for entry in load(render_forecast(QUEUE, [], output))] == [7]
    assert [entry["earliest"] for entry in load(render_forecast(QUEUE, ["5"], output))] == [None]
    explanation = load(render_explanations((QUEUE, ["7"]), output))
    assert explanation["subject"].startswith("Job 7")
    assert len(load(render_explanations((QUEUE, ["7", "n9"]), output))) == 2


def test_tables_for_people() -> None:
    wide = render_queue((QUEUE, ""), ANY, OutputFormat.WIDE).splitlines()
    assert "PRIORITY" in wide[0]
    assert len(wide) == 3
    nodes = render_nodes(QUEUE.hosts, ["n9"], ("", ""), OutputFormat.TEXT)
    assert "fan\\x1b [ops]" in nodes
    assert render_nodes(QUEUE.hosts, [], ("work", "drain"), OutputFormat.NAME) == "node/n9"
    status = render_status(({"cluster": "prod"}, QUEUE), OutputFormat.TEXT)
    assert "nodes:            idle 2, drained 1" in status
    assert "not known:        licences (refused)" in status
    assert render_status(({"cluster": "prod"}, QUEUE), OutputFormat.NAME) == "prod"
    assert "not pending (running)" in render_forecast(QUEUE, ["5"], OutputFormat.TEXT)
    assert render_forecast(QUEUE, [], OutputFormat.NAME) == "job/7"
    assert "NODES" in render_forecast(QUEUE, [], OutputFormat.WIDE).splitlines()[0]
    assert render_explanations((QUEUE, ["7", "node/n9"])).count("\n") == 1
    assert isinstance(render_explanations((QUEUE, ["7"]), OutputFormat.NAME), str)


def test_the_last_job_of_a_long_queue_has_an_expected_start_too() -> None:
    queue = cluster(*(job(index, priority=number(9999 - index), cpus=16) for index in range(1, 1202)), hosts=1)
    assert "Expected start: in " in render_explanations((queue, ["1201"]))


@pytest.mark.parametrize("width", range(20, 101))
def test_an_explanation_is_there_before_the_forecast_and_wrapped_as_one_paragraph(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(width))
    simulate = Mock(wraps=forecast)
    monkeypatch.setattr("slinky.insight.forecast.forecast", simulate)
    queue = cluster(running(5, "n1", user_name="bob"), job(7), hosts=(host("n1"),))
    parts = stream_explanations((queue, ["7"]), OutputFormat.TEXT)
    first = next(parts)
    assert first.startswith("Job 7")
    simulate.assert_not_called()
    whole = first + "".join(parts)
    simulate.assert_called_once()
    assert "Expected start:" in " ".join(whole.split())
    assert whole == format_paragraph(" ".join(whole.split()))


def test_an_unknown_partition_suggests_near_ones() -> None:
    with pytest.raises(CommandError, match="there is no partition wrk; did you mean work"):
        render_queue((QUEUE, ""), (False, "", "wrk", ""))
    with pytest.raises(CommandError, match="there is no node in the partition wrk; did you mean work"):
        render_nodes(QUEUE.hosts, [], ("wrk", ""))


def test_an_unknown_node_suggests_near_ones() -> None:
    with pytest.raises(CommandError, match="there is no node n10; did you mean n1"):
        render_nodes(QUEUE.hosts, ["n10"], ("", ""))
