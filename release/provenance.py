# SPDX-License-Identifier: Apache-2.0
"""How a release was made, as in-toto statement with a SLSA provenance: from which commit and pins, to which digests.

It has no times and no host names, so that two runs give the same bytes. The checksums list it, and their signature
covers it.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BUILD_TYPE = "https://slinky.slurm.net/release/v1"
BUILDER = "https://slinky.slurm.net/make-release/v1"


def statement(
    version: str, commit: str, epoch: int, files: Mapping[str, str], images: Mapping[str, Any]
) -> dict[str, Any]:
    """The statement about these files (digest by path) and these images."""
    subjects = [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(files.items())]
    subjects += [
        {"name": f"{images['registry']}/{name}", "digest": {"sha256": digest.removeprefix("sha256:")}}
        for name, digest in sorted(images["digests"].items())
    ]
    pins = sorted((ROOT / "requirements").rglob("*.txt"))
    dependencies = [
        {"uri": f"file:{pin.relative_to(ROOT)}", "digest": {"sha256": hashlib.sha256(pin.read_bytes()).hexdigest()}}
        for pin in pins
    ]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"version": version, "images": images["registry"]},
                "internalParameters": {"SOURCE_DATE_EPOCH": epoch},
                "resolvedDependencies": [{"uri": "git:HEAD", "digest": {"gitCommit": commit}}, *dependencies],
            },
            "runDetails": {"builder": {"id": BUILDER}},
        },
    }


def render(content: Mapping[str, Any]) -> str:
    """The statement as text."""
    return json.dumps(content, indent=1, sort_keys=True) + "\n"
