# SPDX-License-Identifier: Apache-2.0
from typing import Any

import jwt
import msgspec
import pytest

from slinky.api.token import Token
from slinky.kube.types import ObjectMeta
from slinky.kube.views import Secret
from slinky.operator.keyrings.jwt_keyring import Signer
from slinky.operator.token.objects import belongs_to, secret, sign_credential
from slinky.operator.token.plan import MIN_DELAY, plan
from slinky.operator.token.status import health, issued_at

KEY = b"0123456789abcdef0123456789abcdef"
NOW = 1_800_000_000.0


def token(**spec: Any) -> Token:
    body = {"jwtKeyRef": {"name": "k", "key": "jwt.key"}, "username": "alice", "lifetime": "1000s", **spec}
    return msgspec.convert({"metadata": {"name": "t", "namespace": "ns", "uid": "u"}, "spec": body}, Token)


def held(parent: Token, age: float = 0) -> bytes:
    return sign_credential(parent, Signer(KEY), NOW - age).encode()


CASES: list[tuple[str, Token, bytes | None, bool, bool]] = [
    ("none yet", token(), None, False, True),
    ("fresh", token(), held(token()), True, False),
    ("four fifths of its life are over", token(), held(token(), 801), True, True),
    ("expired long ago", token(), held(token(), 5000), True, True),
    ("signed with an older key", token(), held(token()), False, True),
    ("for somebody else", token(username="bob"), held(token()), True, True),
    ("garbage", token(), b"garbage", False, True),
    ("without an end of time", token(), b"e30.eyJleHAiOiAxZTQwMH0.x", False, True),
    ("never to be replaced", token(refresh=False), held(token(), 5000), False, False),
]


@pytest.mark.parametrize(("law", "parent", "there", "signed_", "mint"), CASES, ids=[case[0] for case in CASES])
def test_when_a_credential_is_signed(law: str, parent: Token, there: bytes | None, signed_: bool, mint: bool) -> None:
    assert plan(parent, there, signed=signed_, now=NOW).sign is mint


@pytest.mark.parametrize("age", [0, 100, 799.9, 800, 5000, -5000])
def test_the_next_look_is_always_scheduled_and_never_immediate(age: float) -> None:
    again = plan(token(), held(token(), age), signed=True, now=NOW).requeue_after
    assert again is not None
    assert MIN_DELAY <= again <= 1000


def test_the_claims_are_those_of_slurm() -> None:
    claims = jwt.decode(held(token()), KEY, algorithms=["HS256"], options={"verify_exp": False, "verify_iat": False})
    assert (claims["sun"], claims["iss"], claims["exp"] - claims["iat"]) == ("alice", "slurm-operator", 1000)
    assert claims["jti"]


def test_the_secret_is_owned_by_the_token() -> None:
    result = secret(token(), "x")
    assert [owner["kind"] for owner in result["metadata"]["ownerReferences"]] == ["Token"]
    assert result["metadata"]["name"] == "t-jwt-alice"
    assert list(result["data"]) == ["SLURM_JWT"]
    assert "immutable" not in result
    assert secret(token(refresh=False), "x")["immutable"] is True


def owned(*owners: dict[str, Any], token_: bytes = b"") -> Secret:
    meta = {"name": "t-jwt-alice", "ownerReferences": [{"apiVersion": "v1", "controller": True, **o} for o in owners]}
    return Secret(msgspec.convert(meta, ObjectMeta), {"SLURM_JWT": token_})


WHOSE: list[tuple[str, Secret, bool]] = [
    ("its own, whatever somebody wrote into it", owned({"kind": "Token", "name": "t", "uid": "u"}), True),
    ("left to the signing key by slurm-operator", owned({"kind": "Secret", "name": "k", "uid": "x"}), True),
    ("of nobody, with a token in it", owned(token_=held(token())), True),
    ("of nobody, with something else in it", owned(token_=b"password"), False),
    ("of nobody, and empty", owned(), False),
    ("of another Token", owned({"kind": "Token", "name": "s", "uid": "v"}, token_=held(token())), False),
    ("of something else", owned({"kind": "Secret", "name": "other", "uid": "x"}), False),
]


@pytest.mark.parametrize(("whose", "result", "ours"), WHOSE, ids=[case[0] for case in WHOSE])
def test_which_secrets_belong_to_a_token(whose: str, result: Secret, ours: bool) -> None:
    assert belongs_to(result, token(), Signer(KEY)) is ours


def test_the_signer_of_an_expired_token_is_recognized() -> None:
    assert Signer(KEY).signed(held(token(), 5000))
    assert not Signer(b"x" * 32).signed(held(token()))
    assert not Signer(KEY).signed(b"garbage")


def test_the_status_has_the_issue_time_and_the_validity() -> None:
    assert issued_at(held(token())) == "2027-01-15T08:00:00Z"
    assert issued_at(b"") is None
    assert health(held(token()), NOW, signed=True).ready.value is True
    assert health(held(token(), 2000), NOW, signed=True).ready.reason == "Expired"
    assert health(b"", NOW, signed=False).ready.value is False
