# SPDX-License-Identifier: Apache-2.0
"""Logins with a Kubernetes token: the API server reviews the token, and a cookie stands for it for a while.

The cookie has a random number and no token. A session ends after an hour, with the process, or when many others come.
"""

import hashlib
import secrets
from dataclasses import dataclass

import msgspec

from slinky.bounds import SESSIONS_MAX
from slinky.kube import KubeClient, KubeError
from slinky.kube.metrics_auth import ReviewedUser, TokenReview
from slinky.observe import Clock, Log
from slinky.web.login import LoginRefused, LoginRules
from slinky.web.visibility import Viewer

log = Log("slinky.web.token_login")

COOKIE = "slinky-session"
SESSION_SECONDS = 3600.0
#: Seconds for which the review of a token in a header counts.
REVIEW_SECONDS = 60.0
_REVIEW_PATH = "/apis/authentication.k8s.io/v1/tokenreviews"


@dataclass(frozen=True)
class _Session:
    viewer: Viewer
    ends: float


class TokenLogin:
    """Reviews tokens and keeps the sessions of those who are logged in."""

    def __init__(self, client: KubeClient, rules: LoginRules, clock: Clock) -> None:
        self._client, self._rules, self._clock = client, rules, clock
        self._sessions: dict[str, _Session] = {}

    async def open_session(self, token: str) -> str:
        """The cookie of a new session for a token. Raises `LoginRefused`."""
        viewer = await self._review(token)
        cookie = secrets.token_urlsafe(32)
        self._keep(cookie, viewer, SESSION_SECONDS)
        return cookie

    def close_session(self, cookie: str) -> None:
        """End a session."""
        self._sessions.pop(cookie, None)

    def viewer_of_cookie(self, cookie: str) -> Viewer | None:
        """The viewer of a session; None if there is no such session any more."""
        session = self._sessions.get(cookie)
        return session.viewer if session is not None and session.ends > self._clock.monotonic() else None

    async def viewer_of_header(self, authorization: str) -> Viewer | None:
        """The viewer of an `Authorization` header; None if it has no token. Raises `LoginRefused`."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return None
        key = f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"
        viewer = self.viewer_of_cookie(key)
        if viewer is None:
            viewer = await self._review(token.strip())
            self._keep(key, viewer, REVIEW_SECONDS)
        return viewer

    async def _review(self, token: str) -> Viewer:
        if not token:
            raise LoginRefused(401, "There is no token.")
        spec = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        try:
            body = await self._client.send("POST", _REVIEW_PATH, body=msgspec.json.encode(spec))
        except (KubeError, TimeoutError) as error:
            log.warning("a login is refused: the API server cannot review the token", error=error)
            raise LoginRefused(503, "the API server cannot be asked who you are; try again later") from error
        status = msgspec.json.decode(body, type=TokenReview).status
        if not status.authenticated:
            raise LoginRefused(401, "Kubernetes does not accept this token")
        user: ReviewedUser = status.user
        return self._rules.viewer_of_name(user.username, user.groups)

    def _keep(self, key: str, viewer: Viewer, seconds: float) -> None:
        now = self._clock.monotonic()
        if len(self._sessions) >= SESSIONS_MAX:
            self._sessions = {name: session for name, session in self._sessions.items() if session.ends > now}
        while len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[key] = _Session(viewer, now + seconds)
