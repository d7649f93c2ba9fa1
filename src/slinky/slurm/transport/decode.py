# SPDX-License-Identifier: Apache-2.0
"""Decodes an HTTP response into a struct or an error.

`parse_response` is a pure function of status, content type and bytes. It makes no assumptions about the sender: a 200
may contain errors; a 404 in plain text comes from a wrong path or a proxy and never means that a job is gone; a list
that is missing from a successful response is not an empty list.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Raw
from msgspec.structs import force_setattr

from slinky.slurm.errors import (
    AuthError,
    Denied,
    Malformed,
    Problem,
    Rejected,
    SlurmctldUnreachable,
    SlurmError,
    SlurmNotFound,
    error_for,
)
from slinky.slurm.model.responses import CancelResponse, Response
from slinky.slurm.model.values import Number, Value

#: The beginnings of slurmrestd's plain-text response for a path or a version that it does not serve.
NOT_SERVED = (b"Unable to find requested URL", b"Unable find requested URL", b"Invalid or unknown URL path")
#: Number of items of a long list that are decoded before other tasks get a turn.
ITEMS_PER_SLICE = 250
#: Types of fields whose values are often equal from one item to the next.
SHARED_TYPES = frozenset({str, tuple, Number})

R = TypeVar("R", bound=Response)
T = TypeVar("T")
V = TypeVar("V", bound=Value)

_DECODERS: dict[type[Any], msgspec.json.Decoder[Any]] = {}


class RawResponse(NamedTuple):
    """An HTTP response as received."""

    status: int
    content_type: str
    body: bytes | bytearray
    #: Where a redirection points to.
    location: str = ""

    @property
    def json(self) -> bool:
        """Whether the content type is JSON."""
        return self.content_type.startswith("application/json")


def decode(body: bytes | bytearray | Raw, kind: type[T]) -> T:
    """Decode bytes into a struct. Raises `Malformed` for anything that does not fit."""
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    try:
        return decoder.decode(body)  # type: ignore[no-any-return]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"the response is not a valid {kind.__name__}: {error}") from error


def parse_response(raw: RawResponse, kind: type[R]) -> R:
    """Decode a response. Raises the error that it stands for."""
    if not raw.json:
        raise _error_without_json(raw)
    response = decode(raw.body, kind)
    if response.meta is None:
        raise Malformed(f"the HTTP {raw.status} response is JSON, but not from slurmrestd: it has no `meta`")
    if response.errors or raw.status >= 400:
        raise _error_from_slurmrestd(raw.status, [entry.problem() for entry in response.errors or ()])
    if raw.status != 200:
        raise Malformed(f"slurmrestd never responds with HTTP {raw.status}")
    return response


async def decode_in_slices(items: Sequence[Raw], kind: type[V]) -> tuple[V, ...]:
    """Decode a long list, letting other tasks run between slices; equal field values are stored once."""
    decoded: list[V] = []
    known_values: dict[Any, Any] = {}
    for start in range(0, len(items), ITEMS_PER_SLICE):
        batch = items[start : start + ITEMS_PER_SLICE]
        decoded.extend(share_equal_values(decode(item, kind), known_values) for item in batch)
        await asyncio.sleep(0)
    return tuple(decoded)


def share_equal_values(item: V, known_values: dict[Any, Any]) -> V:
    """Replace field values of a new struct by equal known ones: most Slurm nodes differ in few fields."""
    for name in item.__struct_fields__:
        value = getattr(item, name)
        if type(value) in SHARED_TYPES:
            force_setattr(item, name, known_values.setdefault(value, value))
    return item


def require(value: T | None, field: str) -> T:
    """A field that the response must have. Raises `Malformed` without it: a missing list is not an empty list."""
    if value is None:
        raise Malformed(f"the response has no field {field!r}")
    return value


def cancel_failures(response: CancelResponse) -> tuple[Problem, ...]:
    """The jobs that a cancel did not end, and why: slurmrestd reports them in a 200 response."""
    return tuple(
        Problem(entry.error.code, entry.error.string or entry.error.message or "", entry.step_id)
        for entry in response.status or ()
        if entry.error.code
    )


def _error_without_json(raw: RawResponse) -> SlurmError:
    if raw.status == 401:
        return AuthError("slurmrestd requires a token")
    text = raw.body[:120].decode("utf-8", "replace").strip()
    return Malformed(f"HTTP {raw.status} with content type {raw.content_type or 'unset'} instead of JSON: {text!r}")


def _error_from_slurmrestd(status: int, problems: Sequence[Problem]) -> SlurmError:
    """The error of slurmrestd's own envelope; the HTTP status decides where Slurm's numbers do not."""
    error = error_for(problems)
    if not isinstance(error, Rejected) or isinstance(error, SlurmNotFound | Denied):
        return error
    if status in {401, 511}:
        return AuthError(str(error))
    if status in {502, 503, 504}:
        return SlurmctldUnreachable(str(error))
    return error
