# SPDX-License-Identifier: Apache-2.0
"""Package indexes without a signature are refused; so are those that are too old, unless the builder turns that off."""

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


def update(folder: Path, source: str, release: str, *, check: bool) -> subprocess.CompletedProcess[str]:
    """Run the real apt with the settings of the images and no other ones."""
    (folder / "Packages").touch()
    (folder / "Release").write_text(release)
    (folder / "sources").write_text(source)
    (folder / "apt.conf").write_text(
        f'Dir "{folder}/root/";\nDir::Etc::SourceList "{folder}/sources";\n#clear Acquire::Check-Valid-Until;\n'
        + settings(check_validity=check)[APT_SETTINGS]
    )  # fmt: skip
    for name in ("root/var/lib/apt/lists/partial", "root/var/cache/apt/archives/partial", "root/etc/apt"):
        (folder / name).mkdir(parents=True)
    environment = {"APT_CONFIG": str(folder / "apt.conf"), "PATH": "/usr/bin:/bin", "LC_ALL": "C"}
    return subprocess.run(
        ["apt-get", "-q", "update", "-o", "APT::Sandbox::User=root"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("check", [True, False])
def test_apt_refuses_an_index_that_is_too_old(tmp_path: Path, check: bool) -> None:
    done = update(tmp_path, f"deb [trusted=yes] file:{tmp_path} ./\n", RELEASE, check=check)
    assert (done.returncode != 0) is check, done.stderr
    assert ("expired" in done.stderr) is check


@pytest.mark.parametrize("check", [True, False])
def test_apt_refuses_an_index_without_a_signature(tmp_path: Path, check: bool) -> None:
    """Also where the builder has turned off the check of its age."""
    done = update(tmp_path, f"deb file:{tmp_path} ./\n", RELEASE.replace("2022", "2099"), check=check)
    assert done.returncode != 0
    assert "is not signed" in done.stderr
