# SPDX-License-Identifier: Apache-2.0
"""Every pending reason of Slurm has a meaning, a remedy and, where a person can act, a next step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.insight import pending_reasons
from slinky.insight.limit_reasons import LIMIT_TOKENS, Scope, parse_limit
from slinky.insight.pending_reasons import DESCRIPTIONS, REASONS, Remedy, explain
from slinky.slurm import Job

#: Distinct reasons of Slurm 26.05.
REASON_COUNT = 216


def test_the_table_has_every_reason_once() -> None:
    tokens = [token for token, _ in pending_reasons.all_reasons()]
    assert len(tokens) == len(set(tokens)) == REASON_COUNT


@pytest.mark.parametrize("token", [*REASONS, *LIMIT_TOKENS])
def test_every_reason_is_explained(token: str) -> None:
    reason = explain(token)
    assert reason.sentence.endswith(".")
    assert reason.remedy is not Remedy.UNKNOWN
    if reason.remedy in (Remedy.USER, Remedy.ADMINISTRATOR, Remedy.RUN_ENDED):
        assert reason.step.endswith(".")
    if reason.blocking_field:
        assert hasattr(Job(job_id=1), reason.blocking_field)


@pytest.mark.parametrize("token", LIMIT_TOKENS)
def test_the_name_of_a_limit_says_what_it_limits(token: str) -> None:
    limit = parse_limit(token)
    assert limit is not None
    assert limit.of_qos is not token.startswith("Assoc")
    assert limit.minimum is token.startswith("QOSMin")
    assert (limit.scope is Scope.GROUP) is ("Grp" in token)


@pytest.mark.parametrize(
    ("token", "remedy", "words"),
    [
        ("QOSGrpGRES", Remedy.WAITING, "QOS has reached its limit of generic resources"),
        ("QOSMaxGRESPerUser", Remedy.WAITING, "for one user"),
        ("MaxCpuPerAccount", Remedy.WAITING, "CPUs for one account"),
        ("AssocGrpCPURunMinutesLimit", Remedy.WAITING, "shorter time limit"),
        ("AssocGrpCPUMinutesLimit", Remedy.ADMINISTRATOR, "used up its minutes of CPUs"),
        ("AssocGrpWallLimit", Remedy.ADMINISTRATOR, "minutes of wall-clock time"),
        ("QOSMaxCpuPerJobLimit", Remedy.USER, "waiting does not help"),
        ("QOSMaxWallDurationPerJobLimit", Remedy.USER, "time limit"),
        ("AssocMaxJobsLimit", Remedy.WAITING, "running jobs"),
        ("QOSMinGRES", Remedy.USER, "Request more"),
        ("Resources", Remedy.WORKERS, "nodes to become free"),
        ("JobHeldUser", Remedy.USER, "scontrol release"),
    ],
)
def test_the_remedy_fits_the_reason(token: str, remedy: Remedy, words: str) -> None:
    reason = explain(token)
    assert reason.remedy is remedy
    assert words in str(reason)


@pytest.mark.parametrize("text", DESCRIPTIONS)
def test_a_description_refines_its_reason(text: str) -> None:
    assert explain("Resources", f"{text}, and more").sentence == DESCRIPTIONS[text].sentence
    assert explain(f"ReqNodeNotAvail, {text}").sentence == DESCRIPTIONS[text].sentence
    assert explain("Reservation", text).blocking_field == "resv_name"


def test_text_behind_a_reason_does_not_hide_it() -> None:
    assert explain("ReqNodeNotAvail, UnavailableNodes:k001") == REASONS["ReqNodeNotAvail"]
    assert explain("") == REASONS["None"]


@given(st.text(max_size=60))
def test_an_unknown_reason_is_passed_on(token: str) -> None:
    first = token.partition(",")[0].strip()
    reason = explain(token)
    assert reason.remedy is not Remedy.UNKNOWN or first in reason.sentence
