# SPDX-License-Identifier: Apache-2.0
"""Cost of an idle operator with thousands of workers that are registered in a real Slurm."""

from bench.operator_cluster import IdleUsage, OperatorProcess, bench_namespace
from bench.operator_reaction import delete_old_hosts, register_hosts
from bench.operator_scale_out import wait_until_ready, watch_workers
from slinky.lab.lab import Lab
from slinky.slurm import MintedToken
from slinky.slurm import SlurmClient as Slurm


async def measure_idle(lab: Lab, count: int) -> IdleUsage:
    """Scale out, wait until nothing changes, then measure for a minute."""
    tokens = MintedToken(lambda: lab.slurm.jwt_key, "slurm")
    async with Slurm(lab.slurm.url, tokens) as slurm, bench_namespace(lab, "rest") as namespace:
        await delete_old_hosts(slurm)
        await namespace.cluster(lab.slurm.address)
        async with OperatorProcess(lab, "rest") as operator:
            async with watch_workers(namespace) as pods:
                await namespace.workers(count)
                await wait_until_ready(pods, count)
                await register_hosts(slurm, pods, count)
            await operator.quiet()
            return await operator.minute()
