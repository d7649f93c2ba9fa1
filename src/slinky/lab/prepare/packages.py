# SPDX-License-Identifier: Apache-2.0
"""The packages in an image: read from its archive, compared with a lock file, written as an SBOM.

Debian and Python both record what is installed and under which licence, so the image itself says what it holds,
whichever mirror it was built from. A lock file has one line per package, `ecosystem name version`.
"""

import email.parser
import hashlib
import json
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from slinky.lab.prepare.debian import APT_SETTINGS, CHECK
from slinky.lab.prepare.licences import FOLDER, package_licences

#: The status file of dpkg, and those that recipes write for a package of which they take single files.
_STATUS = re.compile(r"(?:var/lib/dpkg|opt/slinky/[^/]+)/status\Z")
_METADATA = re.compile(r"(?:^|/)[^/]+\.dist-info/METADATA\Z")
#: A copyright file of Debian, or a folder of documentation that is a link to another.
_COPYRIGHT = re.compile(rf"{FOLDER}/[^/]+(?:/copyright)?\Z")
_TYPES = {"Debian": "deb/debian", "PyPI": "pypi"}


class Package(NamedTuple):
    """One package of an image; the licence is the list of names that the package states, empty if it states none."""

    ecosystem: str
    name: str
    version: str
    licence: str = ""

    def url(self) -> str:
        """The package URL."""
        return f"pkg:{_TYPES[self.ecosystem]}/{self.name.lower()}@{self.version.replace('+', '%2B')}"


class ImageContents(NamedTuple):
    """The packages of an image, when it was built, and whether the age of the package index was checked then."""

    created: str
    packages: tuple[Package, ...]
    checked_age: bool = True


def read_image(archive: Path) -> ImageContents:
    """The contents of an OCI archive; of files that several layers have, the last one counts."""
    files: dict[str, bytes] = {}
    links: dict[str, str] = {}
    with tarfile.open(archive) as image:
        manifest = _blob(image, json.loads(_read(image, "index.json"))["manifests"][0])
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=image.extractfile(_path(layer))) as tree:
                _read_layer(tree, files, links)
        created = _blob(image, manifest["config"]).get("created", "")
    installed = (package for name in files if _STATUS.match(name) for package in parse_status(files[name].decode()))
    debian = (package._replace(licence=package_licences(package.name, files, links)) for package in installed)
    python = (_parse_metadata(content) for name, content in files.items() if _METADATA.search(name))
    checked_age = CHECK not in files.get(APT_SETTINGS, b"").decode()
    return ImageContents(created[:10], tuple(sorted({*debian, *python})), checked_age)


def _read_layer(tree: tarfile.TarFile, files: dict[str, bytes], links: dict[str, str]) -> None:
    """Add the files of a layer that describe packages, and the links between them."""
    for member in tree:
        name = member.name.removeprefix("./")
        is_copyright = bool(_COPYRIGHT.match(name))
        if is_copyright and member.issym():
            links[name] = member.linkname
        elif is_copyright and member.islnk():
            links[name] = "/" + member.linkname.removeprefix("./")
        elif member.isfile() and (
            is_copyright or name == APT_SETTINGS or _STATUS.match(name) or _METADATA.search(name)
        ):
            files[name] = _content(tree, member)


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    return _content(archive, archive.getmember(name))


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return file.read() if file else b""


def _path(descriptor: Mapping[str, Any]) -> str:
    return "blobs/" + str(descriptor["digest"]).replace(":", "/")


def _blob(image: tarfile.TarFile, descriptor: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(_read(image, _path(descriptor)))
    return result


def parse_status(text: str) -> Iterator[Package]:
    """The installed packages in the status file of dpkg."""
    for entry in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in entry.splitlines() if re.match(r"[A-Z][\w-]*: ", line))
        if fields.get("Status", "").endswith(" installed"):
            yield Package("Debian", fields["Package"], fields["Version"])


def _parse_metadata(content: bytes) -> Package:
    fields = email.parser.BytesHeaderParser().parsebytes(content)
    names = (line.rpartition(" :: ")[2] for line in fields.get_all("Classifier", []) if line.startswith("License ::"))
    licence = fields.get("License-Expression") or ", ".join(names) or (fields.get("License") or "").split("\n")[0]
    return Package("PyPI", fields["Name"], fields["Version"], licence[:80])


def render_lock(packages: Iterable[Package]) -> str:
    """The lock file of an image. Our own wheel is left out, because its version is that of the checkout."""
    lines = (f"{package.ecosystem} {package.name} {package.version}\n" for package in packages)
    return "".join(line for line in lines if not line.startswith("PyPI slinky "))


def differences(lock: str, packages: Iterable[Package]) -> list[str]:
    """What differs from a lock file: one line per package, with `-` and `+` as in a diff."""
    locked, present = set(lock.splitlines()), set(render_lock(packages).splitlines())
    changes = [f"-{line}" for line in locked - present] + [f"+{line}" for line in present - locked]
    return sorted(changes, key=lambda line: (line[1:], line[0]))


def render_sbom(name: str, contents: ImageContents) -> str:
    """The packages of an image as SPDX 2.3."""
    packages = [
        {
            "SPDXID": f"SPDXRef-{number}",
            "name": package.name,
            "versionInfo": package.version,
            "downloadLocation": "NOASSERTION",
            "licenseConcluded": "NOASSERTION",
            "licenseDeclared": "NOASSERTION",
            "licenseComments": f"The package states: {package.licence}"
            if package.licence
            else "The package states none.",
            "externalRefs": [
                {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": package.url()}
            ],
        }
        for number, package in enumerate(contents.packages)
    ]
    digest = hashlib.sha256(render_lock(contents.packages).encode()).hexdigest()
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"slinky/{name}",
        "documentNamespace": f"https://slinky.invalid/sbom/{name}/{digest}",
        "creationInfo": {"created": f"{contents.created}T00:00:00Z", "creators": ["Tool: slinky-audit"]},
        "packages": packages,
        "relationships": [
            {
                "spdxElementId": "SPDXRef-DOCUMENT",
                "relationshipType": "DESCRIBES",
                "relatedSpdxElement": package["SPDXID"],
            }
            for package in packages
        ],
    }
    return json.dumps(document, indent=1) + "\n"
