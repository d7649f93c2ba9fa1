# SPDX-License-Identifier: Apache-2.0
"""Create an external node, start a placeholder job on it, print the allocated resources, and clean up.

Needs SLURM_URL, the SLURM_JWT of a Slurm operator, and a partition `ext` of the nodes with the feature `ext`.
"""

import asyncio
import os

from slinky.slurm import Busy, JobRequest, SlurmClient, node_conf, number


async def main() -> None:
    """Run the example."""
    async with SlurmClient(os.environ["SLURM_URL"], os.environ["SLURM_JWT"]) as slurm:
        line = node_conf("example1", NodeAddr="127.0.0.1", CPUs=4, RealMemory=1000, State="EXTERNAL", Feature="ext")
        await slurm.create_node(line)
        try:
            request = JobRequest(
                name="placeholder",
                partition="ext",
                account=os.environ.get("SLURM_ACCOUNT"),
                flags=["EXTERNAL_JOB"],
                required_nodes=["example1"],
                tasks=1,
                memory_per_node=number(100),
                comment="my-workload-uid",
            )
            try:
                job = await slurm.allocate(request)
            except Busy as error:
                print("cannot start now:", error)
                return
            for resources in await slurm.resources(job.job_id):
                print(resources.node, resources.core_bitmap, resources.mem_alloc)
            await slurm.cancel(job.job_id)
        finally:
            await slurm.delete_nodes("example1")


if __name__ == "__main__":
    asyncio.run(main())
