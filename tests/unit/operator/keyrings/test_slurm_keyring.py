# SPDX-License-Identifier: Apache-2.0
"""A slurm key becomes another one."""

import json
from base64 import b64decode
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slinky.api.fields.refs import KeyRef
from slinky.kube.types import ObjectMeta
from slinky.kube.views import Secret
from slinky.operator.keyrings.slurm_keyring import (
    SLURM_KEYRING,
    SlurmKeyReach,
    SlurmKeyRing,
    SlurmKeyStage,
    SlurmKeyStep,
    mounted_digest,
    next_step,
)

OLD, NEW, OTHER = b"o" * 64, b"n" * 64, b"x" * 64
REF = KeyRef(key="slurm.key", name="slurm-key")
TIMES = {"settle": 100.0, "retire": 200.0}


def ring(stage: SlurmKeyStage = SlurmKeyStage.SETTLED, reconfigured_at: float = 0.0, **more: Any) -> SlurmKeyRing:
    result = SlurmKeyRing(OLD, NEW if stage is not SlurmKeyStage.SETTLED else b"", stage, 1000.0, reconfigured_at)
    return result._replace(**more)


def after(
    result: SlurmKeyRing, wanted: bytes = NEW, reach: SlurmKeyReach | None = None, now: float = 5000.0
) -> SlurmKeyStep:
    return next_step(result, wanted, reach or SlurmKeyReach(), now, **TIMES)


WORKERS = SlurmKeyReach(has_workers=True)


def test_nothing_happens_while_the_key_is_unchanged() -> None:
    assert after(ring(), OLD) == SlurmKeyStep(ring())


def test_the_stages_follow_each_other_and_the_end_is_the_new_key_alone() -> None:
    result, observed = ring(), []
    for now in (2000.0, 3000.0, 4000.0, 5000.0):
        result = after(result, now=now).ring
        observed.append(result.stage)
    assert observed == [SlurmKeyStage.ADDING, SlurmKeyStage.SWITCHING, SlurmKeyStage.RETIRING, SlurmKeyStage.SETTLED]
    assert _known(result) == (NEW, {NEW})
    assert SLURM_KEYRING.files(result)["slurm.key"] == NEW


def test_no_stage_ends_before_every_daemon_has_read_it() -> None:
    for stage in (SlurmKeyStage.ADDING, SlurmKeyStage.SWITCHING, SlurmKeyStage.RETIRING):
        assert after(ring(stage), reach=SlurmKeyReach(workloads_behind=("ns/slurm-controller",))).ring.stage is stage
        early = after(ring(stage), reach=WORKERS, now=1050.0)
        assert (early.reconfigure, early.ring.stage) == (False, stage), "the file may not have arrived"
        told = after(ring(stage), reach=WORKERS)
        assert (told.reconfigure, told.ring.stage, told.ring.reconfigured_at) == (True, stage, 5000.0)
        late = SlurmKeyReach(workers_behind=("g-1",), has_workers=True)
        waiting = after(told.ring, reach=late, now=9000.0)
        assert (waiting.reconfigure, waiting.ring.stage) == (False, stage), "told once, and waited for"
        assert "g-1" in SLURM_KEYRING.describe(waiting)


def test_the_old_key_stays_until_its_last_credential_has_expired() -> None:
    there = ring(SlurmKeyStage.SWITCHING, reconfigured_at=4900.0)
    assert after(there, reach=WORKERS).ring.stage is SlurmKeyStage.SWITCHING
    assert after(there, reach=WORKERS, now=5101.0).ring.stage is SlurmKeyStage.RETIRING


def test_another_edit_in_between() -> None:
    assert after(ring(SlurmKeyStage.ADDING), OTHER).ring.next == OTHER, "nobody has signed with the one before"
    back = after(ring(SlurmKeyStage.ADDING), OLD).ring
    assert (back.stage, SLURM_KEYRING.files(back)["slurm.key"]) == (SlurmKeyStage.RETIRING, OLD)
    # Once somebody signs with it, it is finished first.
    assert after(ring(SlurmKeyStage.SWITCHING, reconfigured_at=1.0), OTHER).ring.next == NEW


def _known(result: SlurmKeyRing) -> tuple[bytes, set[bytes]]:
    """What signs, and what is accepted, as auth/slurm has it: slurm.jwks before slurm.key."""
    listed = json.loads(SLURM_KEYRING.files(result)["slurm.jwks"])["keys"]
    signs = [b64decode(one["k"]) for one in listed if one.get("use") == "default"]
    assert len(signs) == 1
    assert len({one["kid"] for one in listed}) == len(listed)
    return signs[0], {b64decode(one["k"]) for one in listed}


@given(st.lists(st.tuples(st.sampled_from([OLD, NEW, OTHER]), st.floats(1, 400), st.booleans()), max_size=30))
def test_daemons_in_neighbouring_stages_accept_each_other(edits: list[tuple[bytes, float, bool]]) -> None:
    result, now = ring(), 1000.0
    for wanted, wait, slow in edits:
        now += wait
        reach = SlurmKeyReach(workloads_behind=("a",) if slow else (), has_workers=True)
        following = next_step(result, wanted, reach, now, **TIMES).ring
        if SLURM_KEYRING.files(following) != SLURM_KEYRING.files(result):
            (signs, accepts), (signs_then, accepts_then) = _known(result), _known(following)
            assert signs in accepts_then
            assert signs_then in accepts
        result = following


def test_a_ring_is_restored_from_its_secret_so_that_another_operator_continues() -> None:
    for stage in (SlurmKeyStage.ADDING, SlurmKeyStage.SWITCHING):
        there = ring(stage, reconfigured_at=1200.0, origin="first")
        made = SLURM_KEYRING.manifest("ns", REF, there, "words", [{"uid": "u"}])
        marks = made["metadata"]["annotations"]
        data = {key: b64decode(value) for key, value in made["data"].items()}
        assert SLURM_KEYRING.read(Secret(ObjectMeta(name="r", annotations=marks), data)) == there
    assert made["metadata"]["name"] == SLURM_KEYRING.secret_name(REF) == "slurm-key-keyring"
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u"


def test_what_is_mounted_changes_with_every_stage_but_not_at_the_end() -> None:
    def observed(result: SlurmKeyRing) -> str:
        return mounted_digest(Secret(ObjectMeta(name="r"), dict(SLURM_KEYRING.files(result))))

    stages = [
        ring(),
        *(ring(stage) for stage in (SlurmKeyStage.ADDING, SlurmKeyStage.SWITCHING, SlurmKeyStage.RETIRING)),
    ]
    assert len({observed(result) for result in stages}) == 4
    assert observed(ring(SlurmKeyStage.RETIRING)) == observed(SlurmKeyRing(NEW))


def test_descriptions_contain_no_key() -> None:
    for stage in SlurmKeyStage:
        text = SLURM_KEYRING.describe(after(ring(stage), reach=SlurmKeyReach(workloads_behind=("x",)))) + str(
            SLURM_KEYRING.manifest("ns", REF, ring(stage), "", [])["metadata"]
        )
        assert "nnnn" not in text
        assert "oooo" not in text
