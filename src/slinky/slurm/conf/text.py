# SPDX-License-Identifier: Apache-2.0
"""The notation of Slurm's configuration files: lines of Key=Value.

`parse` follows the rules of slurmctld, as measured: a comment ends a line before it is continued, a backslash escapes
the next character, values may be quoted, keys may have any letter case. `render` writes only text that `parse` reads
back unchanged, and checks every value so that none can add a line, a setting or a comment. Includes are rejected,
because the included file cannot be checked here.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_.]*\Z")
_SETTING = re.compile(r'([A-Za-z0-9_.]+)\s*([-*+/]?)=\s*(?:"([^"]*)"|([^\s"]+))(?=\s|\Z)')
#: The part of a line before its comment; a backslash escapes the next character, also another backslash.
_CODE = re.compile(r"(?:[^\\#]|\\.)*\\?")
_ESCAPED = re.compile(r"\\(.)")
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f"\u2028\u2029\x85]')


class ConfError(ValueError):
    """A value that must not be written to a file, or text that slurmctld would not accept."""


class Setting(NamedTuple):
    """One Key=Value."""

    key: str
    value: str

    def has_key(self, key: str) -> bool:
        """Whether the setting has this key; Slurm ignores the letter case."""
        return self.key.lower() == key.lower()


Line = tuple[Setting, ...]


def checked_value(value: str | int, label: str = "value") -> str:
    """A value that can be written to a file. Raises `ConfError` for a value that would change the file's structure."""
    text = str(value)
    if not text.strip():
        raise ConfError(f"{label} is empty: Slurm would read the next word as its value")
    if text != text.strip() or _FORBIDDEN.search(text):
        raise ConfError(f"{label} {text[:60]!r} has characters that are not allowed in a configuration file")
    return text


def checked_name(value: str | int, label: str = "name") -> str:
    """A value without white space and special characters, such as the name of a host."""
    text = checked_value(value, label)
    if re.search(r"[\s=,#'`$();&|<>\\]", text):
        raise ConfError(f"{label} {text[:60]!r} is not a plain name")
    return text


def build_line(*settings: tuple[str, str | int | None]) -> Line:
    """A line of these settings, without those that are None. Raises `ConfError` for an invalid key or value."""
    line = tuple(Setting(_checked_key(key), checked_value(value, key)) for key, value in settings if value is not None)
    if not line:
        raise ConfError("a line needs at least one setting")
    return line


def render(lines: Iterable[Line | str]) -> str:
    """The text of a file; a string is a comment. Raises `ConfError` if the text does not parse back unchanged."""
    items = list(lines)
    text = "".join(_render_comment(item) if isinstance(item, str) else _render_line(item) for item in items)
    if parse(text) != [item for item in items if not isinstance(item, str)]:
        raise ConfError("the rendered configuration does not parse back to the same settings")
    return text


def parse(text: str) -> list[Line]:
    """The lines of a file. Raises `ConfError` for text that slurmctld would not accept, and for includes."""
    lines = []
    for raw in _logical_lines(text):
        unescaped = _ESCAPED.sub(r"\1", raw).strip()
        if unescaped:
            lines.append(_parse_settings(unescaped))
    return lines


def parse_fragment(text: str, *, refuse: Sequence[str] = ()) -> Line:
    """A user's part of a line, such as `MaxTime=60 State=UP`. Raises `ConfError` for comments and refused keys."""
    if re.search(r"[\n\r\\#]", text):
        raise ConfError("the text must be a single line without comments")
    if re.search(r"=(\s|\Z)", text):
        raise ConfError("a setting has no value: Slurm would read the next word as its value")
    settings = _parse_settings(text.strip()) if text.strip() else ()
    refused = {key.lower() for key in refuse}
    for setting in settings:
        if setting.key.lower() in refused:
            raise ConfError(f"{setting.key} may not be set here")
        checked_value(setting.value, setting.key)
    return settings


def _parse_settings(line: str) -> Line:
    """The settings of one logical line; every character of it must belong to a setting."""
    if line.split(None, 1)[0].lower() == "include":
        raise ConfError("includes are not allowed")
    settings, position = [], 0
    while position < len(line):
        match = _SETTING.match(line, position)
        if match is None:
            raise ConfError(f"cannot read {line[position : position + 60]!r} as Key=Value")
        key, operator, quoted, plain = match.groups()
        if operator:
            # Slurm would replace the whole value, or add to it: either way around the checks of the key.
            raise ConfError(f"{key}{operator}= is not allowed; write the whole value after {key}=")
        settings.append(Setting(key, plain if quoted is None else quoted))
        position = match.end()
        position += len(line[position:]) - len(line[position:].lstrip())
    return tuple(settings)


def _logical_lines(text: str) -> list[str]:
    """The lines without their comments, joined where a line ends in an unescaped backslash."""
    lines: list[str] = []
    continued = ""
    for raw in text.replace("\r\n", "\n").split("\n"):
        code = _CODE.match(raw)[0].rstrip()  # type: ignore[index] # the expression also matches an empty text
        if (len(code) - len(code.rstrip("\\"))) % 2:
            continued += code[:-1]
        else:
            lines.append(continued + code)
            continued = ""
    return [*lines, continued]


def _checked_key(key: str) -> str:
    if not _KEY.match(key):
        raise ConfError(f"{key[:60]!r} is not a key")
    return key


def _render_comment(text: str) -> str:
    comment = " ".join(text.split())
    return f"# {comment.replace(chr(92), '/')}\n" if comment else "\n"


def _render_line(line: Line) -> str:
    return " ".join(f"{setting.key}={_quote(setting.value)}" for setting in line) + "\n"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("#", "\\#")
    return f'"{escaped}"' if re.search(r"\s", text) else escaped
