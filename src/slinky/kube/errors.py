# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N818 -- errors are named for what they mean, as anyio does
"""Everything that can go wrong, by what it means.

    KubeError
    |- ApiError            the server answered, and said no
    |  |- BadRequest Unauthorized Forbidden NotFound Conflict AlreadyExists
    |  `- Expired Invalid TooManyRequests ServerError
    |- Unreachable         the server did not answer
    |  `- DeadlineExceeded
    |- Rewound             it went back in time
    |- Unreadable          it answered something we cannot decode
    |- LeadershipLost      another replica may lead by now
    `- Misconfigured       our own credentials or settings are unusable

A reconcile raises these, or one of the two decisions `Later` and `Blocked`; `verdict` turns any of them into
what a controller does next.
"""

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from slinky.observe.process import ExplainedError


class KubeError(Exception):
    """Parent of all errors of this package."""


class Unreachable(KubeError):
    """No answer: refused, reset, cut, no route, bad TLS."""


class DeadlineExceeded(Unreachable):
    """No answer in time; the request may still have been carried out."""


class Unreadable(KubeError):
    """An object or answer of a shape we do not understand."""


class Misconfigured(KubeError, ExplainedError):
    """Credentials or settings that cannot work, whatever the server does."""


class Rewound(KubeError):
    """Versions run backwards: the server was restored from a backup."""


class LeadershipLost(KubeError, ExplainedError):
    """Another replica may lead by now: stop at once."""


class StatusCause(msgspec.Struct, frozen=True, gc=False):
    """One detail of a refused object."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Machine-readable part of a refusal."""

    name: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] | None = None
    retry_after_seconds: float = 0


class ApiStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The API server's own error object."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None


class ApiError(KubeError):
    """The server answered, and said no."""

    def __init__(self, status: ApiStatus, request: str = "", retry_after: float | None = None) -> None:
        super().__init__(f"{request}: {status.code} {status.reason}: {status.message}".removeprefix(": "))
        self.status = status
        self.code = status.code
        self.reason = status.reason
        self.request = request
        self.retry_after = retry_after

    @property
    def causes(self) -> tuple[StatusCause, ...]:
        """Which fields were refused and why."""
        return (self.status.details and self.status.details.causes) or ()


class BadRequest(ApiError):
    """The request makes no sense to this server."""


class Unauthorized(ApiError):
    """The server does not know who we are."""


class Forbidden(ApiError):
    """The server knows who we are, and we may not."""


class NotFound(ApiError):
    """There is no such object, or no such kind."""


class Conflict(ApiError):
    """The object is not what we thought it was, or another field manager owns the field."""


class AlreadyExists(Conflict):
    """The name is taken."""


class Expired(ApiError):
    """The history or the page we asked for is no longer kept: list again."""


class Invalid(ApiError):
    """The object breaks a rule of its kind."""


class TooManyRequests(ApiError):
    """Slow down; for an eviction: a disruption budget says not now."""


class ServerError(ApiError):
    """The server, or something behind it, failed."""


_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooManyRequests,
}
_BY_REASON: dict[str, type[ApiError]] = {"AlreadyExists": AlreadyExists, "Expired": Expired, "Gone": Expired}

_status = msgspec.json.Decoder(ApiStatus)


def api_error(code: int, body: bytes, request: str = "", retry_after: str | None = None) -> ApiError:
    """The error an HTTP answer stands for; a body that is no Status (a proxy's page) is quoted."""
    try:
        status = _status.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = ApiStatus()
    if not status.code:
        status = ApiStatus(code=code, message=status.message or body[:200].decode(errors="replace").strip())
    return from_status(status, request, _seconds(retry_after))


def from_status(status: ApiStatus, request: str = "", retry_after: float | None = None) -> ApiError:
    """The error a Status object stands for, as it also comes inside a watch."""
    if retry_after is None and status.details and status.details.retry_after_seconds:
        retry_after = status.details.retry_after_seconds
    family = _BY_CODE.get(status.code, ServerError if status.code >= 500 else ApiError)
    return _BY_REASON.get(status.reason, family)(status, request, retry_after)


def _seconds(header: str | None) -> float | None:
    # The API server sends whole seconds; a proxy may send a date, which is as good as nothing.
    return float(header) if header and header.strip().isascii() and header.strip().isdigit() else None


class Later(Exception):
    """Not possible now; look again after `after` seconds, or after the usual back-off."""

    def __init__(self, why: str, after: float | None = None) -> None:
        super().__init__(why)
        self.after = after


class Blocked(Exception):
    """Nothing we repeat will help; `hint` tells a person what will."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(f"{reason}: {hint}")
        self.reason = reason
        self.hint = hint


class ErrorKind(StrEnum):
    """The three kinds of error."""

    LATER = "later"
    BLOCKED = "blocked"
    BUG = "bug"


@dataclass(frozen=True)
class ErrorDecision:
    """What an error means for whoever was reconciling."""

    kind: ErrorKind
    reason: str
    message: str
    after: float | None = None


# First match wins. Conflict and NotFound are ordinary weather for a reconcile that works from a cache: look
# again.
_KINDS: tuple[tuple[type[BaseException], ErrorKind], ...] = (
    (Later, ErrorKind.LATER),
    (Blocked, ErrorKind.BLOCKED),
    (Conflict, ErrorKind.LATER),
    (NotFound, ErrorKind.LATER),
    (Expired, ErrorKind.LATER),
    (TooManyRequests, ErrorKind.LATER),
    (ServerError, ErrorKind.LATER),
    (Unauthorized, ErrorKind.LATER),
    (Unreachable, ErrorKind.LATER),
    (TimeoutError, ErrorKind.LATER),
    (Forbidden, ErrorKind.BLOCKED),
    (Invalid, ErrorKind.BLOCKED),
    (Unreadable, ErrorKind.BLOCKED),
    (Misconfigured, ErrorKind.BLOCKED),
)


def classify_error(error: BaseException) -> ErrorDecision:
    """Try later, a person must act, or a bug."""
    kind = next((kind for family, kind in _KINDS if isinstance(error, family)), ErrorKind.BUG)
    after = error.after if isinstance(error, Later) else getattr(error, "retry_after", None)
    reason = error.reason if isinstance(error, Blocked) else type(error).__name__
    message = error.hint if isinstance(error, Blocked) else str(error) or type(error).__name__
    return ErrorDecision(kind, reason, message, after)
