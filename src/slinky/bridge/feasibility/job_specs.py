# SPDX-License-Identifier: Apache-2.0
"""Translates the pods of a workload to a job, with the hosts that the job must not use.

The partition of the job decides which hosts count, and a job option can set it, so a job that excludes hosts is
translated twice.
"""

from collections.abc import Collection, Sequence
from functools import partial

from slinky.bridge.config import BridgeSettings
from slinky.bridge.feasibility.exclusions import Exclusions
from slinky.bridge.state.cluster import ClusterState
from slinky.bridge.state.device_demand import DeviceDemand
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload.annotations import OptionError
from slinky.bridge.workload.grouping import GroupMissing, Workload, WorkloadRoot
from slinky.bridge.workload.job_spec import JobContext, JobSpec, build_job_spec


class JobSpecs:
    """Builds the job specs of workloads."""

    def __init__(
        self, settings: BridgeSettings, cluster: ClusterState, device_demand: DeviceDemand, exclusions: Exclusions
    ) -> None:
        self._settings, self._cluster = settings, cluster
        self._device_demand, self.exclusions = device_demand, exclusions

    async def build(
        self, workload: Workload, root: WorkloadRoot, pods: Sequence[WorkloadPod], avoided: Collection[str] = ()
    ) -> JobSpec:
        """The job of these pods without the hosts `avoided`. Raises `OptionError` or `VolumePending`."""
        devices = await self._device_demand.compute(pods)
        context = JobContext(
            self._settings, self._cluster.catalog, devices.by_pod, devices.shared, devices.threads_per_core
        )
        job_spec = build_job_spec(workload, root, pods, context)
        partition = job_spec.request.partition or ""
        excluded = self.exclusions.excluded_hosts(pods, partition, job_spec.pods_per_node)
        unsuitable = self.exclusions.existing_hosts(avoided) if avoided else frozenset[str]()
        if devices.restricts_nodes:
            suits_node = partial(devices.suits_node, pods_per_node=job_spec.pods_per_node)
            unsuitable |= self.exclusions.hosts_not_matching(suits_node)
        if unsuitable:
            excluded = {uid: hosts | unsuitable for uid, hosts in excluded.items()}
        if not any(excluded.values()):
            return job_spec
        return build_job_spec(workload, root, pods, context, excluded=excluded)

    async def try_build(
        self, workload: Workload, pods: Sequence[WorkloadPod], avoided: Collection[str] = ()
    ) -> JobSpec | None:
        """The job of these pods; None if they cannot be translated."""
        try:
            return await self.build(workload, await self._cluster.root_of(workload, list(pods)), pods, avoided)
        except (GroupMissing, OptionError):
            return None
