# SPDX-License-Identifier: Apache-2.0
"""Where `slinky top` reads a cluster, and what it changes there."""

from slinky.cli.access.connection import ConnectedCluster
from slinky.cli.access.reader import SnapshotReader
from slinky.cli.cluster.job_actions import apply_change
from slinky.cli.live.top_rows import PodPhase, TopData
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.slurm import Job, NodeUpdate

#: Pods of one list at most.
PODS_MAX = 5000


class TopSource:
    """One connected cluster."""

    def __init__(self, cluster: ConnectedCluster) -> None:
        self._cluster = cluster
        self._reader = SnapshotReader(cluster.client)
        self._last: TopData | None = None

    async def read(self) -> TopData:
        """The cluster now; the same object as before if nothing has changed. Raises `SlurmError` or `KubeError`."""
        snapshot = await self._reader.snapshot(accounting=False)
        pods, unknown = await self._read_pods(snapshot)
        data = TopData(self._cluster.where, snapshot, pods, unknown)
        if self._last is not None and self._last.snapshot is snapshot and self._last.pods == pods:
            return self._last
        self._last = data
        return data

    async def explain_data(self) -> QueueSnapshot:
        """A snapshot with the limits of accounts, which an explanation needs."""
        return await SnapshotReader(self._cluster.client).snapshot()

    async def change_job(self, verb: str, job: Job) -> None:
        """Hold, release or cancel a job. Raises `SlurmError`."""
        await apply_change(verb, self._cluster.client, job, str(job.job_id))

    async def change_host(self, verb: str, host: str, reason: str = "") -> None:
        """Drain or undrain a node. Raises `SlurmError`."""
        update = NodeUpdate(state=["DRAIN"], reason=reason) if verb == "drain" else NodeUpdate(state=["RESUME"])
        await self._cluster.client.update_nodes([host], update)

    async def _read_pods(self, snapshot: QueueSnapshot) -> tuple[tuple[PodPhase, ...], str]:
        kube = self._cluster.kube
        if kube is None:
            return (), ""
        # Imported here: a plain Slurm needs no Kubernetes client.
        from slinky.cli.access.kubernetes import POD_JOB_LABEL
        from slinky.kube import PODS, Forbidden

        try:
            found = await kube.list(PODS, labels=POD_JOB_LABEL)
        except Forbidden:
            return (), "no permission to list pods"
        pods = [
            PodPhase(int(job), pod.metadata.name, pod.status.phase or "Pending")
            for pod in found[:PODS_MAX]
            if (job := pod.metadata.labels.get(POD_JOB_LABEL, "")).isdecimal() and int(job) in snapshot.jobs_by_id
        ]
        return tuple(sorted(pods, key=lambda pod: (pod.job_id, pod.name))), ""
