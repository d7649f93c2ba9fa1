# SPDX-License-Identifier: Apache-2.0
"""Golden files: the expected output of a command, in sections that each have a name.

`SLINKY_GOLDEN=write pytest FILE` writes the sections of the tests that run; read the difference before you commit it.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

#: A duration as `slinky.insight.plain_text.duration` writes it.
_DURATION = r"\d+ (?:d|h|min|s)\b(?: \d+ (?:h|min)\b)?"
#: The id of a job: after a word that announces it, or in the first column of a table.
_JOB = re.compile(r"(\b[Jj]ob |JobId=|release |scancel |-j |array |^(?=\d+(?:  |_)))(\d+)", re.MULTILINE)
_MARK = "=== "


class GoldenFile:
    """A file with one section per case."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def check(self, name: str, text: str) -> None:
        """Compare a text with its section, or write the section if that is asked for."""
        sections = self.sections()
        if os.environ.get("SLINKY_GOLDEN") == "write":
            self._write(sections | {name: text.strip()})
            return
        assert text.strip() == sections.get(name), f"section {name} of {self._path.name}"

    def sections(self) -> dict[str, str]:
        """The texts by the names of their sections."""
        if not self._path.exists():
            return {}
        parts = re.split(rf"^{_MARK}(.+)\n", self._path.read_text(), flags=re.MULTILINE)
        return {name: text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)}

    def _write(self, sections: Mapping[str, str]) -> None:
        self._path.parent.mkdir(exist_ok=True)
        self._path.write_text("\n\n".join(f"{_MARK}{name}\n{text}" for name, text in sorted(sections.items())) + "\n")


def normalise(text: str, names: Mapping[int, str]) -> str:
    """The text without what differs between runs: ids of jobs become names, times and priorities become words."""
    text = _JOB.sub(lambda match: f"{match[1]}{_title(match[2], names)}", text)
    text = re.sub(rf"\b(in|within|another|If|to) {_DURATION}(?! (?:exceeds|that))", r"\1 TIME", text)
    text = re.sub(rf"{_DURATION} (ago|earlier|later|are enough)", r"TIME \1", text)
    text = re.sub(rf"(RUNNING +){_DURATION}", r"\1TIME", text)
    text = re.sub(r"\d+ are taken", "N are taken", text)
    text = re.sub(r"TimeLimit=\d+(?=`: the job then fits)", "TimeLimit=N", text)
    text = re.sub(r"position \d+ of \d+ eligible jobs?", "position N of N eligible jobs", text)
    text = re.sub(r"priority \d+(?: \(computed: [^)]*\))?", "priority N (computed: parts)", text)
    text = re.sub(r"\d+ unchanged", "N unchanged", text)
    # Whether slurmctld has a plan depends on its first backfill cycle.
    text = text.replace("; slurmctld's plan (in TIME) does not consider this", "")
    return re.sub(
        r"(in TIME(?: to TIME)?|now(?: to in TIME)?) \((?:simulation|slurmctld's plan)\)", "TIME (SOURCE)", text
    )


def _title(job: str, names: Mapping[int, str]) -> str:
    return f"<{names[int(job)]}>" if int(job) in names else job
