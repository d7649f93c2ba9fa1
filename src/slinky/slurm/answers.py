# SPDX-License-Identifier: Apache-2.0
"""From an HTTP answer to a value or an error: the one place that knows slurmrestd's shapes.

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

from .accounts import Account, Association, Cluster, User, Wckey
from .errors import Auth, Denied, Malformed, NotFound, Problem, Rejected, SlurmError, Unreachable, error_for
from .partitions import Partition
from .past import PastJob
from .qos import Qos
from .statistics import ConfMeta, ControllerPing, Diag
from .values import UNSET, Number, Tres, Value
from .views import Job, JobStatus, License, Node, NodeResources, Reservation, Share

#: What slurmrestd itself says, in plain text, when a path or a version is not served.
NOT_SERVED = (b"Unable to find requested URL", b"Invalid or unknown URL path")
#: Long lists are decoded in slices of this many items, with the event loop running in between.
SLICE = 250
#: Parts of items that are often equal from one item to the next.
SHARED = frozenset({str, tuple, Number})


class Reply(NamedTuple):
    """An HTTP answer as it came."""

    status: int
    content_type: str
    body: bytes | bytearray

    @property
    def json(self) -> bool:
        """Whether the sender claims that it is JSON."""
        return self.content_type.startswith("application/json")


class ErrorEntry(Value, frozen=True, gc=False):
    """An entry of `errors[]`."""

    description: str | None = None
    error_number: int = 0
    error: str | None = None
    source: str | None = None

    def problem(self) -> Problem:
        """The same as the rest of the library knows it."""
        said = [text for text in (self.error, self.description) if text and text != "No error"]
        return Problem(self.error_number, ": ".join(dict.fromkeys(said)), self.source or "")


class WarningEntry(Value, frozen=True, gc=False):
    """An entry of `warnings[]`."""

    description: str | None = None
    source: str | None = None


class KillError(Value, frozen=True, gc=False):
    """Why one job of a cancel was left alone."""

    code: int = 0
    string: str = ""
    message: str | None = None


class KillStatus(Value, frozen=True, gc=False):
    """An entry of a cancel's `status[]`; only failures have one that says anything."""

    error: KillError = KillError()
    step_id: str = ""


class JobResult(Value, frozen=True, gc=False):
    """The outcome of an update or requeue for one job or array task."""

    job_id: int = 0
    step_id: str = ""
    error: str | None = None
    error_code: int = 0
    why: str | None = None

    def problem(self) -> Problem:
        """The same as the rest of the library knows it."""
        return Problem(self.error_code, self.why or self.error or "", self.step_id)


class SlurmMeta(Value, frozen=True, gc=False):
    """Who answered."""

    release: str = ""
    cluster: str = ""


class Meta(Value, frozen=True, gc=False):
    """Slurm's own envelope data; an answer without it is not from slurmrestd."""

    slurm: SlurmMeta = SlurmMeta()


class Answer(Value, frozen=True, gc=False):
    """What every answer of slurmrestd has in common."""

    meta: Meta | None = None
    errors: tuple[ErrorEntry, ...] | None = None
    warnings: tuple[WarningEntry, ...] | None = None

    @property
    def cautions(self) -> tuple[Problem, ...]:
        """The warnings: an unknown field in a request shows up nowhere else."""
        return tuple(Problem(0, w.description or "", w.source or "") for w in self.warnings or ())


class JobsAnswer(Answer, frozen=True, gc=False):
    """`jobs/`, `job/{id}`."""

    jobs: tuple[Job, ...] | None = None
    last_update: Number = UNSET


class StatesAnswer(Answer, frozen=True, gc=False):
    """`jobs/state/`."""

    jobs: tuple[JobStatus, ...] | None = None


class NodesAnswer(Answer, frozen=True, gc=False):
    """`node/{name}`."""

    nodes: tuple[Node, ...] | None = None
    last_update: Number = UNSET


class RawNodes(Answer, frozen=True, gc=False):
    """`nodes/`, the nodes still undecoded."""

    nodes: tuple[Raw, ...] | None = None
    last_update: Number = UNSET


class RawJobs(Answer, frozen=True, gc=False):
    """`jobs/`, the jobs still undecoded."""

    jobs: tuple[Raw, ...] | None = None
    last_update: Number = UNSET


class PartitionsAnswer(Answer, frozen=True, gc=False):
    """`partitions/`."""

    partitions: tuple[Partition, ...] | None = None
    last_update: Number = UNSET


class ReservationsAnswer(Answer, frozen=True, gc=False):
    """`reservations/`."""

    reservations: tuple[Reservation, ...] | None = None
    last_update: Number = UNSET


class LicensesAnswer(Answer, frozen=True, gc=False):
    """`licenses/`."""

    licenses: tuple[License, ...] | None = None


class ResourcesAnswer(Answer, frozen=True, gc=False):
    """`resources/{id}`."""

    nodes: tuple[NodeResources, ...] | None = None


class PingAnswer(Answer, frozen=True, gc=False):
    """`ping/`."""

    pings: tuple[ControllerPing, ...] | None = None


class DiagAnswer(Answer, frozen=True, gc=False):
    """`diag/`."""

    statistics: Diag | None = None


class ShareList(Value, frozen=True, gc=False):
    """Slurm nests the list once more."""

    shares: tuple[Share, ...] = ()


class SharesAnswer(Answer, frozen=True, gc=False):
    """`shares`."""

    shares: ShareList | None = None


class ConfAnswer(Answer, frozen=True, gc=False):
    """`conf`."""

    slurm_conf: dict[str, Any] | None = None
    slurm_conf_meta: ConfMeta | None = None


class SubmitAnswer(Answer, frozen=True, gc=False):
    """`job/submit`, `job/allocate`."""

    job_id: int = 0
    job_submit_user_msg: str | None = None


class UpdateAnswer(Answer, frozen=True, gc=False):
    """`job/{id}` after an update."""

    results: tuple[JobResult, ...] | None = None


class CancelAnswer(Answer, frozen=True, gc=False):
    """A cancel, of one or of many."""

    status: tuple[KillStatus, ...] | None = None


class RequeueAnswer(Answer, frozen=True, gc=False):
    """`jobs/requeue`."""

    status: tuple[tuple[JobResult, ...], ...] | None = None


class AccountsAnswer(Answer, frozen=True, gc=False):
    """`accounts/`."""

    accounts: tuple[Account, ...] | None = None


class UsersAnswer(Answer, frozen=True, gc=False):
    """`users/`."""

    users: tuple[User, ...] | None = None


class AssociationsAnswer(Answer, frozen=True, gc=False):
    """`associations/`."""

    associations: tuple[Association, ...] | None = None


class QosAnswer(Answer, frozen=True, gc=False):
    """`qos/`."""

    qos: tuple[Qos, ...] | None = None


class PastJobsAnswer(Answer, frozen=True, gc=False):
    """`jobs/` of slurmdbd."""

    jobs: tuple[PastJob, ...] | None = None


class ChangesAnswer(Answer, frozen=True, gc=False):
    """What a write to slurmdbd has changed, in words."""

    results: tuple[str, ...] | None = None


class TresAnswer(Answer, frozen=True, gc=False, rename={"tres": "TRES"}):
    """`tres/`."""

    tres: tuple[Tres, ...] | None = None


class ClustersAnswer(Answer, frozen=True, gc=False):
    """`clusters/`."""

    clusters: tuple[Cluster, ...] | None = None


class WckeysAnswer(Answer, frozen=True, gc=False):
    """`wckeys/`."""

    wckeys: tuple[Wckey, ...] | None = None


A = TypeVar("A", bound=Answer)
T = TypeVar("T")
V = TypeVar("V", bound=Value)

_DECODERS: dict[type[Any], msgspec.json.Decoder[Any]] = {}


def decode(body: bytes | bytearray | Raw, kind: type[T]) -> T:
    """Bytes to a struct; anything that does not fit is `Malformed`."""
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    try:
        return decoder.decode(body)  # type: ignore[no-any-return]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"cannot read a {kind.__name__}: {error}") from error


def read(reply: Reply, kind: type[A]) -> A:
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


def kill_refusals(answer: CancelAnswer) -> tuple[Problem, ...]:
    """Which jobs a cancel left alone, and why: slurmrestd reports that with a 200."""
    return tuple(
        Problem(entry.error.code, entry.error.string or entry.error.message or "", entry.step_id)
        for entry in answer.status or ()
        if entry.error.code
    )


def _stranger(reply: Reply) -> SlurmError:
    """The error for an answer that is not JSON."""
    if reply.status == 401:
        return Auth("slurmrestd wants a token")
    said = reply.body[:120].decode("utf-8", "replace").strip()
    return Malformed(f"HTTP {reply.status} {reply.content_type or 'without a type'}: {said!r}")


def _refusal(status: int, problems: Sequence[Problem]) -> SlurmError:
    """The error for slurmrestd's own refusal."""
    error = error_for(problems)
    if not isinstance(error, Rejected) or isinstance(error, NotFound | Denied):
        return error
    if status in {401, 511}:
        return Auth(str(error))
    if status in {502, 503, 504}:
        return Unreachable(str(error))
    return error
