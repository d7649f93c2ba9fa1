# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N818 -- errors are named for their meaning, without the suffix Error, as in anyio
"""The errors of this package, by their meaning.

    KubeError
    |- ApiError            the server refused the request
    |  |- BadRequest Unauthorized Forbidden NotFound Conflict AlreadyExists
    |  `- Expired Invalid TooManyRequests ServerError
    |- Unreachable         the server did not answer
    |  `- DeadlineExceeded
    |- Rewound             resource versions decreased: the server was restored from a backup
    |- Unreadable          an object or response cannot be decoded
    |- LeadershipLost      another replica may be the leader
    `- Misconfigured       credentials or settings are unusable

A reconcile raises one of these, or `Later` or `Blocked`; `classify_error` decides what the control loop does next.
"""

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from slinky.observe.errors import ExplainedError


class KubeError(Exception):
    """Base class of the errors of this package."""


class Unreachable(KubeError):
    """No response: connection refused, reset or cut, no route, or TLS failed."""


class DeadlineExceeded(Unreachable):
    """No response in time; the server may still have carried out the request."""


class Unreadable(KubeError):
    """An object or response that cannot be decoded."""


class Misconfigured(KubeError, ExplainedError):
    """Credentials or settings that cannot work; a person must change them."""


class Rewound(KubeError):
    """Resource versions decreased: the server was restored from a backup."""


class LeadershipLost(KubeError, ExplainedError):
    """Another replica may be the leader: this process must stop its work at once."""


class StatusCause(msgspec.Struct, frozen=True, gc=False):
    """One cause of a refusal, such as an invalid field."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The machine-readable details of a refusal."""

    name: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] | None = None
    retry_after_seconds: float = 0


class ApiStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The Status object that the API server returns for an error."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None


class ApiError(KubeError):
    """The server refused the request."""

    def __init__(self, status: ApiStatus, request: str = "", retry_after: float | None = None) -> None:
        super().__init__(f"{request}: {status.code} {status.reason}: {status.message}".removeprefix(": "))
        self.status = status
        self.code = status.code
        self.reason = status.reason
        self.request = request
        self.retry_after = retry_after

    @property
    def causes(self) -> tuple[StatusCause, ...]:
        """The refused fields and the reasons."""
        return (self.status.details and self.status.details.causes) or ()


class BadRequest(ApiError):
    """The server does not understand the request."""


class Unauthorized(ApiError):
    """The server does not accept the credentials."""


class Forbidden(ApiError):
    """The user is not allowed to send this request."""


class NotFound(ApiError):
    """There is no such object or no such kind."""


class Conflict(ApiError):
    """The object has changed, a precondition failed, or another field manager owns a field."""


class AlreadyExists(Conflict):
    """There is already an object of this name."""


class Expired(ApiError):
    """The server no longer has the requested version or page: the list must be read again."""


class Invalid(ApiError):
    """The object violates the schema or a rule of its kind."""


class TooManyRequests(ApiError):
    """The server limits requests; for an eviction: a disruption budget does not allow it now."""


class ServerError(ApiError):
    """The server, or a component behind it, failed."""


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

_status_decoder = msgspec.json.Decoder(ApiStatus)


def api_error(code: int, body: bytes, request: str = "", retry_after: str | None = None) -> ApiError:
    """The error for an HTTP response; a body that is not a Status (the page of a proxy) is quoted."""
    try:
        status = _status_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = ApiStatus()
    if not status.code:
        status = ApiStatus(code=code, message=status.message or body[:200].decode(errors="replace").strip())
    return from_status(status, request, _parse_seconds(retry_after))


def from_status(status: ApiStatus, request: str = "", retry_after: float | None = None) -> ApiError:
    """The error for a Status object, which also occurs inside a watch."""
    if retry_after is None and status.details and status.details.retry_after_seconds:
        retry_after = status.details.retry_after_seconds
    error_type = _BY_CODE.get(status.code, ServerError if status.code >= 500 else ApiError)
    return _BY_REASON.get(status.reason, error_type)(status, request, retry_after)


def _parse_seconds(header: str | None) -> float | None:
    # The API server sends whole seconds. A proxy may send a date, which is ignored.
    return float(header) if header and header.strip().isascii() and header.strip().isdigit() else None


class Later(Exception):
    """Not possible now: reconcile again after `after` seconds, or with back-off if None."""

    def __init__(self, why: str, after: float | None = None) -> None:
        super().__init__(why)
        self.after = after


class Blocked(Exception):
    """A retry cannot help: a person must act, as `hint` explains."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(f"{reason}: {hint}")
        self.reason = reason
        self.hint = hint


class ErrorKind(StrEnum):
    """What has to happen: a retry, an action of a person, or a fix of the program."""

    LATER = "later"
    BLOCKED = "blocked"
    BUG = "bug"


@dataclass(frozen=True)
class ErrorDecision:
    """What the control loop does about an error."""

    kind: ErrorKind
    reason: str
    message: str
    after: float | None = None


# The first match wins. Conflict and NotFound are normal for a reconcile that reads from a cache: it is retried.
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
    """Decide about an error: try later, a person must act, or a bug."""
    kind = next((kind for error_type, kind in _KINDS if isinstance(error, error_type)), ErrorKind.BUG)
    after = error.after if isinstance(error, Later) else getattr(error, "retry_after", None)
    reason = error.reason if isinstance(error, Blocked) else type(error).__name__
    message = error.hint if isinstance(error, Blocked) else str(error) or type(error).__name__
    return ErrorDecision(kind, reason, message, after)
