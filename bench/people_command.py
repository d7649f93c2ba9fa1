# SPDX-License-Identifier: Apache-2.0
"""The command at 10,000 pending and 4,000 running jobs on 5,000 nodes: explanations, and the start of every verb."""

import dataclasses
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

from slinky.cli.cluster.explain import FORECAST_JOBS, render_explanations
from slinky.cli.main import SlinkyGroup
from slinky.insight.queue_snapshot import QueueSnapshot

#: The verbs for people; the servers and the lab are other programs.
VERBS = tuple(
    name
    for name, (module, _) in SlinkyGroup.table.items()
    if not module.endswith(("serve", "lab", "demo", "tls_proxy"))
)
RUNS = 5


def explain_seconds(snapshot: QueueSnapshot) -> Iterator[tuple[str, float]]:
    """The CPU time of an explanation of the first, a middle and the last job, beyond reading the cluster."""
    for position in (1, FORECAST_JOBS // 2, FORECAST_JOBS, len(snapshot.pending)):
        job = snapshot.pending[position - 1]
        times = []
        for _ in range(3):
            # Nothing that was computed for the snapshot before counts.
            fresh = dataclasses.replace(snapshot)
            begin = time.process_time()
            render_explanations((fresh, [str(job.job_id)]))
            times.append(time.process_time() - begin)
        yield f"explain the job at position {position} of {len(snapshot.pending)}", min(times)


def start_seconds() -> Iterator[tuple[str, float]]:
    """The CPU time of the start of the command: the help of each verb, and a verb that finds no Slurm."""
    for argv in (("--help",), ("version", "--client"), *((verb, "--help") for verb in VERBS)):
        yield f"slinky {' '.join(argv)}", _process_seconds(*argv)


def first_request_seconds() -> tuple[str, float]:
    """The CPU time until a verb has sent its first request, which no server answers."""
    return "slinky queue until its first request", _process_seconds("queue", "--url", "http://127.0.0.1:9")


def _process_seconds(*argv: str) -> float:
    """The smallest CPU time of some runs, with warm files."""
    times = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "slinky.cli", *argv]
        subprocess.run(command, capture_output=True, check=False, env={**os.environ, "SLURM_JWT": "token"})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)
