# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N818 - an error is named for what happened; callers read `except NotFound`
"""What can go wrong between us and Slurm, as types that carry the decision.

Every failure of the library is a `SlurmError`; a caller matches on the type, never on a sentence. The
numbers that slurmctld and slurmdbd report are mapped by one table, and an unknown number stays a `Rejected`
with its number.

    SlurmError
    ├── Retryable                    try again later; nothing is known
    │   ├── Transport                no usable answer: refused, reset, timed out, hung
    │   │   └── Malformed            an answer that is not Slurm's: a proxy's page, garbage, a truncated body
    │   ├── Throttled                we ask too often
    │   └── Unreachable              slurmrestd answers, slurmctld does not
    │       └── DatabaseUnreachable  slurmrestd answers, slurmdbd does not
    ├── Auth                         the token was refused; mint or load another
    ├── Rejected                     Slurm understood and said no: number, source, text
    │   ├── NotFound                 slurmctld itself says that there is no such thing
    │   ├── Conflict                 it exists already, has ended, or changed under us
    │   ├── Busy                     not now: nodes are taken, or a better job waits
    │   ├── Denied                   this user may not
    │   └── Invalid                  our request was malformed: unknown flag, wrong type
    └── Unsupported                  this server's data parser is too old for the call
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import NamedTuple


class Problem(NamedTuple):
    """One entry of Slurm's `errors[]`, `warnings[]` or `status[]`."""

    number: int = 0
    text: str = ""
    source: str = ""

    def __str__(self) -> str:
        where = f" [{self.source}]" if self.source else ""
        return f"{self.text or 'unexplained'} ({self.number}){where}"


class SlurmError(Exception):
    """The root of every error that this library raises."""


class Retryable(SlurmError):
    """Nothing was learnt: neither that it worked nor that it did not."""

    #: True when the request may have been carried out although no answer came back.
    maybe_applied: bool

    def __init__(self, message: str, *, maybe_applied: bool = False) -> None:
        super().__init__(message)
        self.maybe_applied = maybe_applied


class TransportError(Retryable):
    """No usable answer from slurmrestd: refused, reset, timed out or hung."""


class Malformed(TransportError):
    """Something answered, but not slurmrestd, or not in its language."""


class SlurmctldUnreachable(Retryable):
    """slurmrestd answered that it cannot reach slurmctld."""


class DatabaseUnreachable(SlurmctldUnreachable):
    """slurmrestd answered that it cannot reach slurmdbd."""


class Throttled(Retryable):
    """Slurm asks us to slow down; nothing was done."""


class AuthError(SlurmError):
    """The token is missing, expired or wrongly signed, or may not act as this user."""


class Unsupported(SlurmError):
    """The call needs a newer data parser than the server has."""


class Rejected(SlurmError):
    """Slurm understood the request and refused it."""

    def __init__(self, problem: Problem, others: Iterable[Problem] = ()) -> None:
        super().__init__(str(problem))
        self.problem = problem
        self.others = tuple(others)

    @property
    def number(self) -> int:
        """Slurm's error number, as in slurm_errno.h."""
        return self.problem.number

    @property
    def source(self) -> str:
        """Which function or JSON path complained."""
        return self.problem.source

    @property
    def text(self) -> str:
        """Slurm's own words."""
        return self.problem.text


class SlurmNotFound(Rejected):
    """slurmctld or slurmdbd itself says that there is no such thing."""


class SlurmConflict(Rejected):
    """It exists already, has ended already, or changed under us."""


class Busy(Rejected):
    """Not now: nodes are taken, or a better job waits for them."""


class Denied(Rejected):
    """The user may not do that."""


class SlurmInvalid(Rejected):
    """The request itself was malformed."""


#: Slurm's numbers that mean more than "no". A number that is not here is a plain `Rejected`.
ERROR_TYPES: dict[int, type[SlurmError]] = {
    -1: SlurmctldUnreachable,  # unspecified: what a slurmctld that goes down in mid-answer leaves behind
    1001: SlurmctldUnreachable,  # communication connection failure
    1002: SlurmctldUnreachable,  # message send failure
    1003: SlurmctldUnreachable,  # message receive failure
    1004: SlurmctldUnreachable,  # communication shutdown failure
    1007: AuthError,  # protocol authentication error
    1800: SlurmctldUnreachable,  # no slurmctld: connect failure
    1801: SlurmctldUnreachable,  # no slurmctld: send failure
    1802: SlurmctldUnreachable,  # no slurmctld: receive failure
    1803: SlurmctldUnreachable,  # no slurmctld: shutdown failure
    1804: Throttled,  # rate limit exceeded, momentarily
    1805: Throttled,  # rate limit exceeded
    2002: Denied,  # access denied
    2003: Denied,  # group not permitted in this partition
    2010: Denied,  # invalid user id: what a user who is no operator is told
    2011: SlurmConflict,  # duplicate job id
    2013: Busy,  # a better job waits
    2015: Busy,  # partition configuration not available now
    2016: Busy,  # requested nodes are busy
    2017: SlurmNotFound,  # invalid job id
    2018: SlurmNotFound,  # invalid node name
    2020: SlurmConflict,  # job cannot be altered now
    2021: SlurmConflict,  # already completing or completed
    2027: SlurmctldUnreachable,  # backup controller in standby mode
    2035: Busy,  # resources too fragmented
    2040: Busy,  # licences currently unavailable
    2052: Denied,  # access denied to reservation
    2053: SlurmNotFound,  # requested reservation is invalid
    2055: Busy,  # reservation is in use
    2061: Busy,  # PrologSlurmctld is still running
    2068: Busy,  # required node down, drained or reserved
    2073: SlurmConflict,  # job no longer pending
    2075: Busy,  # partition is in use
    2078: Busy,  # job cannot start immediately
    2082: SlurmConflict,  # duplicate reservation name
    2083: SlurmConflict,  # job has already started
    2084: SlurmConflict,  # job has already finished
    2085: SlurmConflict,  # job is not running
    2086: SlurmConflict,  # job is neither pending nor running
    2125: Busy,  # immediate execution impossible: attempts are deferred
    2131: SlurmctldUnreachable,  # controller in standby mode
    2168: SlurmConflict,  # node exists
    2180: SlurmConflict,  # invalid node state transition
    2185: SlurmNotFound,  # SLUID is invalid
    5004: SlurmctldUnreachable,  # socket timed out
    5005: SlurmctldUnreachable,  # zero bytes transmitted or received
    7000: DatabaseUnreachable,  # unable to connect to database
    7001: SlurmConflict,  # jobs active: cancel them before removing
    7008: DatabaseUnreachable,  # database connection reference is invalid
    7015: Throttled,  # usage rollup in progress
    9000: SlurmInvalid,  # query empty
    9001: SlurmInvalid,  # failure during parsing
    9002: SlurmInvalid,  # no job description
    9003: SlurmNotFound,  # nothing found with query
    9008: AuthError,  # authentication failure
    9200: SlurmInvalid,  # unable to resolve path: a field is missing
    9202: SlurmInvalid,  # wrong data type
    9206: SlurmInvalid,  # flags must be a list
    9207: SlurmInvalid,  # unknown flag
    9208: SlurmInvalid,  # expected a list
    9209: SlurmInvalid,  # expected an object
    9216: SlurmInvalid,  # invalid data
}

#: What a system says of a connection that failed; the numbers are its own, not Slurm's.
CONNECTION_ERRNOS = frozenset(
    {
        errno.EPIPE,
        errno.ENOTCONN,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.ECONNABORTED,
        errno.ETIMEDOUT,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
    }
)

#: Failures to connect: the request did not even leave slurmrestd.
NEVER_SENT = frozenset({1001, 1800, 1804, 1805, 2027, 2131, 7000, 7015})


def error_for(problems: Iterable[Problem]) -> SlurmError:
    """The error that a refusal stands for, chosen by the first number that means something.

    A refusal whose numbers are all unknown is a `Rejected`; it is never read as "not found".
    """
    found = tuple(problems) or (Problem(),)
    first = next((problem for problem in found if problem.number in ERROR_TYPES), found[0])
    kind = ERROR_TYPES.get(first.number, DatabaseUnreachable if _cut_off(first) else Rejected)
    if issubclass(kind, Rejected):
        return kind(first, (problem for problem in found if problem is not first))
    if issubclass(kind, Retryable):
        return kind(str(first), maybe_applied=first.number not in NEVER_SENT)
    return kind(str(first))


def _cut_off(problem: Problem) -> bool:
    """Whether slurmrestd passes on what the system said of its connection to slurmdbd."""
    return problem.number in CONNECTION_ERRNOS and problem.source.startswith("slurmdb_")
