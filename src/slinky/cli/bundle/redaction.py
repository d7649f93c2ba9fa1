# SPDX-License-Identifier: Apache-2.0
"""Removes secrets from texts and objects. Pure.

Three layers: the values of the Secrets of the namespace, wherever they occur; texts that have the form of a credential,
such as a JWT, a private key or `password=...`; fields of objects whose names say that they are secret.
"""

import base64
import json
import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

from slinky.cli.bundle.value_search import ValueSearch

REDACTED = "[redacted]"
#: A secret value shorter than this is no text that could be searched for: `yes`, `slurm`.
SHORTEST_VALUE = 6

_WORDS = r"pass|passwd|password|passphrase|secret|token|jwt|credential|credentials|authorization|apikey|api[-_]key"
_WORDS += r"|private[-_]?key|access[-_]?key|encryption[-_]?key|authorized[-_]?keys|cookie"
#: Names of fields, variables and settings with a secret value: `StoragePass`, `DB_PASSWORD`, `slurm-token`.
_NAME = rf"[A-Za-z0-9_.-]*(?:{_WORDS})"
_SECRET_NAME = re.compile(rf"(?i)(?:{_NAME})s?")
#: Names that end in one of these refer to a secret, and are needed to understand a configuration.
_REFERENCE = re.compile(r"(?i)(?:ref|refs|name|names|file|path|dir|lifetime|seconds|expiry|type|secretkeyref)$")

#: A name, what stands between it and its value, and the value with or without quotes. Only the end of the name is
#: matched, so that a search in a long text without spaces takes no longer than in another. The initials of the words
#: come first, because that is the quickest way to see that a name does not begin here.
_INITIALS = "".join(sorted({word[0] for word in _WORDS.split("|")}))
_ASSIGNMENT = (
    rf"(?i)((?=[{_INITIALS}])(?:{_WORDS})s?\\?[\"']?\s{{0,9}}[:=]\s{{0,9}})"
    r"(?:(\\?\")(?!\[redacted\])[^\"\\]+|(')(?!\[redacted\])[^'\\]+|(?!\[redacted\])[^\s\"'\\,;&{}\[\]]+)"
)
#: A run of letters that begins like a JWT is consumed as a whole, also if it is none: then nothing of it is read twice.
_JWT = r"eyJ[A-Za-z0-9_-]{8,}+(\.[A-Za-z0-9_-]{4,}+(?:\.[A-Za-z0-9_-]*+)?)?"


def _hide_jwt(match: re.Match[str]) -> str:
    return REDACTED if match[1] else match[0]


_FORMS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.S),
        REDACTED,
    ),
    (re.compile(_JWT), _hide_jwt),
    (re.compile(r"(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{6,}"), rf"\1{REDACTED}"),
    (re.compile(r"\b((?:ssh|ecdsa)-[a-z0-9-]{1,40}\s+)AAAA[A-Za-z0-9+/=]+"), rf"\1{REDACTED}"),
    (re.compile(r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,30}://)[^\s/@:]{0,200}:[^\s/@]{1,400}(?=@)"), rf"\1{REDACTED}"),
    (re.compile(_ASSIGNMENT), rf"\1\2\3{REDACTED}"),
)

#: Annotations with a copy of the whole object.
_COPIES = ("kubectl.kubernetes.io/last-applied-configuration",)


class Redactor:
    """Removes the given values and everything that has the form of a credential."""

    def __init__(self, values: Iterable[bytes] = ()) -> None:
        self._values = ValueSearch(form for value in values for form in _forms_of(value))

    def redact_text(self, text: str) -> str:
        """The text without secrets."""
        text = self._values.replace(text, REDACTED)
        for pattern, replacement in _FORMS:
            text = pattern.sub(replacement, text)
        return text

    def redact_object(self, value: Any) -> Any:
        """A value of JSON without secrets, without managed fields and copies of itself."""
        if isinstance(value, dict):
            return self._redact_fields(value)
        if isinstance(value, list):
            return [self.redact_object(item) for item in value]
        return self.redact_text(value) if isinstance(value, str) else value

    def _redact_fields(self, fields: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        is_variable = _is_secret_name(str(fields.get("name", "")))
        for name, value in fields.items():
            if name == "managedFields" or name in _COPIES:
                continue
            is_secret = _is_secret_name(name) or (name == "value" and is_variable)
            result[self.redact_text(name)] = REDACTED if is_secret and _is_scalar(value) else self.redact_object(value)
        return result


def _is_secret_name(name: str) -> bool:
    return _SECRET_NAME.fullmatch(name) is not None and _REFERENCE.search(name) is None


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""


def _forms_of(value: bytes) -> Iterable[str]:
    """A secret as it may appear in a text: as it is, by line, as base64, in JSON and in a URL."""
    stripped = value.strip()
    encoded = [base64.b64encode(each).decode() for each in {value, stripped}]
    try:
        text = stripped.decode()
    except UnicodeDecodeError:
        texts = []
    else:
        lines = [line.strip() for line in text.splitlines()]
        texts = [text, json.dumps(text)[1:-1], quote(text, safe=""), *(line for line in lines if len(line) >= 16)]
    return (form for form in (*encoded, *texts) if len(form) >= SHORTEST_VALUE)
