# SPDX-License-Identifier: Apache-2.0
"""Log lines for machines or for people.

A line is a constant message plus fields; fields of the surrounding work (`context`) are added by themselves,
and values that look like secrets are blanked before they reach a handler. It rides on the standard library's
`logging`, so foreign libraries end up in the same stream.
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

_fields: contextvars.ContextVar[Mapping[str, Any]] = contextvars.ContextVar("log_fields", default=MappingProxyType({}))

REDACTED = "[hidden]"
_SECRET_NAMES = re.compile(r"(?i)(token|password|passwd|secret_data|authorization|private|credential|jwt$|api_?key)")
_SECRET_TEXTS = re.compile(
    r"(?i)(bearer\s+)[\w.~+/=-]{8,}"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+"  # a JSON web token, wherever it turns up
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]*PRIVATE KEY-----|$)"
)


def redact(text: str) -> str:
    """`text` without tokens and private keys."""
    return _SECRET_TEXTS.sub(lambda found: (found[1] or "") + REDACTED, text)


@contextlib.contextmanager
def log_context(**fields: Any) -> Iterator[None]:
    """Add `fields` to every line written inside."""
    before = _fields.set({**_fields.get(), **fields})
    try:
        yield
    finally:
        _fields.reset(before)


class Log:
    """A named source of lines: `log.info("watch cut", resource="pods")`."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, message: str, **fields: Any) -> None:
        """For someone who traces one problem."""
        self._write(logging.DEBUG, message, fields)

    def info(self, message: str, **fields: Any) -> None:
        """Something changed."""
        self._write(logging.INFO, message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        """Something went wrong and is being dealt with."""
        self._write(logging.WARNING, message, fields)

    def error(self, message: str, error: BaseException | None = None, **fields: Any) -> None:
        """Something went wrong and needs a person; `error` adds its traceback."""
        self._write(logging.ERROR, message, fields, error)

    def _write(self, level: int, message: str, fields: dict[str, Any], error: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, message, exc_info=error, extra={"fields": {**_fields.get(), **fields}})


def _visible(name: str, value: Any) -> Any:
    if _SECRET_NAMES.search(name):
        return REDACTED
    if value is None or isinstance(value, bool | int | float):
        return value
    return redact(str(value))


def record_fields(record: logging.LogRecord) -> dict[str, Any]:
    """The fields of a line, safe to print."""
    fields: Mapping[str, Any] = getattr(record, "fields", {})
    return {name: _visible(name, value) for name, value in fields.items()}


def _trace(record: logging.LogRecord) -> str:
    if not record.exc_info or record.exc_info[1] is None:
        return ""
    return redact("".join(traceback.format_exception(record.exc_info[1])))


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        stamp = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": stamp.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
            **record_fields(record),
        }
        if trace := _trace(record):
            line["trace"] = trace
        return msgspec.json.encode(line).decode()


class HumanFormatter(logging.Formatter):
    """For a terminal: time, level, message, then `name=value` pairs."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        stamp = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        pairs = " ".join(f"{name}={value}" for name, value in record_fields(record).items())
        line = f"{stamp} {record.levelname:<7} {redact(record.getMessage())}  {pairs}".rstrip()
        return f"{line}\n{trace}" if (trace := _trace(record)) else line


def setup_logging(
    shape: Literal["json", "human", "auto"] = "auto", level: str = "INFO", stream: TextIO | None = None
) -> None:
    """Send all logging to `stream`; `auto` is human on a terminal and JSON elsewhere."""
    stream = stream or sys.stderr
    human = shape == "human" or (shape == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(HumanFormatter() if human else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
