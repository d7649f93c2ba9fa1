# SPDX-License-Identifier: Apache-2.0
"""The licences that the copyright file of a Debian package names. Pure.

Most files are machine-readable (DEP-5): each group of files has a field `License` with a short name. Others are prose
that refers to the texts in `/usr/share/common-licenses`.
"""

import posixpath
import re
from collections.abc import Mapping

FOLDER = "usr/share/doc"
_FORMAT = re.compile(r"(?i)\AFormat(?:-Specification)?:")
_FIELD = re.compile(r"(?mi)^License:[ \t]*(\S.*?)[ \t]*$")
#: `GPL-2+ or Artistic, and BSD-3-clause` are three names.
_BETWEEN_NAMES = re.compile(r"(?:,\s*|\s+)(?:and/or|and|or)\s+|\s*[,|]\s*")
_COMMON = re.compile(r"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9+])")
_WORD = re.compile(r"\b(AGPL|LGPL|GPL|BSD|MIT|Expat|Apache|MPL|ISC|Artistic|(?i:public domain))\b")
#: Characters of the names of one package.
_LENGTH_MAX = 1000
#: A folder of documentation can be a link to that of another package, and a copyright file a link as well.
_LINKS_MAX = 4


def parse_copyright(text: str) -> str:
    """The names of the licences, sorted; empty if the file names none."""
    if _FORMAT.match(text):
        names = {name.strip() for field in _FIELD.findall(text) for name in _BETWEEN_NAMES.split(field)}
    else:
        names = set(_COMMON.findall(text) or _WORD.findall(text))
    listed = ", ".join(sorted(names - {""}, key=lambda name: (name.lower(), name)))
    return listed if len(listed) <= _LENGTH_MAX else listed[:_LENGTH_MAX].rpartition(", ")[0] + ", and others"


def package_licences(package: str, files: Mapping[str, bytes], links: Mapping[str, str]) -> str:
    """The licences of a package, by the copyright files of an image and the links beside them; empty if not known."""
    path = f"{FOLDER}/{package}/copyright"
    for _ in range(_LINKS_MAX):
        if path in files:
            return parse_copyright(files[path].decode(errors="replace"))
        folder, name = posixpath.split(path)
        if path in links:
            path = posixpath.normpath(posixpath.join(folder, links[path])).lstrip("/")
        elif folder in links:
            target = posixpath.join(posixpath.dirname(folder), links[folder], name)
            path = posixpath.normpath(target).lstrip("/")
        else:
            break
    return ""
