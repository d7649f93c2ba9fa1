# SPDX-License-Identifier: Apache-2.0
"""The cache of prepared artifacts: built once, keyed by their inputs, never visible while incomplete.

An artifact is built in a scratch folder under a lock and renamed into place together with a manifest of digests, so
that concurrent runs, Ctrl-C and kill -9 leave either the complete artifact or nothing. Artifacts of older inputs stay
usable until `slinky lab prepare --prune`.
"""

import contextlib
import fcntl
import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from slinky.lab.errors import LabError
from slinky.lab.paths import require_space
from slinky.lab.progress import Progress

MANIFEST = "manifest.json"
#: Shorter preparations are not announced.
NOTABLE_SECONDS = 60


@dataclass(frozen=True)
class Artifact:
    """One artifact.

    `inputs` is everything the result depends on; `build` fills an empty folder and returns facts to show,
    such as versions; `digested` names the files whose digests are recorded and checked; `seconds` is how long the build
    takes on two cores, so that progress can be shown as a share of the whole.
    """

    name: str
    what: str
    inputs: tuple[str, ...]
    build: Callable[[Path, Progress], dict[str, str]]
    gigabytes: float
    digested: tuple[str, ...] = ()
    seconds: int = 20

    @property
    def key(self) -> str:
        """A digest of the inputs."""
        return key_of(self.inputs)


class ArtifactCache:
    """A folder of artifacts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, artifact: Artifact) -> Path:
        """The path of the artifact, whether it exists or not."""
        return self.folder / artifact.name / artifact.key

    def ready(self, artifact: Artifact) -> bool:
        """Whether the artifact exists and is complete."""
        return (self.path(artifact) / MANIFEST).is_file()

    def require(self, artifact: Artifact) -> Path:
        """The path of an artifact, which must exist."""
        if not self.ready(artifact):
            raise LabError(f"{artifact.what} is not prepared", "run `slinky lab prepare` first")
        return self.path(artifact)

    def facts(self, artifact: Artifact) -> dict[str, str]:
        """The facts that its build reported."""
        facts: dict[str, str] = _manifest(self.path(artifact))["facts"]
        return facts

    def ensure(self, artifact: Artifact, progress: Progress) -> Path:
        """The path of the artifact, which is built if it is missing or damaged."""
        path = self.path(artifact)
        with self._locked(artifact, progress):
            if self.ready(artifact):
                damaged = self.damage(artifact)
                if not damaged:
                    return path
                progress.note(f"{artifact.what}: {damaged} does not match its digest, building again")
            self._build(artifact, path, progress)
        return path

    def missing(self, artifacts: Iterable[Artifact]) -> list[Artifact]:
        """Those of the artifacts that are not built yet."""
        return [artifact for artifact in artifacts if not self.ready(artifact)]

    def ensure_all(self, artifacts: Iterable[Artifact], progress: Progress) -> None:
        """Build what is missing, in order, and show how far the whole is."""
        artifacts = list(artifacts)
        missing = self.missing(artifacts)
        done, total = 0, sum(artifact.seconds for artifact in missing)
        if total > NOTABLE_SECONDS:
            text = f"{len(missing)} of {len(artifacts)} parts are built once: about {math.ceil(total / 60)} minutes"
            progress.note(f"{text} on two cores")
        for artifact in artifacts:
            if artifact in missing:
                progress.share(done, total)
                done += artifact.seconds
            self.ensure(artifact, progress)
        progress.share(total, total)

    def adopt(self, artifact: Artifact, folder: Path, progress: Progress) -> bool:
        """Move a complete artifact from a folder of the same file system into the cache; false if it is there."""
        with self._locked(artifact, progress):
            if self.ready(artifact):
                return False
            if damaged := _damage(folder):
                raise LabError(f"{artifact.what}: {damaged} does not match its digest")
            path = self.path(artifact)
            _remove(path)
            folder.rename(path)
            return True

    def damage(self, artifact: Artifact) -> str:
        """The first file whose digest differs, or an empty string."""
        return _damage(self.path(artifact))

    def _build(self, artifact: Artifact, path: Path, progress: Progress) -> None:
        require_space(self.folder, artifact.gigabytes, f"preparing {artifact.what}")
        scratch = path.with_name(f"{path.name}.building")
        _remove(scratch)
        scratch.mkdir(parents=True)
        started = time.monotonic()
        try:
            with progress.task(artifact.what):
                facts = artifact.build(scratch, progress)
        except OSError as problem:
            raise LabError(f"{artifact.what}: {problem.strerror}: {problem.filename}") from problem
        manifest = {
            "name": artifact.name,
            "facts": facts,
            "seconds": round(time.monotonic() - started, 1),
            "digests": {name: file_digest(scratch / name) for name in _expand(scratch, artifact.digested)},
        }
        (scratch / MANIFEST).write_text(json.dumps(manifest, indent=1))
        _remove(path)
        scratch.rename(path)

    @contextlib.contextmanager
    def _locked(self, artifact: Artifact, progress: Progress) -> Iterator[None]:
        folder = self.folder / artifact.name
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                progress.note(f"{artifact.what}: another run is preparing it; waiting")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def prune(self, keep: Iterable[Artifact]) -> list[Path]:
        """Remove everything but these artifacts and return the removed paths."""
        current = {self.path(artifact) for artifact in keep}
        outdated = [path for path in self.folder.glob("*/*") if path.is_dir() and path not in current]
        for path in outdated:
            _remove(path)
        return outdated


def key_of(inputs: Iterable[str]) -> str:
    """The key of an artifact with these inputs."""
    return hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:16]


def file_digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_digest(folder: Path, matters: Callable[[Path], bool] = lambda _: True) -> str:
    """The SHA-256 of a small source folder: names, modes and contents of the files that matter."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and matters(path):
            mode = "x" if os.access(path, os.X_OK) else "-"
            digest.update(f"{path.relative_to(folder)}\0{mode}\0{file_digest(path)}\n".encode())
    return digest.hexdigest()


def _manifest(path: Path) -> dict[str, dict[str, str]]:
    manifest: dict[str, dict[str, str]] = json.loads((path / MANIFEST).read_text())
    return manifest


def _damage(path: Path) -> str:
    for name, digest in _manifest(path)["digests"].items():
        file = path / name
        if not file.is_file() or file_digest(file) != digest:
            return str(name)
    return ""


def _expand(folder: Path, patterns: Iterable[str]) -> list[str]:
    found = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    return sorted(str(path.relative_to(folder)) for path in found)


def _remove(path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)
