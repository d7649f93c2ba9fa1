# SPDX-License-Identifier: Apache-2.0
"""The command at 10,000 pending and 4,000 running jobs on 5,000 nodes: explanations, and the start of every verb."""

import dataclasses
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from slinky.cli.cluster.explain import stream_explanations
from slinky.cli.cluster.output import OutputFormat
from slinky.cli.main import SlinkyGroup
from slinky.insight.queue_snapshot import QueueSnapshot

#: The verbs for people; the servers and the lab are other programs.
VERBS = tuple(
    name
    for name, (module, _) in SlinkyGroup.table.items()
    if not module.endswith(("serve", "lab", "demo", "tls_proxy"))
)
RUNS = 5
#: The environment of the command: an installed one has bytecode, which the first of the runs writes here.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
#: Seconds of an explanation without its last sentence, the expected start; with it as long as a forecast may take.
EXPLAIN_LIMIT, FORECAST_LIMIT = 0.5, 2.0


def explain_seconds(snapshot: QueueSnapshot) -> Iterator[tuple[str, float, float]]:
    """The CPU time until an explanation is shown, and until its end, beyond reading the cluster; the limits."""
    last = len(snapshot.pending)
    for position in (1, 500, 1000, last):
        job = snapshot.pending[position - 1]
        shown, complete = [], []
        for _ in range(3):
            # Nothing that was computed for the snapshot before counts.
            fresh = dataclasses.replace(snapshot)
            begin = time.process_time()
            parts = stream_explanations((fresh, [str(job.job_id)]), OutputFormat.TEXT)
            next(parts)
            shown.append(time.process_time() - begin)
            for _ in parts:
                pass
            complete.append(time.process_time() - begin)
        name = f"explain the job at position {position} of {last}"
        yield name, min(shown), EXPLAIN_LIMIT
        yield f"{name}, with its expected start", min(complete), FORECAST_LIMIT


def start_seconds() -> Iterator[tuple[str, float]]:
    """The CPU time of the start of the command: the help of each verb."""
    for argv in (("--help",), ("version", "--client"), *((verb, "--help") for verb in VERBS)):
        yield f"slinky {' '.join(argv)}", _process_seconds(*argv)


def first_request_seconds() -> Iterator[tuple[str, float]]:
    """The CPU time until a verb sends its first request: to slurmrestd, and to the API server of a kubeconfig."""
    yield "slinky queue until its first request", min(_seconds_until_request(_plain) for _ in range(RUNS))
    name = "slinky queue until its first request to Kubernetes"
    yield name, min(_seconds_until_request(_kubernetes) for _ in range(RUNS))


def _plain(port: int, _: Path) -> tuple[list[str], dict[str, str]]:
    return ["queue", "--url", f"http://127.0.0.1:{port}"], {"SLURM_JWT": "token"}


def _kubernetes(port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
    config = {
        "current-context": "bench",
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "clusters": [{"name": "bench", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "bench", "user": {"token": "token"}}],
    }
    (folder / "config").write_text(json.dumps(config))
    return ["queue"], {"KUBECONFIG": str(folder / "config")}


def _seconds_until_request(arguments: Callable[[int, Path], tuple[list[str], dict[str, str]]]) -> float:
    """The CPU time of all threads of a command when a server, which never answers, has got its first bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server, tempfile.TemporaryDirectory() as folder:
        argv, env = arguments(server.getsockname()[1], Path(folder))
        command = [sys.executable, "-m", "slinky.cli", *argv]
        devnull = subprocess.DEVNULL
        with subprocess.Popen(command, env=ENVIRONMENT | env, stdout=devnull, stderr=devnull) as process:
            connection, _ = server.accept()
            with connection:
                connection.recv(1)
                threads = Path(f"/proc/{process.pid}/task").glob("*/schedstat")
                nanoseconds = sum(int(thread.read_text().split()[0]) for thread in threads)
                process.kill()
    return nanoseconds / 1e9


def _process_seconds(*argv: str) -> float:
    """The smallest CPU time of some runs, with warm files."""
    times = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "slinky.cli", *argv]
        subprocess.run(command, capture_output=True, check=False, env=ENVIRONMENT | {"SLURM_JWT": "token"})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)
