# SPDX-License-Identifier: Apache-2.0
"""From an HTTP answer to a value or an error.

`read` is a pure function of status, content type and bytes. It trusts nothing: a 200 may carry errors, a
404 in plain text comes from a wrong path or a proxy and never means that a job is gone, and a list that is
missing from an otherwise fine answer is not an empty list.
"""

from __future__ import annotations

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

#: What slurmrestd itself says, in plain text, when a path or a version is not served.
NOT_SERVED = (b"Unable to find requested URL", b"Invalid or unknown URL path")
#: Long lists are decoded in slices of this many items, with the event loop running in between.
SLICE = 250
#: Parts of items that are often equal from one item to the next.
SHARED = frozenset({str, tuple, Number})

A = TypeVar("A", bound=Response)
T = TypeVar("T")
V = TypeVar("V", bound=Value)

_DECODERS: dict[type[Any], msgspec.json.Decoder[Any]] = {}


class RawResponse(NamedTuple):
    """An HTTP answer as it came."""

    status: int
    content_type: str
    body: bytes | bytearray

    @property
    def json(self) -> bool:
        """Whether the sender claims that it is JSON."""
        return self.content_type.startswith("application/json")


def decode(body: bytes | bytearray | Raw, kind: type[T]) -> T:
    """Bytes to a struct; anything that does not fit is `Malformed`."""
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    try:
        return decoder.decode(body)  # type: ignore[no-any-return]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"cannot read a {kind.__name__}: {error}") from error


def read(reply: RawResponse, kind: type[A]) -> A:
    """The answer, or the error that it stands for."""
    if not reply.json:
        raise _stranger(reply)
    answer = decode(reply.body, kind)
    if answer.meta is None:
        raise Malformed(f"HTTP {reply.status}: JSON, but not from slurmrestd")
    if answer.errors or reply.status >= 400:
        raise _refusal(reply.status, [entry.problem() for entry in answer.errors or ()])
    if reply.status != 200:
        raise Malformed(f"HTTP {reply.status} is not an answer of slurmrestd")
    return answer


async def decode_slowly(items: Sequence[Raw], kind: type[V]) -> tuple[V, ...]:
    """Decode a long list in slices, letting other tasks run in between, with equal parts kept once."""
    found: list[V] = []
    kept: dict[Any, Any] = {}
    for start in range(0, len(items), SLICE):
        found.extend(share(decode(item, kind), kept) for item in items[start : start + SLICE])
        await asyncio.sleep(0)
    return tuple(found)


def share(item: V, kept: dict[Any, Any]) -> V:
    """Replace parts of a fresh struct by equal ones that were seen before: most nodes differ in little."""
    for name in item.__struct_fields__:
        part = getattr(item, name)
        if type(part) in SHARED:
            force_setattr(item, name, kept.setdefault(part, part))
    return item


def present(value: T | None, what: str) -> T:
    """The part of an answer that must be there; its absence is a broken answer, not an empty list."""
    if value is None:
        raise Malformed(f"the answer has no {what}")
    return value


def kill_refusals(answer: CancelResponse) -> tuple[Problem, ...]:
    """Which jobs a cancel left alone, and why: slurmrestd reports that with a 200."""
    return tuple(
        Problem(entry.error.code, entry.error.string or entry.error.message or "", entry.step_id)
        for entry in answer.status or ()
        if entry.error.code
    )


def _stranger(reply: RawResponse) -> SlurmError:
    """The error for an answer that is not JSON."""
    if reply.status == 401:
        return AuthError("slurmrestd wants a token")
    said = reply.body[:120].decode("utf-8", "replace").strip()
    return Malformed(f"HTTP {reply.status} {reply.content_type or 'without a type'}: {said!r}")


def _refusal(status: int, problems: Sequence[Problem]) -> SlurmError:
    """The error for slurmrestd's own refusal."""
    error = error_for(problems)
    if not isinstance(error, Rejected) or isinstance(error, SlurmNotFound | Denied):
        return error
    if status in {401, 511}:
        return AuthError(str(error))
    if status in {502, 503, 504}:
        return SlurmctldUnreachable(str(error))
    return error
