# SPDX-License-Identifier: Apache-2.0
"""A small SVG writer: boxes, arrows, texts and bars, readable on light and on dark pages."""

from dataclasses import dataclass, field
from xml.sax.saxutils import escape

_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2933 }
.small { font-size: 11px; fill: #52606d }
.strong { font-weight: 600 }
.page { fill: #ffffff; stroke: #cbd2d9 }
.area { fill: #f5f7fa; stroke: #9aa5b1; stroke-dasharray: 4 3 }
.ours { fill: #e3f2e8; stroke: #3f9142 }
.other { fill: #ffffff; stroke: #7b8794 }
.arrow { stroke: #52606d; fill: none }
.head { fill: #52606d }
.bar { fill: #3f9142 }
.limit { stroke: #ba2525 }
@media (prefers-color-scheme: dark) {
text { fill: #e4e7eb }
.small { fill: #cbd2d9 }
.page { fill: #1f2933; stroke: #52606d }
.area { fill: #273340; stroke: #7b8794 }
.ours { fill: #1f4a2c; stroke: #7bc47f }
.other { fill: #323f4b; stroke: #9aa5b1 }
.arrow { stroke: #cbd2d9 }
.head { fill: #cbd2d9 }
.bar { fill: #57ae5b }
.limit { stroke: #ef8e8e }
}
"""


@dataclass
class Drawing:
    """Elements on a page of a size; `title` is read to people who do not see the picture."""

    width: int
    height: int
    title: str
    elements: list[str] = field(default_factory=list)

    def box(self, x: int, y: int, width: int, height: int, style: str) -> None:
        """Draw a rectangle."""
        self.elements.append(f'<rect class="{style}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>')

    def text(self, x: int, y: int, text: str, style: str = "", anchor: str = "start") -> None:
        """Draw one line of text."""
        self.elements.append(f'<text class="{style}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>')

    def arrow(self, *points: tuple[int, int]) -> None:
        """Draw a line through points, with a head at its end."""
        path = " ".join(f"{x},{y}" for x, y in points)
        self.elements.append(f'<polyline class="arrow" points="{path}" marker-end="url(#head)"/>')

    def line(self, x: int, y: int, bottom: int, style: str) -> None:
        """Draw a vertical line."""
        self.elements.append(f'<line class="{style}" x1="{x}" y1="{y}" x2="{x}" y2="{bottom}"/>')

    def render(self) -> str:
        """The picture as SVG."""
        marker = (
            '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto-start-reverse"><path class="head" d="M0 0 L8 4 L0 8 z"/></marker>'
        )
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" role="img">'
        )
        page = f'<rect class="page" x="0.5" y="0.5" width="{self.width - 1}" height="{self.height - 1}" rx="8"/>'
        parts = [
            head,
            f"<title>{escape(self.title)}</title>",
            f"<style>{_STYLE}</style>",
            f"<defs>{marker}</defs>",
            page,
        ]
        return "\n".join([*parts, *self.elements, "</svg>", ""])
