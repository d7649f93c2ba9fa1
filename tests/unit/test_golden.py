# SPDX-License-Identifier: Apache-2.0
"""Golden files: what is normalised, and that a difference is found."""

from pathlib import Path

import pytest
from tests.support.golden import GoldenFile, normalise


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Job 12 waits for job 123 and 12 CPUs; run `scontrol release 12`.",
         "Job <a> waits for job <b> and 12 CPUs; run `scontrol release <a>`."),
        ("Job 12_4 of the array 12 runs beside job 7.", "Job <a>_4 of the array <a> runs beside job 7."),
        ("JOBID  NAME\n12     x\n123_[0-1]  y\n12 jobs", "JOBID  NAME\n<a>     x\n<b>_[0-1]  y\n12 jobs"),
        ("It ends within 59 min and starts in 1 h 5 min to 2 h.", "It ends within TIME and starts in TIME to TIME."),
        ("drained by root 4 s ago: fan", "drained by root TIME ago: fan"),
        ("The time limit of 1 h exceeds the 10 min.", "The time limit of 1 h exceeds the 10 min."),
        ("It has position 3 of 40 eligible jobs in the queue with priority 7 (computed: age 7).",
         "It has position N of N eligible jobs in the queue with priority N (computed: parts)."),
        ("Expected start: now to in 59 min (simulation).", "Expected start: TIME (SOURCE)."),
        ("Expected start: in 2 h (slurmctld's plan).", "Expected start: TIME (SOURCE)."),
        ("1 earlier, 0 later, 12 unchanged", "1 earlier, 0 later, N unchanged"),
    ],
)  # fmt: skip
def test_what_differs_between_runs_is_replaced(text: str, expected: str) -> None:
    assert normalise(text, {12: "a", 123: "b"}) == expected


def test_a_section_is_written_on_request_and_compared_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden = GoldenFile(tmp_path / "folder" / "golden.txt")
    with pytest.raises(AssertionError, match="section one"):
        golden.check("one", "first\nline")
    monkeypatch.setenv("SLINKY_GOLDEN", "write")
    golden.check("two", "other")
    golden.check("one", "first\nline\n")
    monkeypatch.delenv("SLINKY_GOLDEN")
    golden.check("one", "first\nline")
    assert golden.sections() == {"one": "first\nline", "two": "other"}
    with pytest.raises(AssertionError, match="section one"):
        golden.check("one", "first line")
