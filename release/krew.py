# SPDX-License-Identifier: Apache-2.0
"""The kubectl plugin: an archive for each platform with the wheel, the wheels that it needs, and the manifest for krew.

The dependencies have compiled parts for each platform and version of Python, so an archive contains one wheel of each
for every version of `PYTHONS`. The first start installs them into a private folder, without a network.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from slinky.lab.machine.sandbox import stream
from slinky.lab.prepare.artifact_cache import Artifact, file_digest
from slinky.lab.progress import Progress

ROOT = Path(__file__).parents[1]
HERE = Path(__file__).parent
PINS = ROOT / "requirements" / "runtime.txt"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SHORT = "Say why Slurm jobs and pods wait, and when they start"
DESCRIPTION = """\
Explains Slurm jobs and the pods that Slurm schedules: why they wait, when they are expected to start, what a change
would do. Lists queue and nodes, drains nodes, and checks a cluster. Needs Python 3.11 or newer.
"""


@dataclass(frozen=True)
class PluginPlatform:
    """A platform as krew names it, and the tags of the wheels that fit."""

    system: str
    architecture: str
    tags: tuple[str, ...]

    @property
    def name(self) -> str:
        """The end of the name of its archive."""
        return f"{self.system}-{self.architecture}"


def _linux(machine: str) -> tuple[str, ...]:
    return tuple(f"manylinux_{glibc}_{machine}" for glibc in ("2_17", "2_28"))


#: Intel Macs are left out: the pinned cryptography has no wheel for them.
PLATFORMS = (
    PluginPlatform("linux", "amd64", _linux("x86_64")),
    PluginPlatform("linux", "arm64", _linux("aarch64")),
    PluginPlatform("darwin", "arm64", tuple(f"macosx_{release}_0_arm64" for release in (11, 12, 13))),
)


def wheels(platform: PluginPlatform) -> Artifact:
    """Every wheel that the plugin needs on a platform, verified by hash; downloaded once."""

    def build(folder: Path, progress: Progress) -> dict[str, str]:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--require-hashes"]
        tags = [f"--platform={tag}" for tag in platform.tags]
        for python in PYTHONS:
            choice = ["--no-deps", "--only-binary=:all:", f"--python-version={python}", *tags]
            stream([*pip, *choice, "--dest", str(folder / "wheels"), "--requirement", str(PINS)])
        return {"wheels": str(len(list((folder / "wheels").iterdir())))}

    inputs = (file_digest(PINS), *PYTHONS, *platform.tags)
    what = f"the wheels of the kubectl plugin for {platform.name}"
    return Artifact(f"plugin-{platform.name}", what, inputs, build, gigabytes=0.2, digested=("wheels/*",))


def plugin_files(version: str, wheel: Path, dependencies: Path) -> dict[str, bytes]:
    """The files of the archive by path; `dependencies` is a folder with the wheels of a platform."""
    return {
        "kubectl-slinky": (HERE / "kubectl-slinky").read_text().replace("@VERSION@", version).encode(),
        "kubectl_complete-slinky": (HERE / "kubectl_complete-slinky").read_bytes(),
        wheel.name: wheel.read_bytes(),
        "requirements.txt": PINS.read_bytes(),
        "LICENSE": (ROOT / "LICENSE").read_bytes(),
        "NOTICE": (ROOT / "NOTICE").read_bytes(),
        **{f"wheels/{path.name}": path.read_bytes() for path in sorted(dependencies.iterdir())},
    }


def archive_name(version: str, platform: PluginPlatform) -> str:
    """The file name of the archive of a platform."""
    return f"kubectl-slinky-{version}-{platform.name}.tar.gz"


def manifest(version: str, url: str, digests: Mapping[PluginPlatform, str]) -> str:
    """The manifest for krew's index; `digests` has the SHA-256 of each archive."""
    platforms = [
        {
            "selector": {"matchLabels": {"os": platform.system, "arch": platform.architecture}},
            "uri": f"{url}/{archive_name(version, platform)}",
            "sha256": digest,
            "bin": "kubectl-slinky",
        }
        for platform, digest in digests.items()
    ]
    plugin = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "slinky"},
        "spec": {
            "version": f"v{version}",
            "shortDescription": SHORT,
            "description": DESCRIPTION,
            "caveats": "The first start installs the Python packages of the archive into a folder of its own.\n",
            "platforms": platforms,
        },
    }
    return yaml.safe_dump(plugin, sort_keys=False, width=120)
