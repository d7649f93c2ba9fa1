# SPDX-License-Identifier: Apache-2.0
"""Prints the standard output of a native job: from a file that is mounted here, or through the worker that ran it.

In a worker the file is read with the rights of the job's user, because the path is the user's choice.
"""

import asyncio
import sys
from pathlib import Path

from slinky.api.names import metadata
from slinky.cli.access.connection import ConnectedCluster
from slinky.cli.cluster.command import CommandError
from slinky.cli.pods.job_output import OutputFile
from slinky.cli.pods.line_printer import LinePrinter
from slinky.cli.pods.log_options import LogOptions
from slinky.cli.pods.pod_logs import list_pods
from slinky.insight.plain_text import plain
from slinky.kube import KubeClient, Pod
from slinky.kube.exec import STDOUT, run_in_pod
from slinky.slurm import SlurmClient

#: Seconds between two looks at a job or file that is followed.
LOOK_SECONDS = 3.0
#: Bytes read from a local file at once.
CHUNK_BYTES = 2**16
#: The container of a worker, and the group without rights.
SLURMD, NO_GROUP = "slurmd", "65534"


async def print_native_output(cluster: ConnectedCluster, file: OutputFile, options: LogOptions) -> None:
    """Print the output of a job that runs or has run on a node. Raises `CommandError` if no way leads to the file."""
    printer = LinePrinter(f"job/{file.job_id}", options.output, prefixed=False)
    if _is_readable(file.path):
        await print_local_file(file, cluster.client, options, printer)
        return
    problem = f"the path {plain(file.path)} is not readable here"
    if cluster.kube is not None:
        labels = f"{metadata.POD_HOSTNAME}={file.host}"
        pods = await list_pods(cluster.kube, labels, "", cluster.namespace)
        if running := [pod for pod in pods if not pod.metadata.deleting and pod.status.phase == "Running"]:
            await _print_from_worker(cluster.kube, cluster.client, running[0], file, options, printer)
            return
        problem += f", and the worker pod {plain(file.host, 80)} is gone"
    raise CommandError(
        f"the output of job {file.job_id} cannot be read: {problem}; it was written on {plain(file.host, 80)}: run "
        "this command where that file system is mounted"
    )


async def print_local_file(file: OutputFile, client: SlurmClient, options: LogOptions, printer: LinePrinter) -> None:
    """Print the end of a file that is mounted here; follow it until the job ends."""
    with Path(file.path).open("rb") as opened:  # noqa: ASYNC230 -- nothing else runs in this command
        opened.seek(find_tail(Path(file.path), options.tail))
        while True:
            is_over = not options.follow or await _has_ended(client, file.job_id)
            while chunk := opened.read(CHUNK_BYTES):
                printer.feed(chunk)
            if is_over:
                break
            await asyncio.sleep(LOOK_SECONDS)
    printer.finish()


def find_tail(path: Path, lines: int) -> int:
    """The offset at which the last lines of a file begin."""
    with path.open("rb") as opened:
        end = position = opened.seek(0, 2)
        if lines <= 0:
            return end
        # A newline at the very end ends the last line; it does not begin another.
        missing = lines + 1
        while position > 0:
            size = min(CHUNK_BYTES, position)
            position -= size
            opened.seek(position)
            block = opened.read(size)
            if position + size == end and not block.endswith(b"\n"):
                missing -= 1
            found = block.count(b"\n")
            if found < missing:
                missing -= found
                continue
            offset = len(block)
            for _ in range(missing):
                offset = block.rindex(b"\n", 0, offset)
            return position + offset + 1
    return 0


def tail_command(file: OutputFile, options: LogOptions) -> list[str]:
    """The command that prints the file in a worker, without the rights of root."""
    drop = ["setpriv", "--reuid", str(file.user_id), "--regid", NO_GROUP, "--clear-groups", "--no-new-privs", "--"]
    return [*drop, "tail", "-n", str(options.tail), *(["-F"] if options.follow else []), "--", file.path]


async def _print_from_worker(
    kube: KubeClient, client: SlurmClient, pod: Pod, file: OutputFile, options: LogOptions, printer: LinePrinter
) -> None:
    errors = b""
    async with run_in_pod(kube, pod.metadata.key, SLURMD, tail_command(file, options)) as session:

        async def copy() -> None:
            nonlocal errors
            async for channel, data in session.output():
                if channel == STDOUT:
                    printer.feed(data)
                else:
                    errors = (errors + data)[:1000]

        copying = asyncio.create_task(copy())
        try:
            while not await _is_done(copying, LOOK_SECONDS):
                if options.follow and await _has_ended(client, file.job_id):
                    # The last lines are on their way.
                    await _is_done(copying, LOOK_SECONDS)
                    break
        finally:
            if not copying.done():
                copying.cancel()
    if copying.done() and not copying.cancelled():
        copying.result()
    printer.finish()
    if session.exit_code:
        cause = plain(errors.decode(errors="replace").strip().replace("\n", "; "), 300) or f"code {session.exit_code}"
        raise CommandError(f"the output of job {file.job_id} cannot be read in the worker {file.host}: {cause}")
    if errors and not options.follow:
        sys.stderr.write(plain(errors.decode(errors="replace").strip(), 300) + "\n")


async def _is_done(task: "asyncio.Task[None]", seconds: float) -> bool:
    done, _ = await asyncio.wait({task}, timeout=seconds)
    return bool(done)


async def _has_ended(client: SlurmClient, job_id: int) -> bool:
    statuses = await client.job_states([job_id])
    return not statuses or all(status.state.ended for status in statuses)


def _is_readable(path: str) -> bool:
    try:
        with Path(path).open("rb") as opened:
            return opened.readable()
    except OSError:
        return False
