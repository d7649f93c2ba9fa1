# SPDX-License-Identifier: Apache-2.0
"""What an image holds, and how that is compared and recorded."""

import io
import json
import re
import tarfile
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path

import pytest

from slinky.lab.prepare import audit
from slinky.lab.prepare.debian import settings
from slinky.lab.prepare.inventory import SLURM
from slinky.lab.prepare.licences import parse_copyright
from slinky.lab.prepare.packages import ImageContents, Package, differences, read_image, render_lock, render_sbom

STATUS = """Package: libc6
Status: install ok installed
Version: 2.42-1+b1
Description: a library
 with a second line: and a colon

Package: removed
Status: deinstall ok config-files
Version: 1
"""
METADATA = "Metadata-Version: 2.1\nName: aiohttp\nVersion: 3.14.5\nLicense-Expression: Apache-2.0 AND MIT\n\nName: no\n"


def tar(files: Mapping[str, bytes | str]) -> bytes:
    """An archive; a text is the target of a symbolic link."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
                archive.addfile(member)
            else:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def image(folder: Path, *layers: Mapping[str, bytes | str]) -> Path:
    """An OCI archive with these layers."""
    blobs = {f"layer{number}": tar(files) for number, files in enumerate(layers)}
    blobs["config"] = json.dumps({"created": "2026-11-17T14:59:35Z"}).encode()
    listed = [{"digest": f"sha256:{name}"} for name in blobs if name != "config"]
    blobs["manifest"] = json.dumps({"config": {"digest": "sha256:config"}, "layers": listed}).encode()
    index = json.dumps({"manifests": [{"digest": "sha256:manifest"}]}).encode()
    path = folder / "image.tar"
    path.write_bytes(tar({"index.json": index, **{f"blobs/sha256/{name}": content for name, content in blobs.items()}}))
    return path


def test_the_last_layer_says_what_is_installed(tmp_path: Path) -> None:
    old = {"var/lib/dpkg/status": STATUS.replace("2.42-1+b1", "2.41").encode()}
    new = {"./var/lib/dpkg/status": STATUS.encode(), "opt/x/aiohttp-3.14.5.dist-info/METADATA": METADATA.encode()}
    contents = read_image(image(tmp_path, old, new))
    assert contents == ImageContents(
        "2026-11-17",
        (Package("Debian", "libc6", "2.42-1+b1"), Package("PyPI", "aiohttp", "3.14.5", "Apache-2.0 AND MIT")),
    )


DEP5 = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: 2026 somebody
License: GPL-2+ or Artistic, and BSD-3-clause

License: GPL-2+
 Text of the license.
 License: not a field
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (DEP5, "Artistic, BSD-3-clause, GPL-2+"),
        (
            "The text is in /usr/share/common-licenses/LGPL-2.1.\nOr `/usr/share/common-licenses/GPL-3'",
            "GPL-3, LGPL-2.1",
        ),
        ("Texts are in /usr/share/common-licenses/ .\nBSD, public domain, and the LGPL", "BSD, LGPL, public domain"),
        ("All rights reserved.", ""),
        ("Format: x\n" + "".join(f"License: name-{number}\n" for number in range(999)), "and others"),
    ],
)
def test_a_copyright_file_names_licences(text: str, names: str) -> None:
    found = parse_copyright(text)
    assert found == names or (names == "and others" and found.endswith(f", {names}"))
    assert len(found) < 1020


def test_licences_are_read_from_the_image_also_through_links(tmp_path: Path) -> None:
    names = ("own", "folder-link", "file-link", "none", "loop")
    status = "\n".join(f"Package: {name}\nStatus: install ok installed\nVersion: 1\n" for name in names)
    layer: dict[str, bytes | str] = {
        "var/lib/dpkg/status": status.encode(),
        "opt/slinky/x/status": b"Status: install ok installed\nPackage: own\nVersion: 2\n",
        "usr/share/doc/own/copyright": DEP5.encode(),
        "usr/share/doc/folder-link": "own",
        "usr/share/doc/file-link/copyright": "../own/copyright",
        "usr/share/doc/loop": "loop",
    }
    contents = read_image(image(tmp_path, layer))
    licences = {(package.name, package.version): package.licence for package in contents.packages}
    known = "Artistic, BSD-3-clause, GPL-2+"
    assert licences == {
        ("own", "1"): known, ("own", "2"): known, ("folder-link", "1"): known, ("file-link", "1"): known,
        ("none", "1"): "", ("loop", "1"): "",
    }  # fmt: skip
    assert audit.render_licences(contents.packages).splitlines()[-3:] == [
        f"Debian none 1: {audit.UNKNOWN}", f"Debian own 1: {known}", f"Debian own 2: {known}",
    ]  # fmt: skip
    stated = [item["licenseComments"] for item in json.loads(render_sbom("x", contents))["packages"]]
    assert stated.count(f"The package states: {known}") == 4


@pytest.mark.parametrize("path", ["/usr/share/doc/x/copyright", "/usr/share/doc/x/README", "/usr/share/man/x"])
def test_images_keep_the_licences_of_their_packages_and_no_other_documentation(path: str) -> None:
    """As dpkg reads its settings: the last pattern that matches counts."""
    lines = settings(check_validity=True)["etc/dpkg/dpkg.cfg.d/slinky"].splitlines()
    matching = [line for line in lines if fnmatch(path, line.partition("=")[2])]
    assert matching[-1].startswith("path-include=") == path.endswith("copyright")


def test_a_rebuild_is_compared_with_the_lock_file() -> None:
    locked = render_lock([Package("Debian", "a", "1"), Package("Debian", "b", "1"), Package("PyPI", "slinky", "0.1")])
    assert locked == "Debian a 1\nDebian b 1\n"
    assert differences(locked, [Package("Debian", "a", "1"), Package("Debian", "b", "1")]) == []
    present = [Package("Debian", "a", "2"), Package("PyPI", "c", "3")]
    assert differences(locked, present) == ["-Debian a 1", "+Debian a 2", "-Debian b 1", "+PyPI c 3"]


def test_an_sbom_has_every_package_with_its_url() -> None:
    contents = ImageContents("2026-11-17", (Package("Debian", "libc6", "2.42-1+b1"), Package("PyPI", "Aiohttp", "3")))
    document = json.loads(render_sbom("slurmctld", contents))
    urls = [item["externalRefs"][0]["referenceLocator"] for item in document["packages"]]
    assert urls == ["pkg:deb/debian/libc6@2.42-1%2Bb1", "pkg:pypi/aiohttp@3"]
    assert document["spdxVersion"] == "SPDX-2.3"
    assert len(document["relationships"]) == 2


@pytest.mark.parametrize("file", sorted((audit.ROOT / "requirements").glob("*.txt")), ids=lambda file: file.stem)
def test_every_requirement_is_pinned_with_its_hashes(file: Path) -> None:
    """With `--require-hashes`, pip refuses any other file."""
    lines = file.read_text().splitlines()
    pinned = [number for number, line in enumerate(lines) if line[:1].isalnum()]
    assert pinned
    for number in pinned:
        assert "==" in lines[number]
        assert "--hash=sha256:" in lines[number + 1]


def test_every_pinned_requirement_is_audited() -> None:
    text = (audit.ROOT / "requirements" / "runtime.txt").read_text()
    packages = audit.read_requirements(text)
    pinned = [line for line in text.splitlines() if "==" in line and line[0].isalpha()]
    assert len(packages) == len(pinned)
    assert {"aiohttp", "msgspec"} <= {package.name for package in packages}
    assert audit.read_go_modules("require (\n\tk8s.io/api v0.36.0\n\tx/y v1 // indirect\n)\n") == [
        Package("Go", "k8s.io/api", "0.36.0"),
        Package("Go", "x/y", "1"),
    ]


def test_advisories_that_cannot_be_reached_are_an_error_of_their_own() -> None:
    with pytest.raises(OSError, match="refused"):
        audit.ask_osv([Package("PyPI", "a", "1")], url="http://127.0.0.1:1/")


@pytest.mark.parametrize("name", [*SLURM, "slinky"])
def test_every_published_image_has_a_lock_file(name: str) -> None:
    lines = (audit.LOCKS / f"{name}.txt").read_text().splitlines()
    assert lines == sorted(lines)
    assert any(line.startswith("Debian libc6 ") for line in lines)


def test_the_lock_file_of_slinky_has_the_versions_that_are_pinned() -> None:
    """The image is built from the pinned wheels, so a change of the pins without the lock file is an oversight."""
    pinned = audit.read_requirements((audit.ROOT / "requirements/runtime.txt").read_text())
    versions = {_normal(package.name): package.version for package in pinned}
    locked = re.findall(r"(?m)^PyPI (\S+) (\S+)$", (audit.LOCKS / "slinky.txt").read_text())
    assert {name: versions.get(_normal(name)) for name, _ in locked} == dict(locked)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
