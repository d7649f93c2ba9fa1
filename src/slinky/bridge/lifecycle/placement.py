# SPDX-License-Identifier: Apache-2.0
"""From an allocation to bound pods: which pod gets which node, what must be there before, and when that has to wait."""

from collections.abc import Iterable, Mapping, Sequence

from slinky.bridge.devices.allocation import DevicesInUse
from slinky.bridge.devices.claims import ClaimWriter
from slinky.bridge.feasibility import kubelet_capacity
from slinky.bridge.feasibility.exclusions import Exclusions
from slinky.bridge.feasibility.volume_state import VolumePending, VolumeState, volume_claims_of
from slinky.bridge.lifecycle import assignment
from slinky.bridge.lifecycle.assignment import Assignment, Misplaced
from slinky.bridge.lifecycle.pod_writer import PodWriter, each
from slinky.bridge.lifecycle.release import Releaser
from slinky.bridge.state.cluster import ClusterState
from slinky.bridge.state.job_registry import JobRegistry
from slinky.bridge.state.views import WorkloadPod
from slinky.bridge.status.conditions import ConditionText
from slinky.bridge.workload import pod_state
from slinky.bridge.workload.grouping import Workload
from slinky.bridge.workload.job_spec import JobSpec
from slinky.kube import Key, Later
from slinky.observe import histogram
from slinky.slurm import JobRecord

BIND_SECONDS = histogram("slinky_bridge_place_seconds", "From a seen allocation to the last pod of it bound.")

#: Why pods wait whose volumes are not there.
VOLUME_PENDING = "VolumePending"
#: How often granted devices are looked at that somebody else still holds.
HELD_AGAIN = 5.0
#: How often a node that is being cleared is looked at.
CLEARING_AGAIN = 0.5
#: The same for one that does not answer, or is cordoned.
CLOSED_AGAIN = 1.0


class Placement:
    """Gives pods their nodes."""

    def __init__(
        self,
        stock: ClusterState,
        ledger: JobRegistry,
        feasible: Exclusions,
        releaser: Releaser,
        hands: PodWriter,
        claims: ClaimWriter,
        storage: VolumeState,
    ) -> None:
        self._stock, self._ledger, self._feasible = stock, ledger, feasible
        self._releaser, self._hands, self._claims, self._storage = releaser, hands, claims, storage

    async def place(self, unit: Workload, job: str, pods: tuple[WorkloadPod, ...], wish: JobSpec | None) -> None:
        """Bind the pods of a job to the nodes that Slurm gave it. Raises `Later` where that has to wait."""
        record = self._ledger.observe(job, pods, "").record
        if record is None or record.resources is None:
            return
        try:
            seats = await self._seats(job, record, pods, wish)
            await self._wait_for_answer(job, pods, seats)
            if wish is not None and wish.request.shared:
                await self._wait_for_empty_nodes(job, pods, {seat.node for seat in seats.values()})
            else:
                await self._wait_for_room(job, pods, seats)
            unbound = [pod for pod in pods if not pod_state.is_bound(pod) and not pod.metadata.deleting]
            with BIND_SECONDS.time():
                # All or nothing: no pod of a gang starts before every one of them can.
                needy = [pod for pod in unbound if self._claims.needs_claims(pod) or volume_claims_of(pod)]
                await each(needy, lambda pod: self._ready(pod, seats[pod.metadata.uid]))
                await each(unbound, lambda pod: self._start(record, pod, seats[pod.metadata.uid].node))
        except Misplaced as error:
            await self._give_back(job, pods, error)
            raise Later(str(error)) from error
        except DevicesInUse as error:
            # A claim that is freed wakes us; this is for claims that nobody frees.
            waiting = [pod for pod in pods if not pod_state.is_bound(pod)]
            await self._hands.tell(
                waiting, ConditionText(False, "DevicesHeld", f"Slurm job {job} has its nodes, but {error}.")
            )
            await self._label_bare(waiting, job)
            raise Later(str(error), after=HELD_AGAIN) from error
        except VolumePending as error:
            waiting = [pod for pod in pods if not pod_state.is_bound(pod)]
            await self._hands.tell(
                waiting, ConditionText(False, VOLUME_PENDING, f"Slurm job {job} has its nodes, but {error}.")
            )
            await self._label_bare(waiting, job)
            raise
        except Later:
            await self._label_bare(pods, job)
            raise
        if unit.kind == "NativeGroup":
            await self._stock.report_group_scheduled(unit.key)

    async def _give_back(self, job: str, pods: tuple[WorkloadPod, ...], error: Misplaced) -> None:
        """The nodes do not suit: tell it, and unless some pods run already return them and ask again."""
        said = ConditionText(False, "NodeUnsuitable", f"Slurm job {job} is given back: {error}.")
        unbound = [pod for pod in pods if not pod_state.is_bound(pod)]
        await self._hands.tell(unbound, said, warning=True)
        if len(unbound) == len(pods):
            await each(unbound, self._claims.release)
            await each(unbound, self._hands.unlabel)
            await self._releaser.end(job)

    async def _wait_for_answer(self, job: str, pods: tuple[WorkloadPod, ...], seats: Mapping[str, Assignment]) -> None:
        """A node that is cordoned or silent gets no pod; it may answer again before Slurm is told to leave it out."""
        waiting = [pod for pod in pods if not pod_state.is_bound(pod)]
        for name in sorted({seats[pod.metadata.uid].node for pod in waiting}):
            node = self._stock.nodes.get(Key("", name))
            if node is None or not (why := pod_state.unavailable_reason(node)):
                continue
            if self._feasible.is_drained(node):
                raise Misplaced(f"{name} {why}")
            message = f"Slurm job {job} has node {name}, which {why}."
            await self._hands.tell(waiting, ConditionText(False, "NodeNotReady", message))
            raise Later(message, after=CLOSED_AGAIN)

    async def _wait_for_empty_nodes(self, job: str, pods: tuple[WorkloadPod, ...], nodes: set[str]) -> None:
        """Slurm gives a node away the moment its job ends; whole nodes are taken only once they are empty."""
        for node in sorted(nodes):
            if late := self._stock.other_pods_on(node, job):
                message = f"Slurm job {job} has node {node}, where {late[0].key} is still being stopped."
                await self._hands.tell(pods, ConditionText(False, "NodeClearing", message))
                raise Later(message, after=CLEARING_AGAIN)

    async def _wait_for_room(self, job: str, pods: tuple[WorkloadPod, ...], seats: Mapping[str, Assignment]) -> None:
        """On shared nodes, former pods make room first; Slurm may have told of the new job before the end of theirs."""
        for name in sorted({seat.node for seat in seats.values()}):
            there = self._stock.other_pods_on(name, job)
            coming = [pod for pod in pods if seats[pod.metadata.uid].node == name]
            node = self._stock.nodes.get(Key("", name))
            if (
                there
                and node is not None
                and (lack := kubelet_capacity.exceeded_resource(node.status.allocatable, there, coming))
            ):
                message = f"Slurm job {job} has its part of node {name}, where {_leaving(there).key} still uses {lack}."
                waiting = [pod for pod in coming if not pod_state.is_bound(pod)]
                await self._hands.tell(waiting, ConditionText(False, "NodeClearing", message))
                raise Later(message, after=CLEARING_AGAIN)

    async def _seats(
        self, job: str, record: JobRecord, pods: tuple[WorkloadPod, ...], wish: JobSpec | None
    ) -> dict[str, Assignment]:
        """The node of each pod, by its uid, and the component that granted it. Raises `Misplaced`."""
        parts = self._ledger.track_components(job) or [record]
        seats: dict[str, Assignment] = {}
        for part, team in zip(parts, assignment.teams(pods, record, len(parts)), strict=True):
            hosts = [granted.node for granted in part.resources or ()]
            nodes = {host: node for host in hosts if (node := self._feasible.node_of_host(host)) is not None}
            per_node = wish.pods_per_node if wish else assignment.crowding(team, hosts)
            chosen = assignment.assign(
                team, hosts, {host: node.metadata.name for host, node in nodes.items()}, per_node
            )
            by_name = {node.metadata.name: node for node in nodes.values()}
            for pod in team:
                node = by_name[chosen[pod.metadata.uid]]
                if not pod_state.is_bound(pod) and (why := await self._feasible.check_and_reserve(pod, node)):
                    raise Misplaced(f"{node.metadata.name} does not suit {pod.metadata.name}: {why}")
                seats[pod.metadata.uid] = Assignment(node.metadata.name, part)
        return seats

    async def _ready(self, pod: WorkloadPod, seat: Assignment) -> None:
        """Devices and volumes first: a pod that is bound must have all it needs."""
        await self._claims.prepare(pod, seat.node, seat.part)
        node = self._stock.nodes.get(Key("", seat.node))
        if node is None:
            raise Later(f"node {seat.node} has just gone")
        await self._storage.provide_volumes(pod, node)

    async def _start(self, record: JobRecord, pod: WorkloadPod, node: str) -> None:
        """What to say of it comes later, when no pod waits for a node: see `intake.urgency`."""
        await self._hands.bind(pod, node, record.job_id, record.sluid)

    async def _label_bare(self, pods: Iterable[WorkloadPod], job: str) -> None:
        """Pods whose binding, and the name of their job with it, has to wait get the name at once."""
        await each([pod for pod in pods if not pod_state.job_id(pod)], lambda pod: self._hands.label(pod, job))


def _leaving(pods: Sequence[WorkloadPod]) -> WorkloadPod:
    """The pod that is most likely to go next."""
    return max(pods, key=lambda pod: pod.metadata.deleting)
