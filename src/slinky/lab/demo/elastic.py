# SPDX-License-Identifier: Apache-2.0
"""A NodeSet without workers: a job of two nodes brings two of them, and they go when it has ended."""

from datetime import datetime
from typing import Any

from slinky.lab.demo.charts import ELASTIC, RELEASE, SPACE, LabCharts
from slinky.lab.machine.machine import until

PATIENCE = 180
#: Columns of the table of changes.
CHANGES = ("TIME", "WORKERS", "WHY")
WORKERS = 2


class ElasticRun:
    """One job for workers that do not exist yet."""

    def __init__(self, site: LabCharts) -> None:
        self.site = site

    def run(self) -> None:
        """Submit the job; wait until it has run and its workers are gone."""
        arguments = ("--parsable", "--time=5", "--chdir=/tmp", "--output=/dev/null", f"--partition={ELASTIC}")
        job = self.site.slurm("sbatch", *arguments, f"--nodes={WORKERS}", "--wrap", "srun hostname").strip()
        until(lambda: "JobState=COMPLETED" in self._show(job), f"job {job} to end", PATIENCE, lambda: self._show(job))
        until(lambda: self._sizes()[:1] == [0], "the workers to go", PATIENCE, lambda: str(self._status()))

    def rows(self) -> list[dict[str, str]]:
        """What the autoscaler has done, the first change first."""
        return change_rows(self._status())

    def _show(self, job: str) -> str:
        return self.site.slurm("scontrol", "show", "job", job)

    def _sizes(self) -> list[int]:
        """The numbers of workers that the autoscaler has set, the latest first."""
        return [int(item.get("after", 0)) for item in self._status().get("decisions", ())]

    def _status(self) -> dict[str, Any]:
        path = f"/apis/slinky.slurm.net/v1beta1/namespaces/{SPACE}/nodesets/{RELEASE}-worker-{ELASTIC}"
        status: dict[str, Any] = self.site.lab.api.get(path).get("status", {})
        return dict(status.get("autoscaling") or {})


def change_rows(status: dict[str, Any]) -> list[dict[str, str]]:
    """The changes in the status of an autoscaler as rows of a table, the first change first."""
    rows = []
    for item in reversed(status.get("decisions", ())):
        moment = datetime.fromisoformat(item["time"])
        workers = f"{item.get('before', 0)} -> {item.get('after', 0)}"
        rows.append(dict(zip(CHANGES, (f"{moment:%H:%M:%S}", workers, item["message"]), strict=True)))
    return rows
