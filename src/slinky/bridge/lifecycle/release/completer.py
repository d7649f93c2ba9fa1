# SPDX-License-Identifier: Apache-2.0
"""Client of `slurm-complete`, which ends jobs as COMPLETED or FAILED.

slurmrestd can end an external job only as CANCELLED. `slurm-complete` (`images/completer`) is linked with libslurm and
answers one line on a unix socket. It is optional: if it fails, the job is cancelled over REST instead.
"""

import asyncio
import contextlib

from slinky.bounds import COMPLETER_LINE_MAX
from slinky.bridge import metrics
from slinky.observe import Log

log = Log("slinky.bridge.lifecycle.release.completer")

DEADLINE = 10.0


class Completer:
    """A client of the `slurm-complete` process behind one socket."""

    def __init__(self, socket: str, deadline: float = DEADLINE) -> None:
        self._socket, self._deadline = socket, deadline

    async def complete(self, job: str, exit_code: int) -> bool:
        """End a job, by id or SLUID, as COMPLETED, or as FAILED with an exit code; false if that failed."""
        try:
            async with asyncio.timeout(self._deadline):
                response = await self._request(f"complete {job} {(exit_code & 0xFF) << 8}")
        except (OSError, TimeoutError, ValueError) as error:
            response = f"no response: {str(error) or type(error).__name__}"
        done = response == "ok"
        metrics.COMPLETIONS.labels("done" if done else "refused").inc()
        if not done:
            log.warning("slurm-complete did not end the job; cancelling it instead", job=job, response=response)
        return done

    async def _request(self, line: str) -> str:
        """Send one line and read one. A line that is too long raises `ValueError`."""
        reader, writer = await asyncio.open_unix_connection(self._socket, limit=COMPLETER_LINE_MAX)
        try:
            writer.write(line.encode() + b"\n")
            await writer.drain()
            return (await reader.readline()).decode(errors="replace").strip()
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
