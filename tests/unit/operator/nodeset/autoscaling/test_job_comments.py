# SPDX-License-Identifier: Apache-2.0
import pytest

from slinky.operator.nodeset.autoscaling.job_comments import (
    MAX_JOBS,
    MAX_LENGTH,
    PREFIX,
    RETRY_SECONDS,
    JobComments,
    comment_changes,
)
from slinky.slurm import Job

OURS = f"{PREFIX}no node"


@pytest.mark.parametrize(
    ("comment", "cause", "written", "expected"),
    [
        ("", "no node", None, OURS),
        (OURS, "no node", None, None),
        (OURS, "quota", None, f"{PREFIX}quota"),
        (OURS, "", None, ""),
        ("", "", None, None),
        ("from the help desk", "no node", None, None),
        ("from the help desk", "", None, None),
        ("", "no node", OURS, None),
        ("", "", OURS, ""),
        ("from the help desk", "", OURS, None),
    ],
)
def test_a_comment_says_why_a_job_waits(comment: str, cause: str, written: str | None, expected: str | None) -> None:
    causes, before = {7: cause} if cause else {}, {} if written is None else {7: written}
    changes = comment_changes([Job(job_id=7, admin_comment=comment)], causes, before)
    assert changes == ({} if expected is None else {7: expected})


def test_few_jobs_get_short_comments() -> None:
    jobs = [Job(job_id=number) for number in range(1, 100)]
    changes = comment_changes(jobs, {job.job_id: "x" * 5000 for job in jobs}, {})
    assert len(changes) == MAX_JOBS
    assert {len(text) for text in changes.values()} == {MAX_LENGTH}


def test_a_comment_that_slurm_did_not_take_is_written_again_later() -> None:
    job, causes, comments = Job(job_id=7), {7: "no node"}, JobComments()
    assert comments.changes([job], causes, 100.0) == {7: OURS}
    comments.refuse(7, 100.0)
    assert comments.changes([job], causes, 100.0 + RETRY_SECONDS - 1) == {}
    assert comments.changes([job], causes, 100.0 + RETRY_SECONDS) == {7: OURS}
    # An error may follow a write: what Slurm shows decides.
    assert comments.changes([Job(job_id=7, admin_comment=OURS)], causes, 100.0 + RETRY_SECONDS) == {}
    comments.confirm(7, OURS)
    assert comments.changes([job], causes, 1000.0) == {}
    comments.keep_only(set())
    assert comments == JobComments()


def test_a_comment_that_could_not_be_removed_is_removed_later() -> None:
    job, comments = Job(job_id=7, admin_comment=OURS), JobComments({7: OURS})
    assert comments.changes([job], {}, 0.0) == {7: ""}
    comments.refuse(7, 0.0)
    assert comments.changes([job], {}, RETRY_SECONDS) == {7: ""}
