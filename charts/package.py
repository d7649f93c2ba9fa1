# SPDX-License-Identifier: Apache-2.0
"""`make charts`: the charts as packages, which carry the registry and the digests of their images.

A package depends on its sources alone: entries are sorted, and times are those of SOURCE_DATE_EPOCH. So two runs give
the same bytes, and the digest of a chart in a registry says what is in it.
"""

import argparse
import gzip
import io
import os
import re
import sys
import tarfile
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from charts import metadata

from slinky import __version__

HERE = Path(__file__).parent
CHARTS = ("slurm-operator-crds", "slurm-operator", "slurm", "slurm-bridge")
#: The line of values.yaml that is replaced.
GLOBAL = b'global: {registry: "", tag: "", digests: {}}\n'
#: The version of semantic versioning, which Helm requires.
VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
_VERSION_LINE = re.compile(rf"^((?:  )?(?:version|appVersion): ){re.escape(__version__)}$", re.MULTILINE)


class PackageError(Exception):
    """Wrong input, with the next step."""


def read_images(file: Path) -> dict[str, Any]:
    """The values that `make images` has written."""
    if not file.is_file():
        raise PackageError(f"{file} does not exist: write it with `make images REGISTRY=... PUSH=1`")
    values = (yaml.safe_load(file.read_text()) or {}).get("global") or {}
    if not values.get("registry") or not values.get("digests"):
        raise PackageError(f"{file} names no registry or no digests: write it with `make images REGISTRY=... PUSH=1`")
    return {name: values[name] for name in ("registry", "tag", "digests") if name in values}


def chart_files(chart: str, version: str, images: Mapping[str, Any], url: str = "") -> dict[str, bytes]:
    """The files of a packaged chart by path, with those of the charts that it contains.

    The URL is where the release is published.
    """
    changes = metadata.changes_of((HERE.parent / "CHANGELOG.md").read_text(), version)
    annotations = metadata.release_annotations(version, images, changes, url)
    files = {}
    for path in _walk(HERE / chart):
        content = path.read_bytes()
        if path.name == "Chart.yaml":
            text = _VERSION_LINE.sub(rf"\g<1>{version}", content.decode())
            text = text.replace("keywords:\n", f"home: {url}\nkeywords:\n", 1) if url else text
            content = (text + textwrap.indent(metadata.dump(annotations), "  ")).encode()
        elif path.name == "values.yaml" and images:
            content = content.replace(GLOBAL, yaml.safe_dump({"global": dict(images)}, sort_keys=False).encode())
        files[f"{chart}/{path.relative_to(HERE / chart)}"] = content
    return files


def _walk(folder: Path) -> list[Path]:
    """All files below a folder; charts contain others by symbolic links."""
    return sorted(Path(top) / name for top, _, names in os.walk(folder, followlinks=True) for name in names)


def archive(files: Mapping[str, bytes], epoch: int) -> bytes:
    """A gzipped tar with these files, the same bytes for the same input."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(content), epoch, 0o755 if content.startswith(b"#!") else 0o644
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), 9, mtime=0)


def write_packages(output: Path, version: str, images: Mapping[str, Any], epoch: int, url: str = "") -> list[Path]:
    """Write every chart as NAME-VERSION.tgz."""
    if not VERSION.fullmatch(version):
        raise PackageError(f"VERSION={version} is not a semantic version such as 1.2.3 or 1.2.3-rc.1")
    output.mkdir(parents=True, exist_ok=True)
    packages = []
    for chart in CHARTS:
        package = output / f"{chart}-{version}.tgz"
        package.write_bytes(archive(chart_files(chart, version, images, url), epoch))
        packages.append(package)
    return packages


def main(arguments: Sequence[str]) -> int:
    """Write the packages."""
    parser = argparse.ArgumentParser(prog="make charts", description="Package the charts with the digests of images.")
    parser.add_argument("--images", type=Path, default=HERE.parent / "build/images.yaml", help="values of make images")
    parser.add_argument("--output", type=Path, default=HERE.parent / "build/charts", help="where packages are written")
    parser.add_argument("--version", default="", help="version of the charts; that of slinky by default")
    options = parser.parse_args(arguments)
    try:
        epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or 0)
        images = read_images(options.images)
        packages = write_packages(options.output, options.version or __version__, images, epoch)
    except PackageError as problem:
        print(problem, file=sys.stderr)
        return 1
    print("\n".join(str(package) for package in packages))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
