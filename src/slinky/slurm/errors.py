# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N818 - an error is named after what happened: `except Busy`
"""The errors of the library. The type of an error tells the caller what to do; the text is for people.

Every failure is a `SlurmError`. One table maps the numbers of slurmctld and slurmdbd to types; an error with an unknown
number is a `Rejected` that carries the number.

    SlurmError
    ├── Retryable                    try again later; it is unknown whether the request was applied
    │   ├── TransportError           no usable response: refused, reset, timed out
    │   │   ├── UntrustedServer      the certificate of the server was not accepted; nothing was sent
    │   │   └── Malformed            a response that is not from slurmrestd: a proxy's page, garbage, a truncated body
    │   ├── Throttled                Slurm's rate limit was exceeded
    │   └── SlurmctldUnreachable     slurmrestd responds, slurmctld does not
    │       └── DatabaseUnreachable  slurmrestd responds, slurmdbd does not
    ├── AuthError                    the token was refused; mint or load another
    ├── Rejected                     Slurm rejected the request: number, source, text
    │   ├── SlurmNotFound            slurmctld or slurmdbd says that the object does not exist
    │   ├── SlurmConflict            the object exists already, has ended, or was changed meanwhile
    │   ├── Busy                     not now: nodes are allocated, or a job of higher priority waits for them
    │   ├── Denied                   the user lacks the permission
    │   └── SlurmInvalid             the request is malformed: unknown flag, wrong type
    └── Unsupported                  the server's data parser is too old for the request
"""

import errno
from collections.abc import Iterable
from typing import NamedTuple


class Problem(NamedTuple):
    """One entry of Slurm's `errors[]`, `warnings[]` or `status[]`."""

    number: int = 0
    text: str = ""
    source: str = ""

    def __str__(self) -> str:
        source = f" [{self.source}]" if self.source else ""
        return f"{self.text or 'no explanation'} ({self.number}){source}"


class SlurmError(Exception):
    """The base of every error that this library raises."""


class Retryable(SlurmError):
    """The result of the request is unknown; try again later."""

    #: Whether the request may have been applied although no response was received.
    maybe_applied: bool

    def __init__(self, message: str, *, maybe_applied: bool = False) -> None:
        super().__init__(message)
        self.maybe_applied = maybe_applied


class TransportError(Retryable):
    """No usable response from slurmrestd: the connection was refused or reset, or the request timed out."""


class UntrustedServer(TransportError):
    """The TLS certificate of the server was not accepted; neither the token nor the request was sent."""


class Malformed(TransportError):
    """The response is not a response of slurmrestd."""


class SlurmctldUnreachable(Retryable):
    """slurmrestd cannot reach slurmctld."""


class DatabaseUnreachable(SlurmctldUnreachable):
    """slurmrestd cannot reach slurmdbd."""


class Throttled(Retryable):
    """Slurm's rate limit was exceeded; the request was not applied."""


class AuthError(SlurmError):
    """The token is missing, expired or wrongly signed, or does not allow acting as this user."""


class Unsupported(SlurmError):
    """The request needs a newer data parser than the server has."""


class Rejected(SlurmError):
    """Slurm understood the request and rejected it."""

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
        """The function or JSON path that reported the error."""
        return self.problem.source

    @property
    def text(self) -> str:
        """Slurm's own text."""
        return self.problem.text


class SlurmNotFound(Rejected):
    """slurmctld or slurmdbd says that the object does not exist."""


class SlurmConflict(Rejected):
    """The object exists already, has ended, or was changed meanwhile."""


class Busy(Rejected):
    """Not possible now: nodes are allocated, or a job of higher priority waits for them."""


class Denied(Rejected):
    """The user lacks the permission for the request."""


class SlurmInvalid(Rejected):
    """The request is malformed."""


#: The type of each Slurm error number. A number that is not in this table is a plain `Rejected`.
ERROR_TYPES: dict[int, type[SlurmError]] = {
    -1: SlurmctldUnreachable,  # unspecified: slurmctld went down while it was responding
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
    2010: Denied,  # invalid user id: the response to a user who is not an operator
    2011: SlurmConflict,  # duplicate job id
    2013: Busy,  # a job of higher priority waits
    2015: Busy,  # partition configuration not available now
    2016: Busy,  # requested nodes are busy
    2017: SlurmNotFound,  # invalid job id
    2018: SlurmNotFound,  # invalid node name
    2020: SlurmConflict,  # job cannot be altered now
    2021: SlurmConflict,  # already completing or completed
    2027: SlurmctldUnreachable,  # backup controller in standby mode
    2035: Busy,  # resources too fragmented
    2040: Busy,  # licenses currently unavailable
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

#: Numbers of the operating system for a failed connection; they are not Slurm's.
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

#: Failures before slurmrestd has sent the request, so it was certainly not applied.
NEVER_SENT = frozenset({1001, 1800, 1804, 1805, 2027, 2131, 7000, 7015})


def error_for(problems: Iterable[Problem]) -> SlurmError:
    """The error for these problems; the first known number decides its type.

    If every number is unknown the error is a `Rejected`, never a `SlurmNotFound`.
    """
    entries = tuple(problems) or (Problem(),)
    first = next((problem for problem in entries if problem.number in ERROR_TYPES), entries[0])
    kind = ERROR_TYPES.get(first.number, DatabaseUnreachable if _is_database_connection(first) else Rejected)
    if issubclass(kind, Rejected):
        return kind(first, (problem for problem in entries if problem is not first))
    if issubclass(kind, Retryable):
        return kind(str(first), maybe_applied=first.number not in NEVER_SENT)
    return kind(str(first))


def _is_database_connection(problem: Problem) -> bool:
    """Whether the problem is an operating system error of slurmrestd's connection to slurmdbd."""
    return problem.number in CONNECTION_ERRNOS and problem.source.startswith("slurmdb_")
