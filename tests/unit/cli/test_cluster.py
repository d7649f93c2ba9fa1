# SPDX-License-Identifier: Apache-2.0
"""The verbs of a cluster: targets, states, tables, tokens."""

import io
import json

import pytest
import yaml
from tests.unit.insight.queues import cluster, host, job, running

from slinky.api.token import Token, TokenSpec
from slinky.cli.access.kubernetes import choose_tokens
from slinky.cli.access.service_proxy import read_refusal
from slinky.cli.access.targets import find_target
from slinky.cli.cluster.command import CommandError, ExitStatus
from slinky.cli.cluster.confirmation import confirm
from slinky.cli.cluster.drain import describe_drain, describe_new_drain
from slinky.cli.cluster.job_actions import describe, find_problem
from slinky.cli.cluster.output import OutputFormat, print_document, print_rows
from slinky.cli.cluster.queue import parse_states
from slinky.cli.cluster.whatif import parse_time
from slinky.kube import ObjectMeta
from slinky.slurm import Host, Job, number

QUEUE = cluster(
    job(5),
    job(20, array_job_id=number(20), array_task_string="3-9"),
    running(21, "gpu-1", array_job_id=number(20), array_task_id=number(2)),
    job(31, het_job_id=number(30), het_job_offset=number(1)),
    hosts=(host("gpu-1"), host("gpu-2")),
)


@pytest.mark.parametrize(
    ("text", "found"),
    [("5", 5), ("job/5", 5), ("20_2", 21), ("20_7", 20), ("30+1", 31), ("gpu-2", "gpu-2"), ("node/gpu-1", "gpu-1")],
)
def test_targets(text: str, found: int | str) -> None:
    target = find_target(text, QUEUE)
    assert (target.name if isinstance(target, Host) else target.job_id) == found
    assert isinstance(target, Host | Job)


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ("gpu-3", ExitStatus.NOT_FOUND, "there is no node gpu-3; did you mean gpu-2 or gpu-1?"),
        ("job/x", ExitStatus.USAGE, "is not the id of a job"),
        ("99", ExitStatus.NOT_FOUND, "there is no job 99 that slurmctld still knows"),
        ("", ExitStatus.USAGE, "a name is empty"),
        ("9" * 5000, ExitStatus.NOT_FOUND, "there is no node 999"),
        ("job/" + "9" * 5000, ExitStatus.USAGE, "is not the id of a job"),
        ("٣", ExitStatus.NOT_FOUND, "there is no node"),
        ("disk/1", ExitStatus.USAGE, "is not job, node or pod"),
        ("node/\x1b", ExitStatus.NOT_FOUND, "\\x1b"),
    ],
)
def test_unknown_targets_suggest_near_ones(text: str, status: ExitStatus, words: str) -> None:
    with pytest.raises(CommandError) as error:
        find_target(text, QUEUE)
    assert (error.value.status, words in str(error.value)) == (status, True), str(error.value)


def test_states() -> None:
    assert parse_states("") == set()
    assert parse_states("ALL") is None
    assert parse_states("pd,RUNNING") == {"PENDING", "RUNNING"}
    with pytest.raises(CommandError, match="'LATE' is not a state"):
        parse_states("late")


def test_times() -> None:
    assert [parse_time(text) for text in ("90", "90m", "2h", "1d")] == [5400, 5400, 7200, 86400]


def test_cells_are_escaped_and_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(("A", "B"), [{"A": "x\x1b[2J", "B": "y" * 1_000_000}, {"A": "[red]"}], OutputFormat.TEXT)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "A         B"
    assert lines[1].startswith("x\\x1b[2J  yyy")
    assert max(map(len, lines)) < 80
    assert lines[2] == "[red]"


def test_documents_are_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"name": "\x1b]0;x\x07", "list": [1, None]}
    print_document(value, OutputFormat.JSON)
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert json.loads(text) == value
    print_document(value, OutputFormat.YAML)
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert yaml.safe_load(text) == value


@pytest.mark.parametrize(
    ("verb", "subject", "problem"),
    [
        ("hold", job(1), ""),
        ("hold", running(1, "n1"), "runs already"),
        ("hold", job(1, hold=True), "is held already"),
        ("release", job(1), "is not held"),
        ("release", job(1, hold=True), ""),
        ("cancel", job(1, job_state=("COMPLETED",)), "has ended (completed)"),
        ("cancel", running(1, "n1"), ""),
    ],
)
def test_a_verb_that_makes_no_sense_says_why(verb: str, subject: Job, problem: str) -> None:
    found = find_problem(verb, subject)
    assert problem in found
    assert bool(problem) is bool(found)


def test_a_change_names_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    actions = ["cancel " + describe(running(7, "n1", name="a\x1b"), "7")]
    assert not confirm(actions, yes=True, dry_run=True)
    assert confirm(actions, yes=True, dry_run=False)
    assert capsys.readouterr().out.splitlines() == [
        "would cancel job 7 (a\\x1b) of alice (running on n1)",
        "cancel job 7 (a\\x1b) of alice (running on n1)",
    ]


def test_without_a_terminal_nothing_is_changed_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with pytest.raises(CommandError, match="use --yes or --dry-run"):
        confirm(["cancel job 7"], yes=False, dry_run=False)


def test_a_drain_of_a_controller_is_recognized() -> None:
    foreign = host("n1", words=("IDLE", "DRAIN"), reason="fan", reason_set_by_user="ops")
    assert describe_drain(foreign) == "undrain n1, which ops drained: fan"
    assert describe_new_drain(host("n1"), "gpu") == "drain n1 (idle): gpu"
    assert describe_new_drain(foreign, "gpu").endswith("gpu; this replaces the reason of ops: fan")
    managed = host("n1", words=("IDLE", "DRAIN"), reason="slurm-bridge: cordoned")
    assert "drains the node again" in describe_drain(managed)


def test_the_token_of_a_user_that_sees_every_job_is_preferred() -> None:
    tokens = [
        Token(metadata=ObjectMeta(name=name, namespace="s"), spec=TokenSpec(username=user))
        for name, user in (("a", "alice"), ("b", "slurm"), ("c", "alice"))
    ]
    assert [token.metadata.name for token in choose_tokens(tokens, "")] == ["b", "a", "c"]
    assert [token.metadata.name for token in choose_tokens(tokens, "alice")] == ["a", "c"]


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        (
            b'{"kind":"Status","apiVersion":"v1","message":"no endpoints available","code":503}',
            "no endpoints available",
        ),
        (b'{"kind": "Status"}', "no reason given"),
        (b'{"meta":{},"jobs":[{"name":"Status"}]}', ""),
        (b'{"kind":"Status"', ""),
        (b"", ""),
    ],
)
def test_an_answer_of_the_api_server_is_told_from_one_of_slurmrestd(body: bytes, refusal: str) -> None:
    assert read_refusal(body) == refusal
