# SPDX-License-Identifier: Apache-2.0
"""`make compat`: integration tests on API servers of other minor versions, and the table of docs/versions.md.

The API servers are real, of the releases in `slinky.lab.prepare.golang`. There are no nodes: what kubelets do differs
less between versions, and `make test` covers it with one.
"""

import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slinky.lab.prepare.golang import OTHER_RELEASES, other_release

PAGE = Path(__file__).parents[2] / "docs/versions.md"
BEGIN, END = "<!-- make compat -->", "<!-- end of make compat -->"
PARALLEL = ("-q", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
_OPERATOR = "tests/integration/operator/test_"
_BRIDGE = "tests/integration/bridge/test_"


@dataclass(frozen=True)
class CompatPart:
    """A column of the table: test files or folders, which exist from a minor version on."""

    title: str
    paths: tuple[str, ...]
    since: int = 0
    reason: str = ""


PARTS = (
    CompatPart("kinds, webhook, doctor", ("tests/integration/api",)),
    CompatPart("client library", ("tests/integration/kube",)),
    CompatPart(
        "operator",
        tuple(
            f"{_OPERATOR}{name}.py"
            for name in (
                "objects", "worker_objects", "revisions", "conditions", "namespaces", "orphans", "tls",
                "external_metrics", "deletion_order", "upgrades",
            )
        ),
    ),
    CompatPart("charts", ("tests/chart/test_operator_chart.py", "tests/chart/test_slurm_chart.py")),
    CompatPart(
        "bridge",
        tuple(
            f"{_BRIDGE}{name}.py"
            for name in (
                "chart", "scheduling", "pod_lifecycle", "gangs", "devices", "nodes", "placement", "options",
                "outcomes", "hetjobs", "host_ports", "conditions",
            )
        ),
        since=34,
        reason="refused by the chart",
    ),
    CompatPart(
        "native PodGroup",
        (f"{_BRIDGE}native_groups.py", f"{_BRIDGE}option_layers.py"),
        since=36,
        reason="not in this Kubernetes",
    ),
)  # fmt: skip


def parts_of(minor: str) -> list[CompatPart]:
    """The parts that are tested with a minor version."""
    return [part for part in PARTS if part.since <= int(minor.partition(".")[2])]


def run(minor: str) -> dict[str, Counter[str]]:
    """Run the tests of a minor version; outcomes by the title of their part."""
    paths = [path for part in parts_of(minor) for path in part.paths]
    with tempfile.TemporaryDirectory(prefix="slinky-compat-") as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", f"--junitxml={report}", *PARALLEL, *paths]
        subprocess.run(command, env={**os.environ, "SLINKY_KUBE_MINOR": minor}, check=False)
        return outcomes(report.read_text(), parts_of(minor))


def outcomes(report: str, parts: Sequence[CompatPart]) -> dict[str, Counter[str]]:
    """How many tests of each part have passed and failed, by a report in the format of JUnit."""
    counts: dict[str, Counter[str]] = {part.title: Counter() for part in parts}
    for case in ET.fromstring(report).iter("testcase"):  # noqa: S314 -- written by the run above
        module = case.get("classname", "").replace(".", "/")
        title = next(part.title for part in parts if any(_is_in(module, path) for path in part.paths))
        failed = any(case.find(kind) is not None for kind in ("failure", "error", "skipped"))
        counts[title]["failed" if failed else "passed"] += 1
    return counts


def _is_in(module: str, path: str) -> bool:
    return f"{module}/".startswith(f"{path.removesuffix('.py')}/")


def row(minor: str, counts: Mapping[str, Counter[str]]) -> str:
    """A row of the table."""
    cells = [f"{minor} ({other_release(minor).version})"]
    for part in PARTS:
        if part.title not in counts:
            cells.append(part.reason)
        else:
            outcome = counts[part.title]
            failed = f", {outcome['failed']} failed" if outcome["failed"] else ""
            cells.append(f"{outcome['passed']} passed{failed}")
    return f"| {' | '.join(cells)} |"


def with_row(page: str, new: str) -> str:
    """The page with a row of the table added or replaced."""
    head, _, rest = page.partition(BEGIN)
    table, _, tail = rest.partition(END)
    rows = {_minor_of(line): line for line in [*re.findall(r"^\| 1\..*$", table, re.MULTILINE), new]}
    titles = ["Kubernetes", *(part.title for part in PARTS)]
    header = [f"| {' | '.join(titles)} |", "| " + " | ".join("---" for _ in titles) + " |"]
    lines = [*header, *(rows[minor] for minor in sorted(rows))]
    return f"{head}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{tail}"


def _minor_of(line: str) -> str:
    return line.removeprefix("| ").split(" ")[0]


def main(argv: Sequence[str]) -> int:
    """Test each minor version; the exit code is 1 if a test has failed."""
    failed = False
    for minor in argv or OTHER_RELEASES:
        print(f"==> Kubernetes {other_release(minor).version}", flush=True)
        counts = run(minor)
        PAGE.write_text(with_row(PAGE.read_text(), row(minor, counts)))
        failed |= any(outcome["failed"] or not outcome["passed"] for outcome in counts.values())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
