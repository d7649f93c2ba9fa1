# SPDX-License-Identifier: Apache-2.0
"""Renders the tables of reasons for `docs/bridge/reasons.md`."""

import re

from slinky.bridge import names
from slinky.bridge.status.job_ends import ENDS, LOST, MOVED
from slinky.bridge.status.reasons import Reason, ReasonRow, Subject
from slinky.bridge.status.rejections import REJECTIONS
from slinky.insight import pending_reasons


def render_tables() -> str:
    """The tables as Markdown."""
    parts = [
        ("Pending reasons of Slurm", pending_reasons.render_table()),
        ("Reasons of the bridge on pods", _table("| reason | message | event |", _reason_rows(Subject.POD))),
        ("Reasons of the bridge on nodes", _table("| reason | message | event |", _reason_rows(Subject.NODE))),
        ("Rejected submissions", _table("| error | meaning | next step |", _rejection_rows())),
        (
            "Ends of jobs",
            _table(
                f"| job state | reason on the pod | pod without a node is submitted again "
                f"| running pod gets `{names.ENDED}` |",
                _end_rows(),
            ),
        ),
    ]
    return "\n".join(f"## {title}\n\n{table}\n" for title, table in parts)


def _table(header: str, rows: list[str]) -> str:
    return "\n".join([header, "|" + " --- |" * (header.count("|") - 1), *rows])


def _reason_rows(subject: Subject) -> list[str]:
    rows = sorted((r.value for r in Reason if r.value.subject is subject), key=lambda row: row.token)
    return [f"| `{row.token}` | {_shown(f'{row.sentence} {row.step}')} | {_effect(row)} |" for row in rows]


def _effect(row: ReasonRow) -> str:
    return f"{row.severity.value}; the pod ends" if row.ends_pod else row.severity.value


def _shown(template: str) -> str:
    """A template for readers: placeholders in italics."""
    return re.sub(r"\{(\w+)\}", r"*\1*", template).strip()


def _rejection_rows() -> list[str]:
    return [f"| {number} | {item.sentence} | {item.step} |" for number, item in sorted(REJECTIONS.items())]


def _end_rows() -> list[str]:
    ends = (*ENDS.items(), ("unknown to Slurm", LOST), ("started on other nodes", MOVED))
    return [
        f"| {state} | `{end.reason}` | {'no' if end.deliberate else 'yes'} | {'yes' if end.final else 'no'} |"
        for state, end in ends
    ]
