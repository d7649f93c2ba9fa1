# SPDX-License-Identifier: Apache-2.0
"""`make images`: builds the images that a site runs and pushes them to its registry.

The digests of all pushed images are written to one file of chart values, at the very end and at once. A push that was
interrupted leaves the previous file as it is; it can be repeated, because the registry keeps the layers that it has.

An image for several platforms is an index of one image for each, tagged TAG-ARCHITECTURE. Programs of another
architecture than that of the machine run under QEMU while their images are built.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from slinky import __version__
from slinky.lab.errors import LabError
from slinky.lab.prepare import tools
from slinky.lab.prepare.artifact_cache import Artifact
from slinky.lab.prepare.emulation import ARCHITECTURES, Architecture, emulated, native
from slinky.lab.prepare.images import ImageBuilder, keyed_reference
from slinky.lab.prepare.inventory import ArtifactInventory
from slinky.lab.prepare.wheels import CHECKOUT
from slinky.lab.progress import Progress

DIGESTS = CHECKOUT / "build" / "images.yaml"
SYSTEM_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")

_HOST = r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?"
_REGISTRY = re.compile(rf"{_HOST}(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,113}")

#: Messages of registries and of TLS, and the next step for each; the first that matches counts.
HINTS = (
    (r"x509: certificate signed by unknown authority|unable to get local issuer",
     "pass the certificate of its authority: CA=/path/to/ca.crt"),
    (r"x509: .*(expired|not yet valid)", "renew the certificate of the registry, or correct the clock"),
    (r"x509: ", "use the host name in the certificate of the registry, or replace the certificate"),
    (r"HTTP response to HTTPS client", "serve the registry over TLS; credentials are never sent in clear text"),
    (r"unauthorized|authentication required|denied|status code 40[13]",
     "log in with `podman login` or `docker login` as a user who may push, or pass AUTHFILE=/path/to/auth.json"),
    (r"no such host|connection refused|i/o timeout|network is unreachable", "check the name and port of the registry"),
    (r"no space left|status code 507", "free disk space at the registry; then repeat the command"),
)  # fmt: skip


@dataclass(frozen=True)
class Destination:
    """A place in a registry, such as registry.example/slinky, and how to log in there."""

    registry: str
    tag: str
    platforms: tuple[str, ...] = ()
    ca: Path | None = None
    authfile: Path | None = None

    @classmethod
    def parse(cls, registry: str, tag: str, platforms: str = "", ca: str = "", authfile: str = "") -> "Destination":
        """Check what a person wrote."""
        if not _REGISTRY.fullmatch(registry):
            raise LabError(
                f"REGISTRY={registry} is not the name of a registry",
                "write host[:port]/path in small letters and without https://, such as registry.example/slinky",
            )
        if not _TAG.fullmatch(tag):
            raise LabError(f"TAG={tag} is not a tag", "write letters, digits, dots, dashes and underscores")
        found = tuple(platforms.split(",")) if platforms else ()
        known = [item.platform for item in ARCHITECTURES.values()]
        for name in found:
            if name not in known:
                raise LabError(f"PLATFORMS={platforms}: {name} is no platform", f"choose from {','.join(known)}")
        return cls(registry, tag, found, _file("CA", ca), _file("AUTHFILE", authfile) or default_authfile(os.environ))

    def reference(self, name: str, architecture: str = "") -> str:
        """The reference of an image in the registry."""
        return f"{self.registry}/{name}:{self.tag}{'-' if architecture else ''}{architecture}"


def default_authfile(environment: Mapping[str, str]) -> Path | None:
    """The file in which podman, buildah or docker keeps its logins."""
    home = environment.get("HOME", "/root")
    candidates = (
        environment.get("REGISTRY_AUTH_FILE", ""),
        f"{environment.get('XDG_RUNTIME_DIR', '/run/containers/0')}/containers/auth.json",
        f"{environment.get('DOCKER_CONFIG', f'{home}/.docker')}/config.json",
    )
    return next((Path(name) for name in candidates if name and Path(name).is_file()), None)


def explain(registry: str, output: str) -> LabError:
    """What a failed push means, with the next step."""
    lines = output.splitlines()
    message = next((line for line in reversed(lines) if "rror" in line), lines[-1] if lines else "")
    for pattern, hint in HINTS:
        if re.search(pattern, output):
            return LabError(f"{registry} did not take the images: {message.strip()}", hint)
    return LabError(f"{registry} did not take the images: {message.strip()}", "repeat the command; nothing is lost")


def render_values(destination: Destination, digests: Mapping[str, str]) -> str:
    """The values that make every chart use the pushed images."""
    head = "# SPDX-License-Identifier: Apache-2.0\n# Written by `make images`. Pass it to every chart: --values FILE\n"
    values = {"registry": destination.registry, "tag": destination.tag, "digests": dict(sorted(digests.items()))}
    return head + yaml.safe_dump({"global": values}, sort_keys=False)


def write_at_once(file: Path, text: str) -> None:
    """Write a file completely or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.partial")
    partial.write_text(text)
    partial.replace(file)


@dataclass(frozen=True)
class ImagePublisher:
    """Pushes built images with the buildah of the lab."""

    builder: ImageBuilder
    destination: Destination
    progress: Progress

    def push_all(self, images: Mapping[Architecture, Mapping[str, Artifact]]) -> dict[str, str]:
        """Push every image; the digest of each."""
        names = list(next(iter(images.values())))
        return {name: self.push(name, {item: built[name] for item, built in images.items()}) for name in names}

    def push(self, name: str, images: Mapping[Architecture, Artifact]) -> str:
        """Push an image for every architecture, and their index if platforms are named; the digest."""
        what = f"pushing {self.destination.reference(name)}"
        with self.progress.task(what), tempfile.TemporaryDirectory(prefix="slinky-push-") as scratch:
            folder = Path(scratch)
            self._copy_credentials(folder / "context")
            for item, image in images.items():
                self.builder.load(image, folder, self.progress, what)
                place = self.destination.reference(name, item.name if self.destination.platforms else "")
                self._buildah(folder, what, ["push", keyed_reference(image.name, image.key), f"docker://{place}"])
            if self.destination.platforms:
                self._push_index(name, images, folder, what)
            return (folder / "context" / "digest").read_text().strip()

    def _push_index(self, name: str, architectures: Iterable[Architecture], folder: Path, what: str) -> None:
        index = f"slinky-index-{os.getpid()}-{name}"
        self._buildah(folder, what, ["manifest", "create", index])
        try:
            for item in architectures:
                reference = self.destination.reference(name, item.name)
                self._buildah(folder, what, ["manifest", "add", index, f"docker://{reference}"])
            push = ["manifest", "push", "--all", index, f"docker://{self.destination.reference(name)}"]
            self._buildah(folder, what, push)
        finally:
            self._buildah(folder, what, ["manifest", "rm", index])

    def _buildah(self, folder: Path, what: str, words: Sequence[str]) -> None:
        context, options = folder / "context", []
        if words[-1].startswith("docker://"):
            options += ["--cert-dir=/context/certs"]
            options += ["--authfile=/context/auth.json"] if self.destination.authfile else []
        if "push" in words:
            options += ["--digestfile=/context/digest"]
        env = {"SSL_CERT_FILE": "/context/system.crt"} if (context / "system.crt").exists() else {}
        length = 2 if words[0] == "manifest" else 1
        argv = ["buildah", *words[:length], *options, *words[length:]]
        try:
            self.builder.run(argv, folder, self.progress, what, env=env)
        except LabError as problem:
            raise explain(self.destination.registry, problem.what) from problem

    def _copy_credentials(self, context: Path) -> None:
        (context / "certs").mkdir(parents=True, mode=0o700)
        if self.destination.ca:
            shutil.copyfile(self.destination.ca, context / "certs" / "ca.crt")
        if self.destination.authfile:
            shutil.copyfile(self.destination.authfile, context / "auth.json")
        if SYSTEM_CERTIFICATES.is_file():
            shutil.copyfile(SYSTEM_CERTIFICATES, context / "system.crt")


def build_all(inventory: ArtifactInventory, progress: Progress) -> dict[str, Artifact]:
    """Build every image that a site runs."""
    tools.require_root("building images")
    tools.require_tools(progress)
    slurm = inventory.slurm_images(progress)
    return {"slinky": inventory.slinky(progress), **slurm}


def build_platforms(
    inventory: ArtifactInventory, platforms: Sequence[str], progress: Progress
) -> dict[Architecture, dict[str, Artifact]]:
    """Build every image for these platforms, or for this machine; QEMU runs the programs of other architectures."""
    own = native()
    wanted = [ARCHITECTURES[name.removeprefix("linux/")] for name in platforms] or [own]
    images: dict[Architecture, dict[str, Artifact]] = {}
    for item in wanted:
        if item == own:
            images[item] = build_all(inventory, progress)
            continue
        tools.require_root("building images")
        tools.require_tools(progress)
        with emulated(item, inventory.store, progress):
            images[item] = inventory.foreign_images(item, progress)
    return images


def _file(variable: str, name: str) -> Path | None:
    if not name:
        return None
    if not Path(name).is_file():
        raise LabError(f"{variable}={name} is not a file")
    return Path(name)


def main(arguments: Sequence[str]) -> int:
    """Build the images, and push them if asked."""
    parser = argparse.ArgumentParser(prog="make images", description="Build the images of slinky for a registry.")
    parser.add_argument("--registry", required=True, help="host[:port]/path, such as registry.example/slinky")
    parser.add_argument("--tag", default="", help="tag of the images; the version of slinky by default")
    parser.add_argument("--platforms", default="", help="platforms of the images, such as linux/amd64,linux/arm64")
    parser.add_argument("--push", action="store_true", help="push the images and write their digests")
    parser.add_argument("--ca", default="", help="certificate of the authority of the registry")
    parser.add_argument("--authfile", default="", help="file with the login; by default that of podman or docker")
    parser.add_argument("--output", type=Path, default=DIGESTS, help="where the digests are written")
    options = parser.parse_args(arguments)
    try:
        destination = Destination.parse(
            options.registry, options.tag or __version__, options.platforms, options.ca, options.authfile
        )
        inventory, progress = ArtifactInventory.of(), Progress()
        images = build_platforms(inventory, destination.platforms, progress)
        if not options.push:
            names = ", ".join(name for built in images.values() for name in built)
            print(f"These images are built: {names}. PUSH=1 pushes them to {destination.registry}.")
            return 0
        digests = ImagePublisher(inventory.builder, destination, progress).push_all(images)
        write_at_once(options.output, render_values(destination, digests))
    except LabError as problem:
        print(problem, file=sys.stderr)
        return 1
    print(f"{len(digests)} images are in {destination.registry}. Install the charts with --values {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
