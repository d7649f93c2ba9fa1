# SPDX-License-Identifier: Apache-2.0
"""`make audit`: the supply chain of the images and of the requirements.

1. Compares the packages of each prepared image with its lock file in `requirements/images`; `--write` writes the files.
2. Writes an SBOM of each image (SPDX 2.3) and a list of the licences of all packages to `--output`, and names the
   packages that state none.
3. Asks osv.dev for known vulnerabilities. It has the advisories of PyPI, Go and Debian, so one request per ecosystem
   suffices. If it cannot be reached, the audit says so: the versions and dates in the lock files are then all there is.

Exit code 0: no difference and no known vulnerability, or no answer. 1: a difference or a vulnerability.
"""

import argparse
import json
import re
import sys
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path

from slinky.lab.prepare.debian import CHECK
from slinky.lab.prepare.images import ARCHIVE
from slinky.lab.prepare.inventory import SLURM, ArtifactInventory
from slinky.lab.prepare.packages import ImageContents, Package, differences, read_image, render_lock, render_sbom
from slinky.lab.progress import Progress

ROOT = Path(__file__).parents[4]
LOCKS = ROOT / "requirements" / "images"
OSV = "https://api.osv.dev/v1/querybatch"
ECOSYSTEMS = {"Debian": "Debian", "PyPI": "PyPI", "Go": "Go"}
_BATCH = 500
UNKNOWN = "no licence stated"


def read_requirements(text: str) -> list[Package]:
    """The pinned packages of a requirements file."""
    return [
        Package("PyPI", name, version) for name, version in re.findall(r"(?m)^([\w.-]+)(?:\[\S+\])?==([^\s;\\]+)", text)
    ]


def read_go_modules(text: str) -> list[Package]:
    """The modules of a go.mod."""
    return [
        Package("Go", name, version.removeprefix("v")) for name, version in re.findall(r"(?m)^\t(\S+) (v\S+)", text)
    ]


def ask_osv(packages: Sequence[Package], url: str = OSV, seconds: float = 20.0) -> dict[Package, list[str]]:
    """The known vulnerabilities of packages. Raises `OSError` if the service cannot be reached."""
    found: dict[Package, list[str]] = {}
    for start in range(0, len(packages), _BATCH):
        batch = packages[start : start + _BATCH]
        queries = [
            {"package": {"name": item.name, "ecosystem": ECOSYSTEMS[item.ecosystem]}, "version": item.version}
            for item in batch
        ]
        body = json.dumps({"queries": queries}).encode()
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 -- https
        with urllib.request.urlopen(request, timeout=seconds) as answer:  # noqa: S310 -- https
            results = json.load(answer)["results"]
        for item, result in zip(batch, results, strict=True):
            if ids := [entry["id"] for entry in result.get("vulns", ())]:
                found[item] = ids
    return found


def compare(name: str, contents: ImageContents, *, write: bool) -> list[str]:
    """The differences between an image and its lock file, or none after writing the file."""
    file = LOCKS / f"{name}.txt"
    if write:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(render_lock(contents.packages))
    lock = file.read_text() if file.is_file() else ""
    return differences(lock, contents.packages)


def render_licences(packages: Iterable[Package]) -> str:
    """The licences that the packages of the images state, one package per line."""
    lines = (f"{item.ecosystem} {item.name} {item.version}: {item.licence or UNKNOWN}\n" for item in packages)
    return "".join(sorted(set(lines)))


def report_vulnerabilities(packages: Iterable[Package]) -> bool:
    """Print the known vulnerabilities; whether there are any."""
    known = sorted({package._replace(licence="") for package in packages})
    try:
        found = ask_osv(known)
    except OSError as error:
        print(f"osv.dev cannot be reached ({error}): {len(known)} packages were NOT checked for vulnerabilities.")
        print("Their versions are in requirements/ and, with the date of the image, in the SBOMs.")
        return False
    for package, ids in found.items():
        print(f"vulnerable: {package.ecosystem} {package.name} {package.version}: {', '.join(ids)}")
    print(f"{len(known)} packages checked, {len(found)} with known vulnerabilities")
    return bool(found)


def main(arguments: Sequence[str]) -> int:
    """Run the audit."""
    parser = argparse.ArgumentParser(prog="make audit", description="Audit the images and the requirements.")
    parser.add_argument("--write", action="store_true", help="write the lock files of the images")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "audit", help="folder for SBOMs and licences")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    inventory, failed = ArtifactInventory.of(), False
    pinned = [
        *read_requirements((ROOT / "requirements" / "runtime.txt").read_text()),
        *read_go_modules((ROOT / "src/slinky/lab/go/go.mod").read_text()),
    ]
    packages: list[Package] = []
    archives = {name: inventory.store.require(inventory.artifacts[f"image-{name}"]) / ARCHIVE for name in SLURM}
    archives["slinky"] = inventory.slinky_image(Progress())
    for name, archive in archives.items():
        contents = read_image(archive)
        changes = compare(name, contents, write=options.write)
        print(f"image {name}: built {contents.created}, {len(contents.packages)} packages, {len(changes)} differences")
        print("".join(f"  {change}\n" for change in changes), end="")
        if unstated := sorted({package.name for package in contents.packages if not package.licence}):
            print(f"  {UNKNOWN}: {', '.join(unstated)}")
        if not contents.checked_age:
            print(f"  its builder has turned off the check of the package index's age ({CHECK})")
        (options.output / f"{name}.spdx.json").write_text(render_sbom(name, contents))
        failed, packages = failed or bool(changes), [*packages, *contents.packages]
    (options.output / "licences.txt").write_text(render_licences(packages))
    failed |= report_vulnerabilities([*pinned, *packages])
    print(f"SBOMs are in {options.output}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
