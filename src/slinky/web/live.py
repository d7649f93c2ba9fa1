# SPDX-License-Identifier: Apache-2.0
"""Live updates by server-sent events.

Equal pages of viewers who see the same are rendered once for each publication and sent to all of them. A browser that
reads slowly gets the latest state and skips those between.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec

from slinky.bounds import LIVE_PAGES_MAX
from slinky.web.page_data import PageData
from slinky.web.visibility import Viewer, Visibility, visibility

#: Renders the live region of a page: data, what the viewer sees, path and query.
#: The page whose content costs too much to be computed again whenever the cluster changes.
FIXED_PAGE = "/whatif"

Render = Callable[[PageData, Visibility, str], bytes]


@dataclass(eq=False)
class LivePage:
    """One open page: its viewer, its address, and the latest state that was not sent yet."""

    viewer: Viewer
    address: str
    latest: bytes = b""
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    def offer(self, content: bytes) -> None:
        """Send this state next, unless it is the one that was sent last."""
        if content != self.latest:
            self.latest = content
            self.ready.set()

    async def next(self) -> bytes:
        """The next state to send."""
        await self.ready.wait()
        self.ready.clear()
        return self.latest


class LivePages:
    """Every open page."""

    def __init__(self, render: Render) -> None:
        self._render = render
        self._pages: set[LivePage] = set()

    @property
    def full(self) -> bool:
        """Whether no further page can be live."""
        return len(self._pages) >= LIVE_PAGES_MAX

    @contextlib.contextmanager
    def opened(self, viewer: Viewer, address: str) -> Iterator[LivePage]:
        """A page that is live while the context is open."""
        page = LivePage(viewer, address)
        self._pages.add(page)
        try:
            yield page
        finally:
            self._pages.discard(page)

    async def publish(self, data: PageData) -> None:
        """Offer new data to every open page."""
        sees: dict[Viewer, Visibility] = {}
        contents: dict[tuple[Visibility, str], bytes] = {}
        for page in tuple(self._pages):
            if page.address.startswith(FIXED_PAGE):
                continue
            if page.viewer not in sees:
                sees[page.viewer] = visibility(page.viewer, data)
            key = sees[page.viewer], page.address
            if key not in contents:
                contents[key] = encode_event(self._render(data, *key))
                await asyncio.sleep(0)  # other requests get a turn between two pages
            page.offer(contents[key])


def encode_event(content: bytes) -> bytes:
    """A server-sent event; JSON has no line breaks, which would end the event."""
    return b"event: page\ndata: " + msgspec.json.encode(content.decode()) + b"\n\n"
