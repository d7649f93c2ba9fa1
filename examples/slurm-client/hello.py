# SPDX-License-Identifier: Apache-2.0
"""Submit a job and wait for its end. Needs SLURM_URL and SLURM_JWT."""

import asyncio
import os

from slinky.slurm import JobRequest, Mirror, ObjectKind, SlurmClient


async def main() -> None:
    """Run the example."""
    async with SlurmClient(os.environ["SLURM_URL"], os.environ["SLURM_JWT"]) as slurm, Mirror(slurm) as mirror:
        with mirror.subscribe(ObjectKind.JOB) as feed:
            request = JobRequest(
                name="hello",
                script="#!/bin/sh\nhostname\n",
                account=os.environ.get("SLURM_ACCOUNT"),
                environment=["PATH=/bin:/usr/bin"],
                current_working_directory="/tmp",  # noqa: S108
            )
            job = await slurm.submit(request)
            mirror.track(job.job_id)
            async for change in feed:
                if change.key == str(job.job_id) and change.after.over:
                    print(job.job_id, change.after.state, change.after.detail.exit_code.code)
                    break


if __name__ == "__main__":
    asyncio.run(main())
