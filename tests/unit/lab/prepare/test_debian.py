# SPDX-License-Identifier: Apache-2.0
"""Package indexes that are too old are refused, unless the builder has turned that off by name."""

import subprocess
from pathlib import Path

import pytest

from slinky.lab.prepare.debian import APT_SETTINGS, UNCHECKED, VALIDITY, checks_validity, settings

OFF = 'Acquire::Check-Valid-Until "false";\n'
RELEASE = "Date: Sat, 01 Jan 2022 00:00:00 UTC\nValid-Until: Sat, 08 Jan 2022 00:00:00 UTC\nSHA256:\n"


@pytest.mark.parametrize(
    ("environment", "apt", "checked"),
    [
        ({}, "", True),
        ({}, 'Acquire::Check-Valid-Until "true";\n', True),
        ({}, f'APT "";\n{OFF}', False),
        ({VALIDITY: UNCHECKED}, "", False),
        ({VALIDITY: "checked"}, OFF, True),
    ],
)
def test_the_age_of_an_index_is_checked_unless_the_builder_turns_it_off(
    environment: dict[str, str], apt: str, checked: bool
) -> None:
    assert checks_validity(environment, apt) is checked


@pytest.mark.parametrize("check", [True, False])
def test_apt_refuses_an_index_that_is_too_old(tmp_path: Path, check: bool) -> None:
    """The real apt, with the settings of the images and no other ones."""
    (tmp_path / "Packages").touch()
    (tmp_path / "Release").write_text(RELEASE)
    (tmp_path / "sources").write_text(f"deb [trusted=yes] file:{tmp_path} ./\n")
    (tmp_path / "apt.conf").write_text(
        f'Dir "{tmp_path}/root/";\nDir::Etc::SourceList "{tmp_path}/sources";\n#clear Acquire::Check-Valid-Until;\n'
        + settings(check_validity=check)[APT_SETTINGS]
    )  # fmt: skip
    for folder in ("root/var/lib/apt/lists/partial", "root/var/cache/apt/archives/partial", "root/etc/apt"):
        (tmp_path / folder).mkdir(parents=True)
    environment = {"APT_CONFIG": str(tmp_path / "apt.conf"), "PATH": "/usr/bin:/bin", "LC_ALL": "C"}
    update = subprocess.run(
        ["apt-get", "-q", "update", "-o", "APT::Sandbox::User=root"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (update.returncode != 0) is check, update.stderr
    assert ("expired" in update.stderr) is check
