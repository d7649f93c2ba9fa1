# SPDX-License-Identifier: Apache-2.0
"""What the verbs of the command print on a real Slurm, compared with golden texts.

`explain` is compared for every pending reason that the slurmctld of a lab gives; all jobs wait at the same time.
"""

import re
from pathlib import Path

import pytest
from tests.integration.insight.conftest import PendingQueue
from tests.integration.insight.pending_cases import CASES
from tests.support.golden import GoldenFile, normalise
from typer.testing import CliRunner

from slinky import __version__
from slinky.cli.main import app

FOLDER = Path(__file__).parent / "golden"
EXPLAIN, VERBS = GoldenFile(FOLDER / "explain.txt"), GoldenFile(FOLDER / "verbs.txt")
MISTAKES = GoldenFile(FOLDER / "mistakes.txt")


def run_verb(queue: PendingQueue, *arguments: str, code: int = 0) -> str:
    """The output of the command, without what differs between runs."""
    slurm = queue.slurm
    result = CliRunner().invoke(app, [*arguments, "--url", slurm.url], env={"SLURM_JWT": slurm.token()})
    assert result.exit_code == code, result.output
    text = normalise(result.output, queue.names).replace(slurm.url, "URL").replace(__version__, "VERSION")
    # A queue that is decided at once may be older than the first backfill cycle.
    text = re.sub(r"backfill cycle: .*", "backfill cycle: TIME", text)
    return re.sub(r"slurm: +\d+\.\d+\.\d+\S*", "slurm: RELEASE", text)


def table(text: str) -> str:
    """A table whose columns are separated by two spaces, because ids of jobs differ in length.

    How many nodes are idle depends on where slurmctld places the jobs.
    """
    return re.sub(r" {2,}", "  ", re.sub(r"^nodes: .*\n", "", text, flags=re.MULTILINE))


@pytest.fixture(scope="module")
def explanations(pending_queue: PendingQueue) -> dict[str, str]:
    """What `explain` says about each job, by the title of its case; one sentence on a line."""
    jobs = pending_queue.jobs
    texts = run_verb(pending_queue, "explain", *map(str, jobs.values())).splitlines()
    return dict(zip(jobs, (text.replace(". ", ".\n") for text in texts), strict=True))


@pytest.mark.parametrize("title", [case.title for case in CASES])
def test_an_explanation_names_what_blocks_the_job(explanations: dict[str, str], title: str) -> None:
    EXPLAIN.check(title, explanations[title])


def test_a_drained_node_is_explained(pending_queue: PendingQueue) -> None:
    EXPLAIN.check("node k010", run_verb(pending_queue, "explain", "k010").replace(". ", ".\n"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["status"],
        ["queue", "-p", "busy,broken"],
        ["nodes", "k007", "k[009-010]"],
        ["forecast", "$Resources", "$Priority", "$Dependency", "$JobHeldUser", "$QOSGrpGRES"],
        ["whatif", "--add", "busy=1"],
        ["whatif", "$Priority", "--to-partition", "short", "--time", "5m"],
        ["doctor"],
        ["version"],
        ["hold", "$Resources", "--dry-run"],
        ["release", "$JobHeldUser", "--dry-run"],
        ["cancel", "$Resources", "$Priority", "--dry-run"],
        ["drain", "k007", "--reason", "broken fan", "--dry-run"],
        ["undrain", "k010", "--dry-run"],
    ],
    ids=" ".join,
)
def test_a_verb_prints_the_cluster(pending_queue: PendingQueue, arguments: list[str]) -> None:
    words = [str(pending_queue.jobs[word[1:]]) if word.startswith("$") else word for word in arguments]
    VERBS.check(" ".join(arguments), table(run_verb(pending_queue, *words)))


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["explain", "999999"], 3),
        (["explain", "k07"], 3),
        (["nodes", "k07"], 3),
        (["drain", "k01", "--reason", "fan", "--yes"], 3),
        (["release", "$Resources", "--yes"], 1),
        (["hold", "$Resources"], 2),
        (["queue", "-t", "SLEEPING"], 2),
        (["whatif", "--drain", "k07"], 3),
        (["whatif", "--add", "buzy=1"], 3),
        (["logs", "$Resources"], 1),
        (["logs", "999999"], 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_answered_with_a_sentence_and_a_code(
    pending_queue: PendingQueue, arguments: list[str], code: int
) -> None:
    words = [str(pending_queue.jobs[word[1:]]) if word.startswith("$") else word for word in arguments]
    MISTAKES.check(f"{' '.join(arguments)} -> {code}", run_verb(pending_queue, *words, code=code))


def test_at_least_25_reasons_are_produced() -> None:
    assert len({case.reason for case in CASES}) >= 25
