# SPDX-License-Identifier: Apache-2.0
"""What an operator costs that has nothing to do: thousands of workers, all of them known to a real Slurm."""

from bench.operator_grow import filled, watching
from bench.operator_scene import AtRest, Operator, scene
from bench.operator_slurm import clear, register
from slinky.lab.lab import Lab
from slinky.slurm import MintedToken
from slinky.slurm import SlurmClient as Slurm


async def at_rest(lab: Lab, count: int) -> AtRest:
    """Fill, wait until nothing moves, then watch for a minute."""
    tokens = MintedToken(lambda: lab.slurm.jwt_key, "slurm")
    async with Slurm(lab.slurm.url, tokens) as slurm, scene(lab, "rest") as stage:
        await clear(slurm)
        await stage.cluster(lab.slurm.address)
        async with Operator(lab, "rest") as operator:
            async with watching(stage) as pods:
                await stage.workers(count)
                await filled(pods, count)
                await register(slurm, pods, count)
            await operator.quiet()
            return await operator.minute()
