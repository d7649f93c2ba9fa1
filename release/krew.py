# SPDX-License-Identifier: Apache-2.0
"""The kubectl plugin: an archive with the wheel and its pinned requirements, and the manifest for krew.

The dependencies have compiled parts for each version of Python, so the archive names them by hash instead of containing
them: the first start installs them into a private folder. Later starts need no network.
"""

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
HERE = Path(__file__).parent
SHORT = "Say why Slurm jobs and pods wait, and when they start"
DESCRIPTION = """\
Explains Slurm jobs and the pods that Slurm schedules: why they wait, when they are expected to start, what a change
would do. Lists queue and nodes, drains nodes, and checks a cluster. Needs Python 3.11 or newer.
"""


def plugin_files(version: str, wheel: Path) -> dict[str, bytes]:
    """The files of the archive by path."""
    return {
        "kubectl-slinky": (HERE / "kubectl-slinky").read_text().replace("@VERSION@", version).encode(),
        "kubectl_complete-slinky": (HERE / "kubectl_complete-slinky").read_bytes(),
        wheel.name: wheel.read_bytes(),
        "requirements.txt": (ROOT / "requirements" / "runtime.txt").read_bytes(),
        "LICENSE": (ROOT / "LICENSE").read_bytes(),
        "NOTICE": (ROOT / "NOTICE").read_bytes(),
    }


def manifest(version: str, uri: str, sha256: str) -> str:
    """The manifest for krew's index."""
    platforms = [
        {"selector": {"matchLabels": {"os": system}}, "uri": uri, "sha256": sha256, "bin": "kubectl-slinky"}
        for system in ("linux", "darwin")
    ]
    plugin = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "slinky"},
        "spec": {
            "version": f"v{version}",
            "shortDescription": SHORT,
            "description": DESCRIPTION,
            "caveats": "The first start installs the Python packages that requirements.txt pins by hash.\n",
            "platforms": platforms,
        },
    }
    return yaml.safe_dump(plugin, sort_keys=False, width=120)
