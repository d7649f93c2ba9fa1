# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium of Debian, driven over the DevTools protocol, and axe-core of npm, pinned by its hash."""

import asyncio
import base64
import contextlib
import hashlib
import io
import itertools
import tarfile
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from tests.support.waiting import eventually

from slinky.lab.kubernetes.bare_plane import free_port
from slinky.lab.machine.sandbox import run_in, stream
from slinky.lab.prepare import debian
from slinky.lab.prepare.artifact_cache import Artifact, ArtifactCache
from slinky.lab.progress import Progress

AXE = "https://registry.npmjs.org/axe-core/-/axe-core-4.10.3.tgz"
AXE_SHA256 = "0f2b4d7dcdf7d1219df8d1959ad68e565f51d14c3f0d88bb71cd59abeb956292"
PACKAGES = ("chromium", "fonts-dejavu-core")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
         "--user-data-dir=/tmp/profile", "--disable-background-networking", "--hide-scrollbars")  # fmt: skip


def browser(store: ArtifactCache) -> Artifact:
    """A tree with Chromium, and axe-core beside it."""
    origin = debian.base()

    def build(folder: Path, progress: Progress) -> dict[str, str]:
        tree = folder / "tree"
        stream(["cp", "-a", str(store.require(origin) / "tree"), str(tree)])
        debian.install(tree, PACKAGES, progress, "a browser")
        (folder / "axe.js").write_bytes(_download_axe())
        return debian.versions(tree, ("chromium",))

    return Artifact("browser", "a browser", (origin.key, *PACKAGES, AXE_SHA256), build, gigabytes=1, seconds=120)


def _download_axe() -> bytes:
    with urllib.request.urlopen(AXE, timeout=60) as response:
        content = response.read()
    if hashlib.sha256(content).hexdigest() != AXE_SHA256:
        raise RuntimeError(f"{AXE} does not have the expected hash")
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read()


class Tab:
    """One page of the browser; it records what the content security policy or a script reports."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.loaded = asyncio.Event()
        self.complaints: list[str] = []

    async def listen(self) -> None:
        """Pass answers and events on until the browser closes."""
        async for message in self._socket:
            event = msgspec.json.decode(message.data)
            method, params = event.get("method"), event.get("params", {})
            if "id" in event:
                self._answers.pop(event["id"]).set_result(event)
            elif method == "Page.loadEventFired":
                self.loaded.set()
            elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
                self.complaints.append(params["entry"]["text"])
            elif method == "Runtime.exceptionThrown":
                self.complaints.append(str(params["exceptionDetails"].get("exception", params)))

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_str(msgspec.json.encode({"id": number, "method": method, "params": params}).decode())
        async with asyncio.timeout(120):
            result = await answer
        if "error" in result:
            raise RuntimeError(f"{method}: {result['error']}")
        return dict(result["result"])

    async def open(self, address: str) -> None:
        """Load a page."""
        self.loaded.clear()
        await self.call("Page.navigate", url=address)
        async with asyncio.timeout(120):
            await self.loaded.wait()

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression; a promise is awaited."""
        result = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    async def use(self, theme: str, width: int = 1280, height: int = 900) -> None:
        """Choose the theme and the size of the window."""
        await self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    async def press(self, key: str, code: int) -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    async def screenshot(self, file: Path) -> int:
        """Write what the window shows; returns the size in bytes."""
        result = await self.call("Page.captureScreenshot", format="png")
        return await asyncio.to_thread(file.write_bytes, base64.b64decode(result["data"]))


@contextlib.asynccontextmanager
async def open_tab(folder: Path) -> AsyncIterator[Tab]:
    """A tab of a browser of its own, which ends with the context."""
    port = free_port()
    # The pipe keeps the shell as the first process of the namespace: Chromium itself fails as process 1.
    script = ["sh", "-c", 'chromium "$@" | cat', "sh"]
    argv = [*script, *FLAGS, f"--remote-debugging-port={port}", "about:blank"]
    running = asyncio.create_task(asyncio.to_thread(run_in, folder / "tree", argv))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        target = await eventually(lambda: _find_target(session), "the browser")
        async with session.ws_connect(target, max_msg_size=0) as socket:
            tab = Tab(socket)
            listening = asyncio.create_task(tab.listen())
            try:
                for domain in ("Page", "Runtime", "Log"):
                    await tab.call(f"{domain}.enable")
                yield tab
            finally:
                with contextlib.suppress(Exception):
                    await tab.call("Browser.close")
                await running
                listening.cancel()


async def _find_target(session: aiohttp.ClientSession) -> str | None:
    try:
        async with session.get("/json/list") as response:
            pages = [entry for entry in await response.json() if entry["type"] == "page"]
            return str(pages[0]["webSocketDebuggerUrl"]) if pages else None
    except aiohttp.ClientError:
        return None
