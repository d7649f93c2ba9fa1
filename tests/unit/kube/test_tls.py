# SPDX-License-Identifier: Apache-2.0
"""Laws of reloading certificate files."""

from pathlib import Path

import pytest
from tests.unit.kube.pki import self_signed

from slinky.kube.tls import Pem, ReloadedOnChange, client_context


def test_a_changed_file_makes_a_new_value_and_an_unchanged_one_does_not(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("one")
    followed = ReloadedOnChange(lambda: [path.read_text()], path)
    assert followed.get() is followed.get()
    (tmp_path / "y").write_text("two")
    (tmp_path / "y").rename(path)
    assert followed.get() == ["two"]


def test_a_failed_reload_keeps_the_old_value_until_the_files_are_valid(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("1")
    followed = ReloadedOnChange(lambda: int(path.read_text()), path)
    path.write_text("half a num")
    assert followed.get() == 1
    path.unlink()
    assert followed.get() == 1
    path.write_text("22")
    assert followed.get() == 22


def test_a_key_that_does_not_match_its_certificate_is_refused_at_once(tmp_path: Path) -> None:
    certificate, _ = self_signed("one")
    _, other = self_signed("two")
    with pytest.raises(OSError, match="KEY_VALUES_MISMATCH"):
        client_context(Pem(data=certificate), Pem(data=certificate), Pem(data=other))


def test_a_rotated_pair_gives_a_new_context(tmp_path: Path) -> None:
    for name, text in zip(("crt", "key"), self_signed("one"), strict=True):
        (tmp_path / name).write_bytes(text)
    certificate, key = Pem(tmp_path / "crt"), Pem(tmp_path / "key")
    followed = client_context(certificate, certificate, key)
    first = followed.get()
    new_certificate, new_key = self_signed("two")
    (tmp_path / "crt").write_bytes(new_certificate)
    assert followed.get() is first  # half-way through a rotation
    (tmp_path / "key").write_bytes(new_key)
    assert followed.get() is not first
