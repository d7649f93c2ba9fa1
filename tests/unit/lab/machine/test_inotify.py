# SPDX-License-Identifier: Apache-2.0
"""The limit of inotify instances: raised by the first lab, put back by the last."""

from pathlib import Path

import pytest

from slinky.lab.machine.inotify import NEEDED, raise_limit, restore_limit


@pytest.fixture
def limit(tmp_path: Path) -> Path:
    file = tmp_path / "limit"
    file.write_text("128\n")
    return file


def lab(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    return folder


def test_the_last_lab_puts_the_limit_back(tmp_path: Path, limit: Path) -> None:
    kept, one, two = tmp_path / "kept", lab(tmp_path, "one"), lab(tmp_path, "two")
    raise_limit(one, limit, kept)
    raise_limit(two, limit, kept)
    assert int(limit.read_text()) == NEEDED
    restore_limit(one, limit, kept)
    assert int(limit.read_text()) == NEEDED
    restore_limit(two, limit, kept)
    assert int(limit.read_text()) == 128
    assert not kept.exists()


def test_a_lab_that_vanished_does_not_hold_the_limit(tmp_path: Path, limit: Path) -> None:
    kept, one, two = tmp_path / "kept", lab(tmp_path, "one"), lab(tmp_path, "two")
    raise_limit(one, limit, kept)
    raise_limit(two, limit, kept)
    two.rmdir()
    restore_limit(one, limit, kept)
    assert int(limit.read_text()) == 128


def test_a_roomy_machine_is_left_alone(tmp_path: Path, limit: Path) -> None:
    kept, one = tmp_path / "kept", lab(tmp_path, "one")
    limit.write_text("8192")
    raise_limit(one, limit, kept)
    restore_limit(one, limit, kept)
    assert (limit.read_text(), kept.exists()) == ("8192", False)


def test_what_somebody_else_set_since_stays(tmp_path: Path, limit: Path) -> None:
    kept, one = tmp_path / "kept", lab(tmp_path, "one")
    raise_limit(one, limit, kept)
    limit.write_text("4096")
    restore_limit(one, limit, kept)
    assert limit.read_text() == "4096"
