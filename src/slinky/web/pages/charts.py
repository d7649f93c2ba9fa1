# SPDX-License-Identifier: Apache-2.0
"""Bars and lines as SVG. Each has a text alternative, and colours are classes of the style sheet. Pure."""

from collections.abc import Mapping

from slinky.web.markup import Html, tag
from slinky.web.views.nodes import HostCondition
from slinky.web.views.timeline import WIDTH, Timeline


def stacked_bar(counts: Mapping[HostCondition, int], label: str) -> Html:
    """Nodes by condition as one bar, with its numbers as text below."""
    total = sum(counts.values()) or 1
    parts, left = [], 0.0
    for kind, count in counts.items():
        width = round(100 * count / total, 2)
        shape = tag(
            "rect", tag("title", f"{count} {kind.value}"), x=left, y=0, width=width, height=8, class_=kind.value
        )
        parts.append(shape)
        left += width
    text = ", ".join(f"{count} {kind.value}" for kind, count in counts.items()) or "no nodes"
    return tag(
        "svg", parts, viewBox="0 0 100 8", preserveAspectRatio="none", class_="bar", role="img",
        aria_label=f"{label}: {text}",
    )  # fmt: skip


def legend(counts: Mapping[HostCondition, int]) -> Html:
    """The numbers of a bar, with their colours."""
    return tag(
        "ul",
        (tag("li", tag("span", class_=f"key {kind.value}"), f"{count} {kind.value}") for kind, count in counts.items()),
        class_="legend",
    )


def use_bar(used: float, total: float, label: str) -> Html:
    """How much of something is in use."""
    ratio = min(used / total, 1.0) if total else 0.0
    level = "full" if ratio >= 0.95 else "high" if ratio >= 0.8 else "normal"
    return tag(
        "svg",
        tag("rect", x=0, y=0, width=100, height=8, class_="track"),
        tag("rect", x=0, y=0, width=round(100 * ratio, 2), height=8, class_=f"use {level}"),
        viewBox="0 0 100 8", preserveAspectRatio="none", class_="bar", role="img",
        aria_label=f"{label}: {100 * ratio:.0f} % in use",
    )  # fmt: skip


def timeline_chart(timeline: Timeline) -> Html | None:
    """The line of a job; None if there is nothing to draw."""
    if not timeline.segments:
        return None
    shapes = [
        tag(
            "rect", tag("title", segment.phase.value), x=segment.left, y=6, width=segment.width, height=24,
            class_=f"phase {segment.phase.name.lower().replace('_', '-')}",
        )
        for segment in timeline.segments
    ]  # fmt: skip
    now = tag("line", x1=timeline.now, x2=timeline.now, y1=0, y2=36, class_="now")
    phases = list(dict.fromkeys(segment.phase for segment in timeline.segments))
    keys = (
        tag("li", tag("span", class_=f"key phase-key {phase.name.lower().replace('_', '-')}"), phase.value)
        for phase in phases
    )
    label = f"Times of the job: {', '.join(phase.value for phase in phases)}"
    chart = tag(
        "svg", shapes, now, viewBox=f"0 0 {WIDTH:.0f} 36", preserveAspectRatio="none", class_="timeline", role="img",
        aria_label=label,
    )  # fmt: skip
    return tag("figure", chart, tag("ul", keys, class_="legend"))
