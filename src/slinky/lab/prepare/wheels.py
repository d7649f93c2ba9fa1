# SPDX-License-Identifier: Apache-2.0
"""The wheels of the slinky image: its pinned dependencies for the Python of the image, and slinky itself.

They are downloaded and built on this machine, with its registry settings, so that building the image needs no network.
This needs a checkout: an installed slinky does not contain its build files.
"""

import platform
import sys
from pathlib import Path

from slinky.lab.errors import LabError
from slinky.lab.machine.sandbox import stream
from slinky.lab.prepare.artifact_cache import Artifact, file_digest, tree_digest
from slinky.lab.progress import Progress

CHECKOUT = Path(__file__).parents[4]
PYTHON = "3.14"  # of the Debian suite of the images


def dependencies(machine: str = "") -> Artifact:
    """Every wheel that requirements/runtime.txt pins, verified by hash, in `wheels`; for this or another machine."""
    pins = _checkout_file("requirements/runtime.txt")
    what = "the wheels that slinky needs"

    def build(folder: Path, progress: Progress) -> dict[str, str]:
        platforms = [
            f"--platform=manylinux_{glibc}_{machine or platform.machine()}" for glibc in ("2_17", "2_28", "2_34")
        ]
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--require-hashes"]
        choice = ["--no-deps", "--only-binary=:all:", f"--python-version={PYTHON}", *platforms]
        stream([*pip, *choice, "--dest", str(folder / "wheels"), "--requirement", str(pins)])
        return {"python": PYTHON, "wheels": str(len(list((folder / "wheels").iterdir())))}

    inputs = (PYTHON, file_digest(pins), *((machine,) if machine else ()))
    return Artifact("wheels", what, inputs, build, gigabytes=1, digested=("wheels/*",))


def own(pinned: Path) -> Artifact:
    """The dependencies together with the wheel of slinky."""
    project = _checkout_file("pyproject.toml")
    what = "the wheel of slinky"

    def build(folder: Path, progress: Progress) -> dict[str, str]:
        stream(["cp", "-al", str(pinned / "wheels"), str(folder / "wheels")])
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
        stream([*pip, "--no-build-isolation", "--wheel-dir", str(folder / "wheels"), str(CHECKOUT)])
        return {}

    def matters(path: Path) -> bool:
        return "__pycache__" not in path.parts and path.suffix != ".pyc"

    inputs = (pinned.name, file_digest(project), tree_digest(CHECKOUT / "src", matters))
    return Artifact("wheel", what, inputs, build, gigabytes=1)


def _checkout_file(name: str) -> Path:
    file = CHECKOUT / name
    if not file.exists():
        raise LabError("the image of slinky can be built from a checkout only", "clone the repository")
    return file
