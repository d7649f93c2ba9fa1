# SPDX-License-Identifier: Apache-2.0
"""The archive of the kubectl plugin, as krew unpacks it, on a machine without a network."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from charts.package import archive
from release.kit import plugin_wheels
from release.krew import PYTHONS, plugin_files

from slinky import __version__
from slinky.lab.prepare.emulation import native

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked archive of this machine's platform."""
    folder = tmp_path_factory.mktemp("plugin")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
    (wheel,) = folder.glob("*.whl")
    own = native().name
    (wheels,) = (path for item, path in plugin_wheels().items() if (item.system, item.architecture) == ("linux", own))
    file = folder / "plugin.tar.gz"
    file.write_bytes(archive(plugin_files(__version__, wheel, wheels), epoch=0))
    with tarfile.open(file) as tar:
        tar.extractall(folder / "unpacked", filter="data")
    return folder / "unpacked"


def test_it_installs_and_runs_without_a_network(plugin: Path, tmp_path: Path) -> None:
    home = tmp_path / "a home"
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHON": sys.executable}
    argv = ["unshare", "--net", str(plugin / "kubectl-slinky"), "version", "--help"]
    for start in ("first", "second"):
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "Usage: kubectl slinky version" in done.stdout
        assert ("installing slinky" in done.stderr) == (start == "first")
    assert (home / ".local/share/slinky" / __version__).is_dir()


@pytest.mark.parametrize("python", PYTHONS)
def test_it_has_every_package_for_each_python(plugin: Path, tmp_path: Path, python: str) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-index", "--no-deps", "--require-hashes"]
    choice = [f"--find-links={plugin / 'wheels'}", "--only-binary=:all:", f"--python-version={python}"]
    words = [*pip, *choice, f"--dest={tmp_path}", "--requirement", str(plugin / "requirements.txt")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
