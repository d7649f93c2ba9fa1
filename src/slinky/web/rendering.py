# SPDX-License-Identifier: Apache-2.0
"""Renders pages for viewers and keeps what was rendered until the data changes."""

from slinky.web.markup import Html, tag
from slinky.web.page_data import PageData
from slinky.web.pages.frame import PageContext, live_region, whole_page
from slinky.web.site import PageNotFound, RenderedPage, render_page
from slinky.web.visibility import Visibility, restrict

#: Kept results: restricted data by what a viewer sees, and pages by address.
CACHE_SIZE = 512


class Renderer:
    """Pages of the current data. Viewers who see the same share what was rendered."""

    def __init__(self) -> None:
        self._serial = -1
        self._restricted: dict[Visibility, PageData] = {}
        self._pages: dict[tuple[Visibility, str], RenderedPage] = {}

    def page(self, data: PageData, sees: Visibility, address: str) -> RenderedPage:
        """One page. Raises `PageNotFound`."""
        if data.serial != self._serial:
            self._serial = data.serial
            self._restricted.clear()
            self._pages.clear()
        key = sees, address
        page = self._pages.get(key)
        if page is None:
            if len(self._pages) >= CACHE_SIZE:
                self._pages.clear()
            page = self._pages[key] = render_page(self._restrict(data, sees), address)
        return page

    def document(self, data: PageData, sees: Visibility, address: str, context: PageContext) -> Html:
        """One page with its frame. Raises `PageNotFound`."""
        page = self.page(data, sees, address)
        return whole_page(page.title, page.form, live_region(page.content, data), data, context)

    def region(self, data: PageData, sees: Visibility, address: str) -> bytes:
        """What live updates replace on a page. A job that is gone leaves a sentence."""
        try:
            content = self.page(data, sees, address).content
        except PageNotFound as error:
            content = tag("p", str(error), class_="notice")
        return live_region(content, data).encode()

    def _restrict(self, data: PageData, sees: Visibility) -> PageData:
        if sees not in self._restricted:
            if len(self._restricted) >= CACHE_SIZE:
                self._restricted.clear()
            self._restricted[sees] = restrict(data, sees)
        return self._restricted[sees]
