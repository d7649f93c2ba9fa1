# SPDX-License-Identifier: Apache-2.0
"""The HTTP server of the page: who calls, which page, security headers, live updates, static files."""

import asyncio
import contextlib
import hashlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import resources
from urllib.parse import urlsplit

from aiohttp import web

from slinky.bounds import LOGIN_BYTES_MAX
from slinky.observe import Log
from slinky.web.cluster_feed import ClusterFeed
from slinky.web.live import LivePages
from slinky.web.login import LoginRefused, LoginRules
from slinky.web.markup import Html
from slinky.web.pages.frame import PageContext, message_page
from slinky.web.pages.login import login_page
from slinky.web.rendering import Renderer
from slinky.web.site import PageNotFound
from slinky.web.token_login import COOKIE, SESSION_SECONDS, TokenLogin
from slinky.web.visibility import Viewer, visibility

log = Log("slinky.web.server")

#: Nothing is loaded from elsewhere, no inline script or style runs, and no other site may embed the page.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "
        "require-trusted-types-for 'script'; trusted-types slinky"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
STATIC_TYPES = {"style.css": "text/css", "live.js": "text/javascript"}
#: Seconds after which a stream sends a comment, so that proxies keep it open, and after which it ends.
HEARTBEAT_SECONDS, STREAM_SECONDS = 15.0, 3600.0
#: Requests that need no login.
OPEN_REQUESTS = frozenset({("POST", "/login"), ("GET", "/static/style.css"), ("GET", "/static/live.js")})
VIEWER = web.RequestKey("viewer", Viewer)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PageServer:
    """Serves the pages of one cluster."""

    def __init__(self, feed: ClusterFeed, rules: LoginRules, tokens: TokenLogin | None = None) -> None:
        self._feed, self._rules, self._tokens = feed, rules, tokens
        self._renderer = Renderer()
        self._live = LivePages(self._renderer.region)
        self._static = {name: _read_static(name) for name in STATIC_TYPES}
        feed.on_publish(self._live.publish)

    def application(self) -> web.Application:
        """The routes of the page."""
        app = web.Application(middlewares=[self._secure], client_max_size=LOGIN_BYTES_MAX)
        app.add_routes(
            [
                web.get("/live", self._stream),
                web.get("/static/{name}", self._send_static),
                web.post("/login", self._log_in),
                web.post("/logout", self._log_out),
                web.get("/{path:.*}", self._show),
            ]
        )
        return app

    # --- every request

    @web.middleware
    async def _secure(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Find the viewer, and set the security headers of every response."""
        try:
            if (request.method, request.path) not in OPEN_REQUESTS:
                request[VIEWER] = await self._viewer(request)
            response = await handler(request)
        except LoginRefused as refusal:
            response = self._refuse(request, refusal)
        except web.HTTPException as error:
            response = self._message(request, error.status, error.reason, "The request cannot be answered.")
        if not response.prepared:
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
        return response

    async def _viewer(self, request: web.Request) -> Viewer:
        viewer = self._rules.viewer_of_headers(request.remote or "", request.headers)
        if viewer is None and self._tokens is not None:
            viewer = await self._tokens.viewer_of_header(request.headers.get("Authorization", ""))
            viewer = viewer or self._tokens.viewer_of_cookie(request.cookies.get(COOKIE, ""))
        if viewer is None:
            raise LoginRefused(401, "You are not logged in.")
        return viewer

    def _refuse(self, request: web.Request, refusal: LoginRefused) -> web.Response:
        if refusal.status == 401 and self._tokens is not None and request.path != "/live":
            target = request.path_qs if request.method == "GET" else "/"
            return _html(login_page(refusal.why, target, self._context(request)), 401)
        return self._message(request, refusal.status, "Not allowed", f"{refusal.why}.".replace("..", "."))

    # --- pages

    async def _show(self, request: web.Request) -> web.Response:
        data, viewer = self._feed.data, request[VIEWER]
        if data is None:
            text = "Slurm has not been read yet. Try again in some seconds."
            fault = f"Slurm cannot be reached. {self._feed.fault}" if self._feed.fault else text
            return self._message(request, 503, "Not ready", fault)
        try:
            page = self._renderer.document(data, visibility(viewer, data), request.path_qs, self._context(request))
        except PageNotFound as error:
            return self._message(request, 404, "Not found", str(error))
        return _html(page)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        """Send the live region of one page whenever it has changed."""
        if self._live.full:
            return web.Response(status=503, text="too many pages are open\n")
        response = web.StreamResponse(
            headers={**HEADERS, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        )
        await response.prepare(request)
        live = self._live.opened(request[VIEWER], request.query.get("address", "/"))
        with live as page, contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(STREAM_SECONDS):
                while True:
                    await response.write(await _next_event(page.next))
        return response

    async def _send_static(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self._static:
            raise web.HTTPNotFound
        headers = {"Cache-Control": "public, max-age=86400"} if request.query else {}
        return web.Response(
            body=self._static[name][0], content_type=STATIC_TYPES[name], charset="utf-8", headers=headers
        )

    # --- logins

    async def _log_in(self, request: web.Request) -> web.Response:
        _require_same_site(request)
        if self._tokens is None:
            raise web.HTTPNotFound
        form = await request.post()
        try:
            cookie = await self._tokens.open_session(str(form.get("token", "")).strip())
        except LoginRefused as refusal:
            page = login_page(refusal.why, _local_target(str(form.get("target", "/"))), self._context(request))
            return _html(page, refusal.status)
        response = web.Response(status=303, headers={"Location": _local_target(str(form.get("target", "/")))})
        secure = request.secure or request.headers.get("X-Forwarded-Proto") == "https"
        response.set_cookie(
            COOKIE, cookie, max_age=int(SESSION_SECONDS), httponly=True, samesite="Strict", secure=secure
        )
        return response

    async def _log_out(self, request: web.Request) -> web.Response:
        _require_same_site(request)
        if self._tokens is not None:
            self._tokens.close_session(request.cookies.get(COOKIE, ""))
        response = web.Response(status=303, headers={"Location": "/"})
        response.del_cookie(COOKIE)
        return response

    # --- parts of responses

    def _context(self, request: web.Request) -> PageContext:
        viewer = request.get(VIEWER)
        return PageContext(
            path=request.path,
            user=viewer.user if viewer else "",
            can_log_out=self._tokens is not None and COOKIE in request.cookies,
            style=f"/static/style.css?{self._static['style.css'][1]}",
            script=f"/static/live.js?{self._static['live.js'][1]}",
        )

    def _message(self, request: web.Request, status: int, title: str, text: str) -> web.Response:
        return _html(message_page(title, text, self._context(request)), status)


@contextlib.asynccontextmanager
async def serve_page(server: PageServer, host: str, port: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve while the context is open. Yields the port, which the system chooses if `port` is 0."""
    runner = web.AppRunner(server.application(), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def _next_event(read: Callable[[], Awaitable[bytes]]) -> bytes:
    """The next event, or a comment if there is none for a while."""
    try:
        async with asyncio.timeout(HEARTBEAT_SECONDS):
            return await read()
    except TimeoutError:
        return b": nothing has changed\n\n"


def _html(page: Html, status: int = 200) -> web.Response:
    return web.Response(text=page, status=status, content_type="text/html")


def _read_static(name: str) -> tuple[bytes, str]:
    """The content of a file and a version for its address."""
    content = resources.files("slinky.web").joinpath("static", name).read_bytes()
    return content, hashlib.sha256(content).hexdigest()[:12]


def _local_target(target: str) -> str:
    """An address of this site; the first page for any other."""
    parts = urlsplit(target)
    is_local = target.startswith("/") and not target.startswith(("//", "/\\")) and not parts.scheme and not parts.netloc
    return target if is_local and target.isprintable() else "/"


def _require_same_site(request: web.Request) -> None:
    """Refuse a form that another site has sent."""
    origin, site = request.headers.get("Origin", ""), request.headers.get("Sec-Fetch-Site", "")
    if site not in {"", "same-origin", "none"} or (origin and urlsplit(origin).netloc != request.host):
        raise LoginRefused(403, "the form was sent by another site")
