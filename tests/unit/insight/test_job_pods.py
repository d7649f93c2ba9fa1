# SPDX-License-Identifier: Apache-2.0
"""The pods of a job come from its admin comment; any other comment names none."""

import pytest
from tests.unit.insight import queues

from slinky.insight.explain import explain_job
from slinky.insight.job_pods import pods_of_job


@pytest.mark.parametrize(
    ("comment", "pods"),
    [
        ('{"pods":["default/a","default/b"],"slinky":{"v":1}}', ("default/a", "default/b")),
        ('{"pods":["default/a"]}', ("default/a",)),
        ("", ()),
        ("held until Monday", ()),
        ("{", ()),
        ('{"pods":7}', ()),
        ('{"pods":[7]}', ()),
        ('{"other":[]}', ()),
        ("{" * 100_000, ()),
        ('{"pods":' + "[" * 100_000, ()),
    ],
)
def test_pods(comment: str, pods: tuple[str, ...]) -> None:
    assert pods_of_job(queues.job(1, admin_comment=comment)) == pods


@pytest.mark.parametrize(("comment", "quoted"), [("until Monday", True), ('{"pods":["default/a"]}', False)])
def test_a_held_job_quotes_what_an_administrator_wrote_and_not_the_bridge(comment: str, quoted: bool) -> None:
    job = queues.job(1, admin_comment=comment, hold=True, state_reason="JobHeldAdmin")
    text = explain_job(job, queues.cluster(job)).paragraph()
    assert ("An administrator wrote" in text) is quoted
