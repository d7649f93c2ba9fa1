# SPDX-License-Identifier: Apache-2.0
from slinky.lab.demo.elastic import change_rows


def test_changes_are_shown_from_the_first_to_the_latest() -> None:
    status = {
        "decisions": [
            {"time": "2026-11-17T20:00:09Z", "before": 2, "reason": "IdleWorkers", "message": "idle"},
            {"time": "2026-11-17T20:00:00Z", "after": 2, "reason": "PendingJobs", "message": "pending"},
        ]
    }
    assert change_rows(status) == [
        {"TIME": "20:00:00", "WORKERS": "0 -> 2", "WHY": "pending"},
        {"TIME": "20:00:09", "WORKERS": "2 -> 0", "WHY": "idle"},
    ]
    assert change_rows({}) == []
