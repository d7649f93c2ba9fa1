# SPDX-License-Identifier: Apache-2.0
"""The end of the demo: a job that has every node, one that waits behind it, and what slinky says about them."""

import subprocess
import sys

from slinky.lab.demo.charts import POOL, RELEASE, SPACE, LabCharts
from slinky.lab.errors import LabError
from slinky.lab.machine.machine import until

PATIENCE = 120
#: The port of the page on this machine, while `kubectl port-forward` runs.
PAGE_PORT = 8082
PAGE_ADDRESS = f"http://127.0.0.1:{PAGE_PORT}/"


class QueueOutlook:
    """A queue with a job that waits, and the answers of the command and of the page."""

    def __init__(self, site: LabCharts) -> None:
        self.site = site
        self.running = self.waiting = ""

    def fill(self) -> None:
        """Submit a job that takes every node for two minutes, and one that waits for it."""
        nodes = f"--nodes={self.site.lab.state.nodes}"
        self.running = self._submit("simulation", "sleep 120", nodes, "--exclusive", "--time=30")
        self.waiting = self._submit("analysis", "true", "--nodes=1", "--time=10")
        until(self._waits, f"job {self.waiting} to wait", PATIENCE, lambda: self.site.slurm("squeue"))

    def queue(self) -> str:
        """What `slinky queue` prints."""
        return self._slinky("queue")

    def explanation(self) -> str:
        """What `slinky explain` says about the job that waits."""
        return self._slinky("explain", self.waiting)

    def _submit(self, name: str, command: str, *options: str) -> str:
        arguments = ("--parsable", "--chdir=/tmp", "--output=/dev/null", f"--partition={POOL}", f"--job-name={name}")
        return self.site.slurm("sbatch", *arguments, *options, "--wrap", command).strip()

    def _waits(self) -> bool:
        """Whether the first job has its nodes: until then slurmctld and the forecast know no end to wait for."""
        jobs = f"{self.running},{self.waiting}"
        states = self.site.slurm("squeue", "-h", "-j", jobs, "--sort=i", "-o", "%T %r").splitlines()
        return states == ["RUNNING None", "PENDING Resources"]

    def _slinky(self, *words: str) -> str:
        place = ("--kubeconfig", str(self.site.lab.kubeconfig), "--namespace", SPACE)
        command = [sys.executable, "-m", "slinky.cli", *words, *place]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LabError(f"slinky {words[0]}: {done.stderr.strip()[-500:]}", f"kubectl get pods -n {SPACE}")
        return done.stdout.strip()


def page_steps(lab: str) -> str:
    """How to open the page of the demo."""
    return f"""\
The same as a page: {PAGE_ADDRESS}
  slinky lab shell --name {lab}
  kubectl create token -n {SPACE} default                     # the page asks for it
  kubectl port-forward -n {SPACE} service/{RELEASE}-exporter {PAGE_PORT}  # the page answers while this runs"""
