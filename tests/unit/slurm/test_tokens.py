# SPDX-License-Identifier: Apache-2.0
import contextlib
import json
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from slinky.slurm.jwks import build_jwks, mint_rs256
from slinky.slurm.tokens import (
    MAX_TIME,
    FileToken,
    MintedToken,
    TokenError,
    encode_base64url,
    mint_token,
    read_claims,
    refresh_after,
)

KEY = b"k" * 32


class Clock:
    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def test_a_minted_token_has_the_claims_of_scontrol() -> None:
    token = mint_token(KEY, "alice", lifetime=600, now=1000.9)
    assert jwt.get_unverified_header(token) == {"alg": "HS256", "typ": "JWT"}
    claims = jwt.decode(token, KEY, algorithms=["HS256"], options={"verify_exp": False, "verify_iat": False})
    assert claims == {"iat": 1000, "exp": 1600, "sun": "alice"}


def test_times_are_integers_within_32_bits() -> None:
    claims = read_claims(mint_token(KEY, "alice", lifetime=1e12, now=1000))
    assert claims.expires == MAX_TIME
    assert read_claims(mint_token(KEY, "alice", lifetime=0.2, now=1000)).expires == 1001


@pytest.mark.parametrize("user", ["", "a b", "a\nb", "\x00"])
def test_a_token_needs_a_user(user: str) -> None:
    with pytest.raises(TokenError):
        mint_token(KEY, user)


def test_a_short_key_or_a_lifetime_of_zero_is_rejected() -> None:
    with pytest.raises(TokenError):
        mint_token(b"short", "alice")
    with pytest.raises(TokenError):
        mint_token(KEY, "alice", lifetime=0)


def test_a_published_key_verifies_tokens_of_its_private_key() -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    token = mint_rs256(pem, "alice", kid="one", now=1000)
    document = json.loads(build_jwks({"one": pem}))
    assert "d" not in document["keys"][0]
    public = jwt.PyJWK(document["keys"][0]).key
    claims = jwt.decode(token, public, algorithms=["RS256"], options={"verify_exp": False})
    assert claims["sun"] == "alice"
    assert jwt.get_unverified_header(token)["kid"] == "one"
    with pytest.raises(TokenError):
        mint_rs256(b"nonsense", "alice", kid="one")


def test_a_minted_token_is_replaced_before_it_expires() -> None:
    clock = Clock()
    source = MintedToken(lambda: KEY, "alice", lifetime=100, clock=clock)
    first = source.token()
    clock.now += 79
    assert source.token() == first
    clock.now += 2
    second = source.token()
    assert second != first
    assert not read_claims(second).expired(clock.now + 79)


def test_a_clock_set_back_does_not_keep_a_token_from_the_future() -> None:
    clock = Clock()
    source = MintedToken(lambda: KEY, "alice", lifetime=100, clock=clock)
    first = source.token()
    clock.now -= 5000
    assert source.token() != first


def test_renewal_uses_the_current_key() -> None:
    keys = [b"a" * 32]
    source = MintedToken(lambda: keys[-1], "alice", clock=Clock())
    source.token()
    assert not source.renew()
    keys.append(b"b" * 32)
    assert source.renew()
    jwt.decode(source.token(), keys[-1], algorithms=["HS256"], options={"verify_exp": False})


def test_a_rotated_file_is_read_again_and_a_missing_file_keeps_the_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    with pytest.raises(TokenError):
        FileToken(path).token()
    path.write_text("SLURM_JWT=one\n")
    source = FileToken(path)
    assert source.token() == "one"
    path.write_text("second")
    assert source.token() == "second"
    path.unlink()
    assert source.token() == "second"
    assert not source.renew()


@pytest.mark.parametrize(("age", "due"), [(0, 80), (79, 1), (80, 0), (500, 0), (-500, 100)], ids=str)
def test_the_next_refresh_is_never_negative_and_never_beyond_the_lifetime(age: float, due: float) -> None:
    token = mint_token(KEY, "alice", lifetime=100, now=1000)
    assert refresh_after(token, now=1000 + age, lifetime=100) == due
    assert refresh_after("nonsense", now=0, lifetime=100) == 0


@pytest.mark.parametrize("time", ["1e400", "-1e400", "NaN", "Infinity", "-1", "253402300800"])
@pytest.mark.parametrize("claim", ["exp", "iat"])
def test_a_time_that_is_no_time_is_rejected(claim: str, time: str) -> None:
    claims = encode_base64url(f'{{"sun": "alice", "{claim}": {time}}}'.encode())
    with pytest.raises(TokenError):
        read_claims(f"e30.{claims}.x")
    assert refresh_after(f"e30.{claims}.x", now=0, lifetime=100) == 0


@given(st.text(max_size=60))
def test_any_text_is_a_token_or_rejected(text: str) -> None:
    for candidate in (text, f"a.{text}.b"):
        with contextlib.suppress(TokenError):
            read_claims(candidate)
