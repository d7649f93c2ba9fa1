# SPDX-License-Identifier: Apache-2.0
"""A plot of forecast errors as an SVG: which share of the jobs has at most which error. Pure."""

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 360, 56, 44, 28, 16
COLORS = ("#1f6feb", "#8b949e", "#bf8700")
#: Errors on the axis, in seconds: a minute to two days, logarithmic.
TICKS = ((60, "1 min"), (600, "10 min"), (3600, "1 h"), (6 * 3600, "6 h"), (86400, "1 d"), (2 * 86400, "2 d"))


def error_plot(title: str, errors: Mapping[str, Sequence[float]]) -> str:
    """The plot; `errors` are the absolute errors by the name of the forecast."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="sans-serif" font-size="12"><title>{escape(title)}</title>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="18" font-size="13">{escape(title)}</text>',
    ]
    for seconds, label in TICKS:
        x = _x(seconds)
        parts.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#d0d7de"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{label}</text>')
    for percent in range(0, 101, 25):
        y = _y(percent / 100)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#d0d7de"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{percent} %</text>')
    for index, (name, values) in enumerate(errors.items()):
        color = COLORS[index % len(COLORS)]
        ordered = sorted(values)
        points = " ".join(f"{_x(value):.1f},{_y((rank + 1) / len(ordered)):.1f}" for rank, value in enumerate(ordered))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
        y = HEIGHT - BOTTOM - 12 - 18 * (len(errors) - 1 - index)
        parts.append(f'<text x="{WIDTH - RIGHT - 8}" y="{y}" text-anchor="end" fill="{color}">{escape(name)}</text>')
    label = "absolute error of the forecast at submission"
    parts.append(f'<text x="{(WIDTH + LEFT) // 2}" y="{HEIGHT - 8}" text-anchor="middle">{label}</text></svg>')
    return "\n".join(parts) + "\n"


def _x(seconds: float) -> float:
    low, high = math.log(TICKS[0][0]), math.log(TICKS[-1][0])
    share = (math.log(max(seconds, 1)) - low) / (high - low)
    return LEFT + min(max(share, 0.0), 1.0) * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)
