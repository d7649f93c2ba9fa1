# SPDX-License-Identifier: Apache-2.0
"""`make release VERSION=...`: everything that a release publishes, in one folder, without a network.

The same sources give the same bytes: archives are sorted and carry the time of SOURCE_DATE_EPOCH, by default that of
the last commit. SHA256SUMS lists every file, so two folders are compared by one file. Images are pushed before, by
`make images`; their digests are part of the release.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from charts.metadata import changes_of
from charts.package import PackageError, archive, read_images, write_packages

from release import completions, krew, provenance
from release.signing import PUBLIC_KEY, Cosign, SigningError, find_cosign
from slinky import __version__
from slinky.lab.errors import LabError
from slinky.lab.prepare.images import ARCHIVE
from slinky.lab.prepare.inventory import ArtifactInventory
from slinky.lab.prepare.publish import build_all
from slinky.lab.progress import Progress

ROOT = Path(__file__).parents[1]
SUMS = "SHA256SUMS"
PROVENANCE = "provenance.json"
NAMESPACE = "slinky"
KUSTOMIZATION = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [install.yaml]
"""


class ReleaseError(Exception):
    """Something that the releaser must change, with the next step."""


@dataclass(frozen=True)
class ReleaseKit:
    """The inputs of a release."""

    version: str
    images: Mapping[str, Any]
    output: Path
    epoch: int
    url: str
    helm: str
    #: The folder with the wheels of the kubectl plugin for each platform.
    wheels: Mapping[krew.PluginPlatform, Path]
    commit: str = ""
    #: Images by name that are part of the release as archives.
    archives: Mapping[str, Path] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse a release that would not be what its name says."""
        if self.version != __version__:
            raise ReleaseError(
                f"VERSION={self.version}, but the sources are {__version__}: set __version__ in slinky/__init__.py, "
                "run `make generate`, and commit"
            )
        if self.images.get("tag") != self.version:
            raise ReleaseError(
                f"the images have the tag {self.images.get('tag')}, not {self.version}: "
                "run `make images REGISTRY=... PUSH=1` from these sources"
            )
        if not changes_of((ROOT / "CHANGELOG.md").read_text(), self.version).strip():
            raise ReleaseError(f"CHANGELOG.md has no section for {self.version}")

    def write(self) -> list[Path]:
        """Write the release to its folder, which appears complete or not at all; its files."""
        self.check()
        partial = self.output.with_name(f"{self.output.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        self._write_python(partial)
        write_packages(partial / "charts", self.version, self.images, self.epoch, self.url)
        self._write_manifests(partial)
        self._write_plugin(partial)
        completions.write_scripts(partial / "completions")
        (partial / "CHANGES.md").write_text(
            changes_of((ROOT / "CHANGELOG.md").read_text(), self.version).strip() + "\n"
        )
        (partial / "images.yaml").write_text(yaml.safe_dump({"global": dict(self.images)}, sort_keys=False))
        self._copy_sboms(partial)
        self._copy_archives(partial)
        self._write_provenance(partial)
        (partial / SUMS).write_text(checksums(partial))
        shutil.rmtree(self.output, ignore_errors=True)
        partial.rename(self.output)
        return sorted(path for path in self.output.rglob("*") if path.is_file())

    def _write_python(self, folder: Path) -> None:
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(self.epoch)}
        _run([sys.executable, "-m", "hatchling", "build", "-d", str(folder / "python")], environment)

    def _write_manifests(self, folder: Path) -> None:
        """The CRDs, the operator and its webhook as one file, and a base for kustomize around it."""
        chart = folder / "charts" / f"slurm-operator-{self.version}.tgz"
        with tempfile.TemporaryDirectory(prefix="slinky-release-") as home:
            homes = {f"HELM_{name}_HOME": home for name in ("CACHE", "CONFIG", "DATA")}
            words = ["template", "slurm-operator", str(chart), "--namespace", NAMESPACE, "--set=crds.enabled=true"]
            text = _run([self.helm, *words, "--no-hooks"], {**os.environ, **homes})
        namespace = yaml.safe_dump({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        (folder / "kustomize").mkdir()
        for name in ("install.yaml", "kustomize/install.yaml"):
            (folder / name).write_text(f"# slinky {self.version}: kubectl apply --server-side -f\n{namespace}{text}")
        (folder / "kustomize" / "kustomization.yaml").write_text(KUSTOMIZATION)

    def _write_plugin(self, folder: Path) -> None:
        (wheel,) = (folder / "python").glob("*.whl")
        digests = {}
        for platform, dependencies in self.wheels.items():
            content = archive(krew.plugin_files(self.version, wheel, dependencies), self.epoch)
            (folder / krew.archive_name(self.version, platform)).write_bytes(content)
            digests[platform] = hashlib.sha256(content).hexdigest()
        (folder / "slinky.krew.yaml").write_text(krew.manifest(self.version, self.url, digests))

    def _write_provenance(self, folder: Path) -> None:
        files = {str(path.relative_to(folder)): _digest(path) for path in folder.rglob("*") if path.is_file()}
        content = provenance.statement(self.version, self.commit, self.epoch, files, self.images)
        (folder / PROVENANCE).write_text(provenance.render(content))

    def _copy_sboms(self, folder: Path) -> None:
        found = sorted((ROOT / "build" / "audit").glob("*.spdx.json"))
        if not found:
            print("no SBOMs: run `make audit` first to have them in the release", file=sys.stderr)
            return
        (folder / "sbom").mkdir()
        for file in found:
            shutil.copyfile(file, folder / "sbom" / file.name)

    def _copy_archives(self, folder: Path) -> None:
        for name, file in self.archives.items():
            (folder / "images").mkdir(exist_ok=True)
            shutil.copyfile(file, folder / "images" / f"{name}-{self.version}.tar")


def checksums(folder: Path) -> str:
    """The digests of all files of a folder, as `sha256sum --check` reads them."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SUMS)
    return "".join(f"{_digest(path)}  {path.relative_to(folder)}\n" for path in files)


def image_archives() -> dict[str, Path]:
    """Every image as an archive, for registries that cannot be reached."""
    inventory = ArtifactInventory.of()
    images = build_all(inventory, Progress())
    return {name: inventory.store.require(image) / ARCHIVE for name, image in images.items()}


def sign(folder: Path, cosign: Cosign) -> None:
    """Sign the checksums, and with them every file; the public key is written beside them."""
    cosign.write_public_key(folder / PUBLIC_KEY)
    cosign.sign_file(folder / SUMS)


def last_commit(field: str) -> str:
    """A field of the last commit, such as %H or %ct."""
    return _run(["git", "-C", str(ROOT), "log", "-1", f"--format={field}"], dict(os.environ)).strip()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _run(argv: Sequence[str], environment: Mapping[str, str]) -> str:
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{' '.join(argv[:4])} failed:\n{done.stderr.strip()[-2000:]}")
    return done.stdout


def _helm() -> str:
    inventory = ArtifactInventory.of()
    return str(inventory.store.require(inventory.artifacts["helm"]) / "helm")


def plugin_wheels() -> dict[krew.PluginPlatform, Path]:
    """The wheels of the kubectl plugin; only the first time needs a network."""
    store = ArtifactInventory.of().store
    return {platform: store.ensure(krew.wheels(platform), Progress()) / "wheels" for platform in krew.PLATFORMS}


def main(arguments: Sequence[str]) -> int:
    """Write the release."""
    parser = argparse.ArgumentParser(prog="make release", description="Write everything that a release publishes.")
    parser.add_argument("--version", required=True, help="the version of the sources")
    parser.add_argument("--images", type=Path, default=ROOT / "build/images.yaml", help="values of make images")
    parser.add_argument("--output", type=Path, help="folder of the release; dist/VERSION by default")
    parser.add_argument("--url", default="https://release.example/slinky", help="where the files will be downloaded")
    parser.add_argument("--archives", action="store_true", help="also write the images as archives")
    parser.add_argument("--key", type=Path, help="private key of cosign that signs the checksums")
    options = parser.parse_args(arguments)
    try:
        kit = ReleaseKit(
            version=options.version,
            images=read_images(options.images),
            output=options.output or ROOT / "dist" / options.version,
            epoch=int(os.environ.get("SOURCE_DATE_EPOCH") or last_commit("%ct")),
            url=options.url.rstrip("/"),
            helm=_helm(),
            wheels=plugin_wheels(),
            commit=last_commit("%H"),
            archives=image_archives() if options.archives else {},
        )
        cosign = find_cosign(options.key) if options.key else None
        files = kit.write()
        if cosign:
            sign(kit.output, cosign)
    except (ReleaseError, PackageError, SigningError, LabError) as problem:
        print(problem, file=sys.stderr)
        return 1
    print(f"{len(files)} files are in {kit.output}; {SUMS} lists them{', signed' if cosign else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
