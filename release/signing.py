# SPDX-License-Identifier: Apache-2.0
"""Signatures by the key of the releaser: of the checksums of a release, and of images and charts in a registry.

cosign signs without a network and without a public log. Users verify with the public key, which is part of the
release. The password of the key is the variable COSIGN_PASSWORD, as everywhere with cosign.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from charts.package import CHARTS, PackageError, read_images

from slinky.lab.errors import LabError
from slinky.lab.prepare.inventory import ArtifactInventory
from slinky.lab.progress import Progress

ROOT = Path(__file__).parents[1]
#: The end of the name of a signature; a Sigstore bundle.
BUNDLE = ".sigstore.json"
PUBLIC_KEY = "cosign.pub"
#: A signing configuration without services: no log, no time stamps.
_OFFLINE = {
    "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
    "rekorTlogConfig": {},
    "tsaConfig": {},
}
#: Messages of cosign, and the next step for each; the first that matches counts.
HINTS = (
    (r"decrypt|password", "set COSIGN_PASSWORD to the password of the key"),
    (r"(?i)\bpem\b|invalid key", "use a private key that `cosign generate-key-pair` has written"),
    (r"unknown authority", "pass the certificate of the authority of the registry: CA=/path/to/ca.crt"),
    (r"UNAUTHORIZED|DENIED|401|403", "log in with `podman login` or pass AUTHFILE=/path/to/auth.json"),
    (
        r"MANIFEST_UNKNOWN|NAME_UNKNOWN|404",
        "push the images and the charts first: docs/releasing.md",
    ),
)


class SigningError(Exception):
    """A signature that could not be made or does not fit, with the next step."""


@dataclass(frozen=True)
class Cosign:
    """The program cosign with a key, and a login for registries."""

    program: Path
    key: Path
    ca: Path | None = None
    authfile: Path | None = None

    def sign_file(self, path: Path) -> Path:
        """Write the signature of a file beside it."""
        bundle = path.with_name(f"{path.name}{BUNDLE}")
        self._run("sign-blob", "--yes", "--bundle", str(bundle), str(path), is_signing=True)
        return bundle

    def write_public_key(self, path: Path) -> None:
        """Write the public key of the key."""
        path.write_text(self._run("public-key"))

    def sign_image(self, reference: str) -> None:
        """Sign an image or a chart in a registry."""
        self._run("sign", "--yes", *self._trust(), reference, is_signing=True)

    def attest(self, reference: str, sbom: Path) -> None:
        """Attach a signed SBOM (SPDX) to an image in a registry."""
        words = ["attest", "--yes", "--type=spdxjson", "--predicate", str(sbom)]
        self._run(*words, *self._trust(), reference, is_signing=True)

    def verify_file(self, path: Path) -> None:
        """Check a file and the signature beside it; `key` is the public key."""
        bundle = path.with_name(f"{path.name}{BUNDLE}")
        self._run("verify-blob", "--insecure-ignore-tlog=true", "--bundle", str(bundle), str(path))

    def verify_image(self, reference: str) -> None:
        """Check the signature of an image or a chart in a registry; `key` is the public key."""
        self._run("verify", "--insecure-ignore-tlog=true", *self._trust(), reference)

    def _trust(self) -> list[str]:
        return [f"--registry-cacert={self.ca}"] if self.ca else []

    def _run(self, verb: str, *words: str, is_signing: bool = False) -> str:
        with tempfile.TemporaryDirectory(prefix="slinky-sign-") as home:
            environment = {**os.environ, "HOME": home, "COSIGN_PASSWORD": os.environ.get("COSIGN_PASSWORD", "")}
            if self.authfile:
                shutil.copyfile(self.authfile, Path(home, "config.json"))
                environment["DOCKER_CONFIG"] = home
            argv = [str(self.program), verb, "--key", str(self.key)]
            if is_signing:
                config = Path(home, "signing.json")
                config.write_text(json.dumps(_OFFLINE))
                argv += ["--signing-config", str(config)]
            done = subprocess.run([*argv, *words], env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise explain(f"cosign {verb} {words[-1] if words else self.key}", done.stderr)
        return done.stdout


def explain(what: str, output: str) -> SigningError:
    """What a failure of cosign means, with the next step."""
    lines = [line for line in output.splitlines() if line.strip()]
    message = next((line for line in lines if line.startswith(("Error:", "error"))), lines[-1] if lines else "")
    hint = next((hint for pattern, hint in HINTS if re.search(pattern, output)), "")
    return SigningError(f"{what} failed: {message.strip()}" + (f"\nnext: {hint}" if hint else ""))


def find_cosign(key: Path, ca: Path | None = None, authfile: Path | None = None) -> Cosign:
    """The cosign of Debian with a key, which must exist."""
    if not key.is_file():
        raise SigningError(f"COSIGN_KEY={key} is not a file\nnext: write a key with `cosign generate-key-pair`")
    return Cosign(ArtifactInventory.of().cosign(Progress()), key, ca, authfile)


def image_references(images: Mapping[str, Any]) -> dict[str, str]:
    """The reference by digest of every image."""
    return {name: f"{images['registry']}/{name}@{digest}" for name, digest in sorted(images["digests"].items())}


def sign_registry(cosign: Cosign, images: Mapping[str, Any], sboms: Path) -> list[str]:
    """Sign every image of a release with its SBOM, if there is one, and every chart; what was signed."""
    signed = []
    for name, reference in image_references(images).items():
        cosign.sign_image(reference)
        if (sbom := sboms / f"{name}.spdx.json").is_file():
            cosign.attest(reference, sbom)
        signed.append(reference)
    for chart in CHARTS:
        reference = f"{images['registry']}/charts/{chart}:{images['tag']}"
        cosign.sign_image(reference)
        signed.append(reference)
    return signed


def main(arguments: Sequence[str]) -> int:
    """Sign what a release has pushed to a registry."""
    parser = argparse.ArgumentParser(prog="make sign", description="Sign the images and charts in a registry.")
    parser.add_argument("--key", type=Path, required=True, help="private key of cosign")
    parser.add_argument("--images", type=Path, default=ROOT / "build/images.yaml", help="values of make images")
    parser.add_argument("--ca", default="", help="certificate of the authority of the registry")
    parser.add_argument("--authfile", default="", help="file with the login, as podman or docker writes it")
    options = parser.parse_args(arguments)
    try:
        images = read_images(options.images)
        trust, login = (Path(name) if name else None for name in (options.ca, options.authfile))
        signed = sign_registry(find_cosign(options.key, trust, login), images, ROOT / "build/audit")
    except (SigningError, PackageError, LabError) as problem:
        print(problem, file=sys.stderr)
        return 1
    print("\n".join(f"signed {reference}" for reference in signed))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
