# SPDX-License-Identifier: Apache-2.0
"""Structured log lines, as JSON or as text for a terminal.

A line is a constant message plus fields. Fields of the surrounding work (`log_context`) are added to each line, and
values that look like secrets are redacted before they reach a handler. The lines go through the `logging` module of the
standard library, so lines of other libraries have the same format.
"""

import contextlib
import contextvars
import logging
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal, TextIO

import msgspec

from slinky.bounds import LOG_TEXT_MAX

_fields: contextvars.ContextVar[Mapping[str, Any]] = contextvars.ContextVar("log_fields", default=MappingProxyType({}))

REDACTED = "[hidden]"
_SECRET_NAMES = re.compile(r"(?i)(token|password|passwd|secret_data|authorization|private|credential|jwt$|api_?key)")
_SECRET_PATTERNS = re.compile(
    r"(?i)(bearer\s+)[\w.~+/=-]{8,}"
    r"|(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+"  # a JSON web token
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]*PRIVATE KEY-----|$)"
)


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def _escape(character: re.Match[str]) -> str:
    return repr(character[0])[1:-1]


def redact(text: str) -> str:
    """`text` with tokens and private keys replaced; a text that is too long is cut before, which keeps its start."""
    if len(text) > LOG_TEXT_MAX:
        text = f"{text[:LOG_TEXT_MAX]}... ({len(text)} characters)"
    return _SECRET_PATTERNS.sub(lambda match: (match[1] or "") + REDACTED, text)


@contextlib.contextmanager
def log_context(**fields: Any) -> Iterator[None]:
    """Add `fields` to every line that is written while the context is open."""
    token = _fields.set({**_fields.get(), **fields})
    try:
        yield
    finally:
        _fields.reset(token)


class Log:
    """A named logger: `log.info("watch interrupted", resource="pods")`."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, message: str, **fields: Any) -> None:
        """Details for finding the cause of a problem."""
        self._write(logging.DEBUG, message, fields)

    def info(self, message: str, **fields: Any) -> None:
        """A change of state."""
        self._write(logging.INFO, message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        """A failure that the program handles by itself."""
        self._write(logging.WARNING, message, fields)

    def error(self, message: str, error: BaseException | None = None, **fields: Any) -> None:
        """A failure that needs a person; `error` adds its traceback."""
        self._write(logging.ERROR, message, fields, error)

    def _write(self, level: int, message: str, fields: dict[str, Any], error: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, message, exc_info=error, extra={"fields": {**_fields.get(), **fields}})


def _redact_value(name: str, value: Any) -> Any:
    if _SECRET_NAMES.search(name):
        return REDACTED
    if value is None or isinstance(value, bool | int | float):
        return value
    return redact(str(value))


def record_fields(record: logging.LogRecord) -> dict[str, Any]:
    """The fields of a line, with secrets redacted."""
    fields: Mapping[str, Any] = getattr(record, "fields", {})
    return {name: _redact_value(name, value) for name, value in fields.items()}


def _format_traceback(record: logging.LogRecord) -> str:
    if not record.exc_info or record.exc_info[1] is None:
        return ""
    return redact("".join(traceback.format_exception(record.exc_info[1]))[-LOG_TEXT_MAX:])


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Format one line."""
        timestamp = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": timestamp.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
            **record_fields(record),
        }
        if trace := _format_traceback(record):
            line["trace"] = trace
        return msgspec.json.encode(line).decode()


class HumanFormatter(logging.Formatter):
    """For a terminal: time, level, message, then `name=value` pairs."""

    def format(self, record: logging.LogRecord) -> str:
        """Format one line."""
        timestamp = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        pairs = " ".join(f"{name}={value}" for name, value in record_fields(record).items())
        # A control character in a value could forge a line or change the terminal.
        line = _CONTROL.sub(
            _escape, f"{timestamp} {record.levelname:<7} {redact(record.getMessage())}  {pairs}".rstrip()
        )
        return f"{line}\n{trace}" if (trace := _format_traceback(record)) else line


def setup_logging(
    format_name: Literal["json", "human", "auto"] = "auto", level: str = "INFO", stream: TextIO | None = None
) -> None:
    """Send all log lines to `stream`; `auto` means text on a terminal and JSON elsewhere."""
    stream = stream or sys.stderr
    human = format_name == "human" or (format_name == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(HumanFormatter() if human else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
