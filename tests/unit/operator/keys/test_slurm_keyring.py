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
from slinky.operator.keys.slurm_keyring import (
    Reach,
    Ring,
    Stage,
    Step,
    describe,
    files,
    mounted,
    name,
    read,
    secret,
    step,
)

OLD, NEW, OTHER = b"o" * 64, b"n" * 64, b"x" * 64
REF = KeyRef(key="slurm.key", name="slurm-key")
TIMES = {"settle": 100.0, "retire": 200.0}


def ring(stage: Stage = Stage.SETTLED, told: float = 0.0, **more: Any) -> Ring:
    found = Ring(OLD, NEW if stage is not Stage.SETTLED else b"", stage, 1000.0, told)
    return found._replace(**more)


def after(found: Ring, wanted: bytes = NEW, reach: Reach | None = None, now: float = 5000.0) -> Step:
    return step(found, wanted, reach or Reach(), now, **TIMES)


WORKERS = Reach(has_workers=True)


def test_nothing_happens_while_the_key_is_the_one_that_is_held() -> None:
    assert after(ring(), OLD) == Step(ring())


def test_the_stages_follow_each_other_and_the_end_is_the_new_key_alone() -> None:
    found, seen = ring(), []
    for now in (2000.0, 3000.0, 4000.0, 5000.0):
        found = after(found, now=now).ring
        seen.append(found.stage)
    assert seen == [Stage.ADDING, Stage.SWITCHING, Stage.RETIRING, Stage.SETTLED]
    assert _known(found) == (NEW, {NEW})
    assert files(found)["slurm.key"] == NEW


def test_no_stage_ends_before_every_daemon_has_read_it() -> None:
    for stage in (Stage.ADDING, Stage.SWITCHING, Stage.RETIRING):
        assert after(ring(stage), reach=Reach(behind=("ns/slurm-controller",))).ring.stage is stage
        early = after(ring(stage), reach=WORKERS, now=1050.0)
        assert (early.tell, early.ring.stage) == (False, stage), "the file may not have arrived"
        told = after(ring(stage), reach=WORKERS)
        assert (told.tell, told.ring.stage, told.ring.told) == (True, stage, 5000.0)
        late = Reach(workers_behind=("g-1",), has_workers=True)
        waiting = after(told.ring, reach=late, now=9000.0)
        assert (waiting.tell, waiting.ring.stage) == (False, stage), "told once, and waited for"
        assert "g-1" in describe(waiting)


def test_the_old_key_stays_until_every_credential_of_it_has_ended() -> None:
    there = ring(Stage.SWITCHING, told=4900.0)
    assert after(there, reach=WORKERS).ring.stage is Stage.SWITCHING
    assert after(there, reach=WORKERS, now=5101.0).ring.stage is Stage.RETIRING


def test_another_edit_in_between() -> None:
    assert after(ring(Stage.ADDING), OTHER).ring.next == OTHER, "nobody has signed with the one before"
    back = after(ring(Stage.ADDING), OLD).ring
    assert (back.stage, files(back)["slurm.key"]) == (Stage.RETIRING, OLD)
    # Once somebody signs with it, it is finished first.
    assert after(ring(Stage.SWITCHING, told=1.0), OTHER).ring.next == NEW


def _known(found: Ring) -> tuple[bytes, set[bytes]]:
    """What signs, and what is accepted, as auth/slurm has it: slurm.jwks before slurm.key."""
    listed = json.loads(files(found)["slurm.jwks"])["keys"]
    signs = [b64decode(one["k"]) for one in listed if one.get("use") == "default"]
    assert len(signs) == 1
    assert len({one["kid"] for one in listed}) == len(listed)
    return signs[0], {b64decode(one["k"]) for one in listed}


@given(st.lists(st.tuples(st.sampled_from([OLD, NEW, OTHER]), st.floats(1, 400), st.booleans()), max_size=30))
def test_neighbouring_stages_always_understand_each_other(edits: list[tuple[bytes, float, bool]]) -> None:
    found, now = ring(), 1000.0
    for wanted, wait, slow in edits:
        now += wait
        reach = Reach(behind=("a",) if slow else (), has_workers=True)
        following = step(found, wanted, reach, now, **TIMES).ring
        if files(following) != files(found):
            (signs, accepts), (signs_then, accepts_then) = _known(found), _known(following)
            assert signs in accepts_then
            assert signs_then in accepts
        found = following


def test_a_ring_is_read_back_from_its_secret_so_that_another_operator_goes_on() -> None:
    for stage in (Stage.ADDING, Stage.SWITCHING):
        there = ring(stage, told=1200.0, origin="first")
        made = secret("ns", REF, there, "words", [{"uid": "u"}])
        marks = made["metadata"]["annotations"]
        data = {key: b64decode(value) for key, value in made["data"].items()}
        assert read(Secret(ObjectMeta(name="r", annotations=marks), data)) == there
    assert made["metadata"]["name"] == name(REF) == "slurm-key-keyring"
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u"


def test_what_is_mounted_changes_with_every_stage_but_not_at_the_end() -> None:
    def seen(found: Ring) -> str:
        return mounted(Secret(ObjectMeta(name="r"), dict(files(found))))

    stages = [ring(), *(ring(stage) for stage in (Stage.ADDING, Stage.SWITCHING, Stage.RETIRING))]
    assert len({seen(found) for found in stages}) == 4
    assert seen(ring(Stage.RETIRING)) == seen(Ring(NEW))


def test_the_words_hold_no_key() -> None:
    for stage in Stage:
        text = describe(after(ring(stage), reach=Reach(behind=("x",)))) + str(
            secret("ns", REF, ring(stage), "", [])["metadata"]
        )
        assert "nnnn" not in text
        assert "oooo" not in text
