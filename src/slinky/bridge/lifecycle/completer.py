# SPDX-License-Identifier: Apache-2.0
"""Ends jobs with a state of their own, through a program beside us that is linked with libslurm.

slurmrestd can end an external job only as CANCELLED. `slurm-complete` (`images/completer`) answers one line on a unix
socket; it is optional, and whatever goes wrong with it leaves the job to be ended over REST.
"""

import asyncio
import contextlib

from slinky.observe import Log, counter

log = Log("slinky.bridge.lifecycle.completer")

ASKED = counter("slinky_bridge_completions_total", "Jobs that were to be ended natively, by result.", "result")

DEADLINE = 10.0
LONGEST = 1024


class Completer:
    """The program behind one socket."""

    def __init__(self, socket: str, deadline: float = DEADLINE) -> None:
        self._socket, self._deadline = socket, deadline

    async def complete(self, job: str, code: int) -> bool:
        """End a job, by id or SLUID, as COMPLETED or with an exit code as FAILED; false if that did not work."""
        try:
            async with asyncio.timeout(self._deadline):
                answer = await self._ask(f"complete {job} {(code & 0xFF) << 8}")
        except (OSError, TimeoutError, ValueError) as error:
            answer = f"no answer: {str(error) or type(error).__name__}"
        done = answer == "ok"
        ASKED.labels("done" if done else "refused").inc()
        if not done:
            log.warning("a job cannot be ended natively and is cancelled instead", job=job, answer=answer)
        return done

    async def _ask(self, line: str) -> str:
        """One line there, one back. A line without end is a ValueError."""
        reader, writer = await asyncio.open_unix_connection(self._socket, limit=LONGEST)
        try:
            writer.write(line.encode() + b"\n")
            await writer.drain()
            return (await reader.readline()).decode(errors="replace").strip()
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
