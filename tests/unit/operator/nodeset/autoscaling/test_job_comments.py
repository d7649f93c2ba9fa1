# SPDX-License-Identifier: Apache-2.0
import pytest

from slinky.operator.nodeset.autoscaling.job_comments import MAX_JOBS, MAX_LENGTH, PREFIX, comment_changes
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
