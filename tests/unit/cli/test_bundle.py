# SPDX-License-Identifier: Apache-2.0
"""Support bundles: no secret is in them, their size is bounded, and a failure leaves no file behind."""

import base64
import hashlib
import json
import tarfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.cli.bundle.archive import CUT, ENTRY_BYTES, BundleWriter
from slinky.cli.bundle.gather import choose_path, merge_causes
from slinky.cli.bundle.redaction import REDACTED, Redactor
from slinky.cli.bundle.value_search import PIECE, ValueSearch

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdW4iOiJzbHVybSJ9.c2lnbmF0dXJl"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "kept", "secret"),
    [
        (f"token {JWT} accepted", "accepted", JWT),
        (f"SLURM_JWT={JWT}", "SLURM_JWT=", JWT),
        (PEM + "\nafter", "after", "MIIEabc"),
        (PEM[:40], "", "MIIEabc"),
        ("Authorization: Bearer abc.def-123 ok", "ok", "abc.def-123"),
        ("StoragePass=hunter2,StorageUser=slurm", "StorageUser=slurm", "hunter2"),
        ('"password": "two words"', '"password": "', "two words"),
        ("DB_PASSWORD: 'a b'", "DB_PASSWORD: '", "a b"),
        ('{\\"apiKey\\": \\"k1k1k1\\"}', "apiKey", "k1k1k1"),
        ("mysql://slurm:pw@db:3306/acct", "@db:3306/acct", "pw@"),
        ("ssh-ed25519 AAAAC3NzaC1lZDI1 alice@host", "alice@host", "AAAAC3NzaC1lZDI1"),
    ],
)
def test_texts_with_the_form_of_a_credential_are_replaced(text: str, kept: str, secret: str) -> None:
    redacted = Redactor().redact_text(text)
    assert secret not in redacted
    assert kept in redacted
    assert Redactor().redact_text(redacted) == redacted


@pytest.mark.parametrize("text", ["job 7 of alice", "AuthType=auth/slurm", "tokenLifetime: 3600", "node k001 is down"])
def test_other_texts_are_kept(text: str) -> None:
    assert Redactor().redact_text(text) == text


def test_fields_of_objects() -> None:
    pod = {
        "metadata": {"managedFields": [{}], "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x"}},
        "spec": {
            "rootSshAuthorizedKeys": "anything",
            "jwtKeyRef": {"name": "keys", "key": "jwt"},
            "automountServiceAccountToken": False,
            "secretName": "slurm-keys",
            "env": [{"name": "DB_PASSWORD", "value": "x y"}, {"name": "HOME", "value": "/root"}],
        },
    }
    assert Redactor().redact_object(pod) == {
        "metadata": {"annotations": {}},
        "spec": {
            "rootSshAuthorizedKeys": REDACTED,
            "jwtKeyRef": {"name": "keys", "key": "jwt"},
            "automountServiceAccountToken": False,
            "secretName": "slurm-keys",
            "env": [{"name": "DB_PASSWORD", "value": REDACTED}, {"name": "HOME", "value": "/root"}],
        },
    }


@given(st.binary(min_size=8, max_size=40), st.text(max_size=30))
def test_a_value_of_a_secret_is_found_in_every_form(value: bytes, text: str) -> None:
    redactor = Redactor([value])
    assert base64.b64encode(value).decode() not in redactor.redact_text(f"{text} {base64.b64encode(value).decode()}")
    try:
        plain = value.strip().decode()
    except UnicodeDecodeError:
        return
    if len(plain) >= 8:
        assert plain not in redactor.redact_text(f"{text}{plain}") or plain in REDACTED
        quoted = json.dumps(plain)
        assert quoted[1:-1] not in redactor.redact_text(quoted) or quoted[1:-1] in REDACTED


SHORT_TEXTS = st.text("ab", min_size=PIECE, max_size=9)


@given(st.sets(SHORT_TEXTS, max_size=6), st.text("abc", max_size=60))
def test_every_occurrence_of_every_value_is_found_also_where_they_overlap(values: set[str], text: str) -> None:
    covered = [False] * len(text)
    for value in values:
        for start in range(len(text)):
            if text.startswith(value, start):
                covered[start : start + len(value)] = [True] * len(value)
    kept = "".join(letter for letter, is_covered in zip(text, covered, strict=True) if not is_covered)
    replaced = ValueSearch(values).replace(text, "*")
    assert replaced.replace("*", "") == kept
    assert ("*" in replaced) == any(covered)


def test_many_values_are_searched_in_one_pass() -> None:
    # A search for each value would take minutes, which the time limit of unit tests ends.
    values = [hashlib.sha256(b"%d" % number).hexdigest() for number in range(20_000)]
    noise = "".join(hashlib.sha512(b"%d" % number).hexdigest() for number in range(15_000))
    text = noise + values[7] + noise
    assert Redactor([value.encode() for value in values]).redact_text(text) == noise + REDACTED + noise


@pytest.mark.parametrize("part", ["a", "eyJ-", "a://", "password", "-----BEGIN PRIVATE KEY-----", "token=", "ssh-"])
def test_a_long_text_is_redacted_in_linear_time(part: str) -> None:
    # A pattern of quadratic time would take minutes, which the time limit of unit tests ends.
    Redactor().redact_text(part * (1_000_000 // len(part)))


def test_a_bundle_is_private_bounded_and_names_what_it_leaves_out(tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar.gz"
    with BundleWriter(path, Redactor([b"planted-value"]), limit=100, now=time.time()) as bundle:
        bundle.add("a/planted-value.txt", "one planted-value two")
        bundle.add("large.txt", "x" * 101)
        bundle.add("summary.json", "y" * 200, always=True)
    assert bundle.left_out == ["large.txt"]
    assert path.stat().st_mode & 0o777 == 0o600
    with tarfile.open(path) as tar:
        names = tar.getnames()
        first = tar.extractfile(names[0])
        assert first is not None
        assert first.read() == b"one [redacted] two"
    assert names == ["bundle/a/[redacted].txt", "bundle/summary.json"]


def test_a_failure_leaves_no_file(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError),
        BundleWriter(tmp_path / "b.tar.gz", Redactor(), limit=100, now=0) as bundle,
    ):
        bundle.add("a", "text")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_of_a_long_entry_the_end_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    with BundleWriter(path, Redactor(), limit=10 * ENTRY_BYTES, now=0) as bundle:
        bundle.add("log", "old\n" + "x" * ENTRY_BYTES + "\nnew")
    with tarfile.open(path) as tar:
        entry = tar.extractfile("b/log")
        assert entry is not None
        content = entry.read().decode()
    assert content.startswith(CUT)
    assert content.endswith("\nnew")


def test_names_of_bundles() -> None:
    assert choose_path("", 0) == Path("slinky-gather-19700101T000000Z.tar.gz")
    assert choose_path("x", 0) == Path("x.tar.gz")


def test_a_cause_is_named_once_for_everything_that_it_concerns() -> None:
    problems = ["slurm ping: refused", "slurm jobs: refused", "nodes: no permission"]
    assert merge_causes(problems) == ["slurm ping, slurm jobs: refused", "nodes: no permission"]
