# SPDX-License-Identifier: Apache-2.0
"""A JWT key becomes another one while tokens go on being accepted."""

import json
from base64 import b64decode
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.api.fields.refs import KeyRef
from slinky.kube.errors import Blocked
from slinky.kube.types import ObjectMeta
from slinky.kube.views import Secret
from slinky.operator.keyrings.jwt_keyring import (
    JWT_KEYRING,
    JwtKeyReach,
    JwtKeyRing,
    JwtKeyStage,
    JwtKeyStep,
    Signer,
    new_bridge,
    next_step,
)

OLD, NEW, OTHER = b"o" * 64, b"n" * 64, b"x" * 64
REF = KeyRef(key="jwt.key", name="keys")
TOKENS = JwtKeyReach(has_tokens=True)


@cache
def bridge() -> bytes:
    return new_bridge()


def after(result: JwtKeyRing, wanted: bytes = NEW, reach: JwtKeyReach = TOKENS, now: float = 5000.0) -> JwtKeyStep:
    return next_step(result, wanted, reach, now, settle=100.0, bridge=bridge)


def at(stage: JwtKeyStage) -> JwtKeyRing:
    """The ring on its way, at this stage since the second 1000."""
    current = NEW if stage in {JwtKeyStage.SWITCHING, JwtKeyStage.LANDING} else OLD
    return JwtKeyRing(OLD) if stage is JwtKeyStage.SETTLED else JwtKeyRing(current, NEW, bridge(), stage, 1000.0)


def accepted(ring: JwtKeyRing) -> set[bytes]:
    """Keys whose tokens daemons of this stage accept; that a bridge is published is another test."""
    return {ring.current, ring.bridge} - {b""}


STAGES = (JwtKeyStage.SETTLED, JwtKeyStage.OPENING, JwtKeyStage.CROSSING, JwtKeyStage.SWITCHING, JwtKeyStage.LANDING)


def test_the_stages_follow_each_other_and_the_end_is_the_new_key_alone() -> None:
    result, observed = at(JwtKeyStage.SETTLED), []
    for now in (1000.0, 2000.0, 3000.0, 4000.0, 5000.0):
        result = after(result, now=now).ring
        observed.append(result.stage)
    assert tuple(observed) == (*STAGES[1:], JwtKeyStage.SETTLED)
    assert result == JwtKeyRing(NEW, since=5000.0)


def test_without_tokens_or_with_external_daemons_no_bridging_key_is_used() -> None:
    for reach in (JwtKeyReach(), TOKENS._replace(bridgeable=False)):
        assert after(JwtKeyRing(OLD), reach=reach).ring == JwtKeyRing(NEW, since=5000.0)
    assert after(JwtKeyRing(OLD), OLD) == JwtKeyStep(JwtKeyRing(OLD))


def test_no_stage_ends_before_every_daemon_and_token_has_reached_it() -> None:
    for stage in (JwtKeyStage.OPENING, JwtKeyStage.SWITCHING):
        waiting = after(at(stage), reach=TOKENS._replace(daemons_behind=("slurm-controller",)))
        assert waiting.ring.stage is stage
        assert "slurm-controller" in JWT_KEYRING.describe(waiting)
    for stage in (JwtKeyStage.CROSSING, JwtKeyStage.LANDING):
        late = after(at(stage), reach=TOKENS._replace(tokens_behind=("mine",)))
        assert late.ring.stage is stage
        assert "mine" in JWT_KEYRING.describe(late)
        assert after(at(stage), reach=TOKENS._replace(signed_at=4950.0)).ring.stage is stage, (
            "pods still read the older"
        )
        assert after(at(stage), now=1050.0).ring.stage is stage
        assert after(at(stage), reach=TOKENS._replace(signed_at=4900.0)).ring.stage is not stage


@given(st.lists(st.tuples(st.sampled_from([OLD, NEW, OTHER]), st.floats(1, 1000), st.booleans()), max_size=30))
def test_a_token_of_one_stage_is_accepted_in_the_next(edits: list[tuple[bytes, float, bool]]) -> None:
    """Whatever a person edits meanwhile: daemons and tokens of neighbouring stages are about at the same time."""
    result, now = JwtKeyRing(OLD), 1000.0
    for wanted, seconds, reached in edits:
        now += seconds
        there = TOKENS if reached else TOKENS._replace(daemons_behind=("d",), tokens_behind=("t",))
        then = after(result, wanted, there, now).ring
        assert result.signer.key in accepted(then), "tokens that are about, by daemons that are new"
        assert then.signer.key in accepted(result), "tokens that are new, by daemons that are about"
        result = then


@pytest.mark.parametrize("stage", [JwtKeyStage.OPENING, JwtKeyStage.CROSSING])
def test_another_edit_before_daemons_have_the_key(stage: JwtKeyStage) -> None:
    assert after(at(stage), OTHER).ring == at(stage)._replace(next=OTHER)
    assert after(at(stage), OLD).ring.stage is JwtKeyStage.LANDING
    assert after(at(stage), OLD).ring.signer == Signer(OLD)


def test_a_later_edit_waits_for_the_end() -> None:
    for stage in (JwtKeyStage.SWITCHING, JwtKeyStage.LANDING):
        assert after(at(stage), OTHER).ring.current == NEW


@pytest.mark.parametrize("stage", STAGES)
def test_a_ring_is_restored_from_its_secret_so_that_another_operator_continues(stage: JwtKeyStage) -> None:
    made = JWT_KEYRING.manifest("ns", REF, at(stage), "words", [])
    data = {file: b64decode(value) for file, value in made["data"].items()}
    assert JWT_KEYRING.read(Secret(ObjectMeta(annotations=made["metadata"]["annotations"]), data)) == at(stage)
    assert made["metadata"]["name"] == JWT_KEYRING.secret_name(REF) == "keys-jwt-keyring"
    assert JWT_KEYRING.secret_name(KeyRef(key="other", name="keys")) != JWT_KEYRING.secret_name(REF)


def test_the_published_half_of_a_bridging_key_verifies_its_tokens() -> None:
    ring = at(JwtKeyStage.CROSSING)
    token = ring.signer.sign("alice", lifetime=60, now=1000.0).encode()
    assert ring.signer.signed(token)
    assert not Signer(OLD).signed(token)
    assert not ring.signer.signed(Signer(OLD).sign("alice").encode())
    site: Any = {"keys": [{"kid": "site"}]}
    published = json.loads(ring.document(json.dumps(site)))["keys"]
    assert [result["kid"] for result in published] == ["site", ring.kid]
    assert "d" not in published[1], "the private half"
    assert JwtKeyRing(OLD).document("as it is") == "as it is"
    with pytest.raises(Blocked, match="InvalidJwks"):
        ring.document("as it is")
