# SPDX-License-Identifier: Apache-2.0
"""The text form of Slurm's configuration files: lines of Key=Value, read as slurmctld reads them.

`parse` follows slurmctld's own rules as measured (comments end a line before it is continued, a backslash
makes the next character an ordinary one, quotes, keys in any letter case), `render` writes only what `parse`
gives back unchanged, and every value on the way out is checked so that none can add a line, a setting or a
comment of its own. Includes are refused: a file that pulls in another cannot be checked here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_.]*\Z")
_SETTING = re.compile(r'([A-Za-z0-9_.]+)\s*([-*+/]?)=\s*(?:"([^"]*)"|([^\s"]+))(?=\s|\Z)')
#: What is left of a comment; a backslash takes the next character's meaning away, another backslash's too.
_CODE = re.compile(r"(?:[^\\#]|\\.)*\\?")
_ESCAPED = re.compile(r"\\(.)")
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f"\u2028\u2029\x85]')


class ConfError(ValueError):
    """A value that must not reach a file, or text that slurmctld would not read as it was meant."""


class Setting(NamedTuple):
    """One Key=Value."""

    key: str
    value: str

    def is_(self, key: str) -> bool:
        """Whether this is the setting of that name; Slurm does not mind the letter case."""
        return self.key.lower() == key.lower()


Line = tuple[Setting, ...]


def checked_value(text: str | int, what: str = "value") -> str:
    """A value that can stand in a file. Raises `ConfError` for one that could do more than that."""
    found = str(text)
    if not found.strip():
        raise ConfError(f"{what} is empty: Slurm would take the next word for it")
    if found != found.strip() or _FORBIDDEN.search(found):
        raise ConfError(f"{what} {found[:60]!r} has characters that cannot stand in a configuration")
    return found


def checked_name(text: str | int, what: str = "name") -> str:
    """A value without white space, equals sign, comma or hash: a name that nothing can hide in."""
    found = checked_value(text, what)
    if re.search(r"[\s=,#'`$();&|<>\\]", found):
        raise ConfError(f"{what} {found[:60]!r} is not a plain name")
    return found


def build_line(*settings: tuple[str, str | int | None]) -> Line:
    """A line of these settings, without those that are None; keys and values are checked."""
    made = tuple(Setting(_key(key), checked_value(text, key)) for key, text in settings if text is not None)
    if not made:
        raise ConfError("a line needs a setting")
    return made


def render(lines: Iterable[Line | str]) -> str:
    """The text of a file; a plain string is a comment line. What was written is read back and compared."""
    kept = list(lines)
    text = "".join(_comment(item) if isinstance(item, str) else _written(item) for item in kept)
    meant = [item for item in kept if not isinstance(item, str)]
    if parse(text) != meant:
        raise ConfError("the text does not read as it was meant")
    return text


def parse(text: str) -> list[Line]:
    """The lines of a file. Raises `ConfError` where slurmctld would stop, and for includes."""
    found = []
    for raw in _logical(text):
        bare = _ESCAPED.sub(r"\1", raw).strip()
        if bare:
            found.append(_settings(bare))
    return found


def parse_fragment(text: str, *, refuse: Sequence[str] = ()) -> Line:
    """A user's part of a line, such as `MaxTime=60 State=UP`: one line, no comment, none of the keys
    refused.
    """
    if re.search(r"[\n\r\\#]", text):
        raise ConfError("a fragment is a single line without comments")
    if re.search(r"=(\s|\Z)", text):
        raise ConfError("a setting has no value: Slurm would take the next word for it")
    settings = _settings(text.strip()) if text.strip() else ()
    banned = {key.lower() for key in refuse}
    for setting in settings:
        if setting.key.lower() in banned:
            raise ConfError(f"{setting.key} may not be set here")
        checked_value(setting.value, setting.key)
    return settings


def _settings(bare: str) -> Line:
    """One logical line taken apart; every character of it must belong to a setting."""
    if bare.split(None, 1)[0].lower() == "include":
        raise ConfError("includes are not allowed")
    settings, position = [], 0
    while position < len(bare):
        found = _SETTING.match(bare, position)
        if found is None:
            raise ConfError(f"cannot read {bare[position : position + 60]!r}")
        key, operator, quoted, plain = found.groups()
        settings.append(Setting(key + operator, plain if quoted is None else quoted))
        position = found.end()
        position += len(bare[position:]) - len(bare[position:].lstrip())
    return tuple(settings)


def _logical(text: str) -> list[str]:
    """Physical lines without their comments, joined where they end in a backslash of their own."""
    joined: list[str] = []
    open_line = ""
    for raw in text.replace("\r\n", "\n").split("\n"):
        code = _CODE.match(raw)[0].rstrip()  # type: ignore[index] # it matches everything, if only with nothing
        if (len(code) - len(code.rstrip("\\"))) % 2:
            open_line += code[:-1]
        else:
            joined.append(open_line + code)
            open_line = ""
    return [*joined, open_line]


def _key(key: str) -> str:
    if not _KEY.match(key):
        raise ConfError(f"{key[:60]!r} is not a key")
    return key


def _comment(text: str) -> str:
    clean = " ".join(text.split())
    return f"# {clean.replace(chr(92), '/')}\n" if clean else "\n"


def _written(settings: Line) -> str:
    return " ".join(f"{setting.key}={_quoted(setting.value)}" for setting in settings) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("#", "\\#")
    return f'"{escaped}"' if re.search(r"\s", text) else escaped
