# SPDX-License-Identifier: Apache-2.0
"""Prepared artifacts as one file, so that one machine builds them for many.

The file is a tar archive: an index of names and keys, then the folder of each artifact. A lab runs its programs as
root, so import only files of trusted origin; digests only show that a file is complete.
"""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from slinky.lab.errors import LabError
from slinky.lab.machine.sandbox import stream
from slinky.lab.paths import require_space
from slinky.lab.prepare.artifact_cache import Artifact, ArtifactCache
from slinky.lab.progress import Progress

INDEX = "slinky-artifacts.json"
TAR = ("tar", "--numeric-owner", "--xattrs", "--xattrs-include=*", "--sparse")


def export_artifacts(store: ArtifactCache, artifacts: Iterable[Artifact], file: Path, progress: Progress) -> None:
    """Write the artifacts to a file; the ending (.tar, .tar.gz, .tar.zst) chooses the compression."""
    folders = {artifact.name: store.require(artifact) for artifact in artifacts}
    partial = file.with_name(f"partial-{file.name}")
    with tempfile.TemporaryDirectory(prefix="slinky-export-") as scratch:
        index = Path(scratch, INDEX)
        index.write_text(json.dumps({name: folder.name for name, folder in folders.items()}, indent=1))
        members = [str(folder.relative_to(store.folder)) for folder in folders.values()]
        begin = [*TAR, "--create", "--auto-compress", "--file", str(partial), "-C", scratch, INDEX]
        try:
            with progress.task(f"writing {len(folders)} parts to {file}"):
                stream([*begin, "-C", str(store.folder), *members])
            partial.rename(file)
        finally:
            partial.unlink(missing_ok=True)


def import_artifacts(store: ArtifactCache, artifacts: Iterable[Artifact], file: Path, progress: Progress) -> list[str]:
    """Move the artifacts of a file that this version uses into the cache; returns the names of new ones."""
    keys = _read_index(file)
    wanted = [artifact for artifact in artifacts if keys.get(artifact.name) == artifact.key]
    if not wanted:
        raise LabError(f"{file} has nothing that this version of slinky uses", "export it again with the same version")
    missing = store.missing(wanted)
    if not missing:
        return []
    store.folder.mkdir(parents=True, exist_ok=True)
    require_space(store.folder, 3 * file.stat().st_size / 1e9, f"importing {file.name}")
    scratch = Path(tempfile.mkdtemp(prefix="import.", dir=store.folder))
    try:
        members = [f"{artifact.name}/{artifact.key}" for artifact in missing]
        with progress.task(f"reading {len(members)} parts from {file}"):
            stream([*TAR, "--extract", "--preserve-permissions", "--file", str(file), "-C", str(scratch), *members])
        adopted = [item for item in missing if store.adopt(item, scratch / item.name / item.key, progress)]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return [artifact.name for artifact in adopted]


def _read_index(file: Path) -> dict[str, str]:
    """The keys of the artifacts in a file, by name."""
    if not file.is_file():
        raise LabError(f"there is no file {file}", "write one with `slinky lab prepare --export FILE`")
    argv = ["tar", "--extract", "--to-stdout", "--occurrence=1", "--file", str(file), INDEX]
    done = subprocess.run(argv, capture_output=True, check=False)
    try:
        keys = json.loads(done.stdout)
    except ValueError:
        keys = None
    if not isinstance(keys, dict) or not all(isinstance(key, str) for key in keys.values()):
        raise LabError(f"{file} is not an export of `slinky lab prepare`", "write one with --export")
    return keys
