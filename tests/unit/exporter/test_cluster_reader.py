# SPDX-License-Identifier: Apache-2.0
"""Records of jobs in a snapshot."""

from tests.unit.exporter.test_families import job

from slinky.exporter.cluster_reader import merge_arrays
from slinky.slurm import JobRecord, JobState, ObservedTable

PENDING = JobState.of(("PENDING",))


def test_an_array_counts_by_its_tasks_and_an_old_job_not_at_all() -> None:
    table: ObservedTable[JobRecord] = ObservedTable(lambda: 0.0)
    table.put("7", job("7", "PENDING", account="a"))
    table.put("7_1", JobRecord("7_1", PENDING))
    table.put("7_2", JobRecord("7_2", PENDING))
    table.put("8", job("8", "RUNNING", account="b"))
    table.put("9_1", JobRecord("9_1", PENDING))
    table.put("6", JobRecord("6", JobState.of(("COMPLETED",))))
    accounts = {r.job_id: r.detail.account if r.detail else None for r in merge_arrays(table)}
    assert accounts == {"7_1": "a", "7_2": "a", "8": "b", "9_1": None}
