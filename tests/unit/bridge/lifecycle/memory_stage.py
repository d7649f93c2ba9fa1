# SPDX-License-Identifier: Apache-2.0
"""The lifecycle of workloads on objects in memory: real builder, decisions, executor, registry and room of nodes.

Only the two servers are doubles: `MemorySlurm` accepts or rejects jobs, and `MemoryWriter` changes the cached pods as
the API server would.
"""

import random
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import msgspec
from tests.unit.bridge.build import NOW
from tests.unit.bridge.feasibility.test_node_room import Cluster

from slinky.bridge import names
from slinky.bridge.config import BridgeSettings
from slinky.bridge.devices.classes import Catalog
from slinky.bridge.feasibility.constraints import NodeRequirements
from slinky.bridge.feasibility.exclusions import HostShortage
from slinky.bridge.feasibility.job_specs import JobSpecs
from slinky.bridge.lifecycle.attempts import Attempts, Evictions
from slinky.bridge.lifecycle.binder import Binder
from slinky.bridge.lifecycle.executor import WorkloadExecutor
from slinky.bridge.lifecycle.node_observer import NodeObserver
from slinky.bridge.lifecycle.reconciler import WorkloadReconciler
from slinky.bridge.lifecycle.release.outcome import PodOutcome
from slinky.bridge.lifecycle.snapshot_builder import SnapshotBuilder
from slinky.bridge.lifecycle.submit import Submitter
from slinky.bridge.state.device_demand import DeviceNeeds
from slinky.bridge.state.job_registry import JobRegistry
from slinky.bridge.status.reasons import ConditionText
from slinky.bridge.views import OUR_PODS, WorkloadPod
from slinky.bridge.workload import grouping, pod_state
from slinky.bridge.workload.grouping import Workload, WorkloadRoot
from slinky.bridge.workload.identity import BridgeIdentity
from slinky.bridge.workload.job_spec import JobSpec
from slinky.kube import Cache, Key, Node, RequeueAfter, by_label
from slinky.slurm import Host, Job, JobLookup, JobRecord, JobRequest, JobState, NodeResources, Presence
from slinky.slurm.errors import Problem, error_for
from slinky.slurm.model.results import SubmittedJob
from slinky.slurm.model.views import StepId


class MemoryHosts(dict[str, Host]):
    """The hosts of Slurm by name."""

    unconfirmed_loss = None


class MemorySlurm:
    """Jobs in memory. Stands for the client and for the mirror."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobRecord] = {}
        self.hosts: tuple[str, ...] = ()  # the hosts of the next job that starts at once; empty: it is pending
        self.errors: list[Exception | int] = []  # errors of the next requests
        self.unknown = False  # whether the state of all jobs is out of date
        self.requests: list[tuple[str, JobRequest]] = []
        self.cancelled: list[str] = []
        self.outcomes: dict[str, PodOutcome] = {}
        self.tracked: dict[str, str] = {}
        self.nodes = MemoryHosts()
        self._last = 6

    async def allocate(self, request: JobRequest) -> SubmittedJob:
        return self._accept("allocate", request)

    async def submit(self, *requests: JobRequest) -> SubmittedJob:
        return self._accept("submit", requests[0])

    def _accept(self, how: str, request: JobRequest) -> SubmittedJob:
        self.requests.append((how, request))
        self._fail()
        self._last += 1
        job = str(self._last)
        hosts = self.hosts or request.required_nodes or ()
        self.show(job, "RUNNING" if hosts else "PENDING", hosts=hosts, comment=request.admin_comment or "")
        return SubmittedJob(self._last)

    def _fail(self) -> None:
        if self.errors:
            error = self.errors.pop(0)
            raise error_for([Problem(error, "no")]) if isinstance(error, int) else error

    def show(self, job: str, *words: str, hosts: Iterable[str] = (), comment: str = "", lost: bool = False) -> None:
        """Change what Slurm reports about a job."""
        old = self.jobs.get(job)
        comment = comment or (old.detail.admin_comment if old and old.detail else "")
        resources = tuple(NodeResources(host) for host in hosts) or (old.resources if old else None)
        detail = Job(int(job), job_state=words, state_reason="Resources", admin_comment=comment)
        self.jobs[job] = JobRecord(job, JobState.of(words), f"sluid-{job}", detail, resources, lost=lost)

    async def update_job(self, job: int, change: JobRequest) -> None:
        self.requests.append(("update", change))
        self._fail()

    async def job(self, job: str) -> Job:
        return Job(int(job), step_id=StepId(sluid=f"sluid-{job}"))

    # the mirror

    def lookup_job(self, job: str) -> JobLookup:
        found = self.jobs.get(job)
        if self.unknown or found is None:
            return JobLookup(Presence.UNKNOWN, found)
        return JobLookup(Presence.ABSENT if found.lost else Presence.PRESENT, found)

    async def read_job(self, job: str, *, exact_resources: bool = True) -> None:
        """The job is in memory."""

    async def refresh(self) -> None:
        """Nothing to read."""

    def track(self, job: str, sluid: str = "") -> None:
        """Every job is tracked; remembers with which SLUID."""
        self.tracked[job] = sluid

    def forget(self, job: str) -> None:
        """Jobs stay in memory."""

    def listen(self, listener: Any) -> None:
        """No change is reported."""

    def request_refresh(self, **_: Any) -> None:
        """Nothing to read."""

    # the releaser

    async def end_job(self, job: str, *_: Any) -> None:
        self.cancelled.append(job)
        self.show(job, "CANCELLED")

    def record_outcome(self, job: str, outcome: PodOutcome) -> None:
        self.outcomes[job] = outcome


class MemoryWriter:
    """Changes cached pods as the API server would."""

    def __init__(self, put: Callable[[WorkloadPod], WorkloadPod]) -> None:
        self._put = put
        self.conditions: dict[str, ConditionText] = {}
        self.bound: dict[str, str] = {}
        self.evicted: list[str] = []
        self.released: list[str] = []
        self.events: list[str] = []

    def _change(self, member: WorkloadPod, **metadata: Any) -> WorkloadPod:
        changed = msgspec.structs.replace(member, metadata=msgspec.structs.replace(member.metadata, **metadata))
        return self._put(changed)

    async def add_finalizer(self, member: WorkloadPod) -> None:
        self._change(member, finalizers=(names.FINALIZER,))

    async def label(self, member: WorkloadPod, job: str = "") -> None:
        labels = {**member.metadata.labels, names.JOB_LABEL: job}
        self._change(member, labels=labels, finalizers=(names.FINALIZER,))

    async def replace_label(self, member: WorkloadPod, job: str, sluid: str) -> None:
        assert sluid
        await self.label(member, job)

    async def remove_label(self, member: WorkloadPod) -> None:
        labels = {name: value for name, value in member.metadata.labels.items() if name != names.JOB_LABEL}
        self._change(member, labels=labels)

    async def bind(self, member: WorkloadPod, node: str, job: str, _sluid: str) -> None:
        self.bound[member.metadata.name] = node
        labels = {**member.metadata.labels, names.JOB_LABEL: job}
        spec = msgspec.structs.replace(member.spec, node_name=node)
        self._change(msgspec.structs.replace(member, spec=spec), labels=labels)

    def report_notes(self, _pod: WorkloadPod, notes: Iterable[str]) -> None:
        self.events += notes

    async def write_conditions(self, pods: Iterable[WorkloadPod], text: ConditionText) -> None:
        for member in pods:
            await self.write_condition(member, text)

    async def write_condition(self, member: WorkloadPod, text: ConditionText) -> None:
        self.conditions[member.metadata.name] = text

    async def evict(self, member: WorkloadPod, _end: ConditionText) -> None:
        self.evicted.append(member.metadata.name)

    async def write_end_conditions(self, member: WorkloadPod, end: ConditionText) -> None:
        self.conditions[member.metadata.name] = end

    async def remove_finalizer(self, member: WorkloadPod, event: ConditionText | None = None) -> None:
        self.released.append(member.metadata.name)
        self.events += [event.reason] if event else []
        self._change(member, finalizers=())


class MemoryExclusions:
    """Every host suits every pod, unless a test says otherwise."""

    def __init__(self, nodes: Cache[Node]) -> None:
        self._nodes = nodes
        self.excluded: frozenset[str] = frozenset()
        self.mismatch = ""
        self.ports_in_use = ""
        self.drained = False
        self.shortage: HostShortage | None = None
        self.room: ConditionText | None = None
        self.invalidated = 0

    def excluded_hosts(
        self, pods: Iterable[WorkloadPod], _partition: str, _per_node: int = 1
    ) -> dict[str, frozenset[str]]:
        return {member.metadata.uid: self.excluded for member in pods}

    def existing_hosts(self, hosts: Iterable[str]) -> frozenset[str]:
        return frozenset(hosts)

    def describe_unknown_name(self, _number: int, _job_spec: Any) -> str:
        return ""

    def room_shortage(self, _job_spec: Any) -> ConditionText | None:
        return self.room

    def find_host_shortage(self, _job_spec: Any) -> HostShortage | None:
        return self.shortage

    def node_of_host(self, host: str) -> Node | None:
        return self._nodes.get(Key("", host))

    def is_drained(self, _node: Node) -> bool:
        return self.drained

    def requirements_of(self, pods: Iterable[WorkloadPod]) -> list[tuple[WorkloadPod, NodeRequirements]]:
        return [(member, NodeRequirements()) for member in pods]

    def mismatch_reason(self, _requirements: NodeRequirements, _node: Node) -> str:
        return self.mismatch

    def reserve_ports(self, _pod: WorkloadPod, _node: str) -> str:
        return self.ports_in_use

    def invalidate(self) -> None:
        self.invalidated += 1


class MemoryClaims:
    """Claims that can always be allocated, unless a test says otherwise."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.needed = False
        self.released: list[str] = []

    def needs_claims(self, _pod: WorkloadPod) -> bool:
        return self.needed

    async def prepare(self, *_: Any) -> None:
        if self.error is not None:
            raise self.error

    async def release(self, member: WorkloadPod) -> None:
        self.released.append(member.metadata.name)

    async def delete_own_claim(self, _pod: WorkloadPod) -> None:
        """There is no claim."""


class MemoryStage:
    """Workloads of the scheduler on the nodes n1 and n2."""

    def __init__(self, *nodes: str, root: WorkloadRoot | None = None, gang: Workload | None = None) -> None:
        """All pods belong to `gang`, if there is one."""
        self.nodes = Cluster(*(nodes or ("n1", "n2")))
        indexes = {
            "group": grouping.group_keys_of,
            "job": by_label(names.JOB_LABEL),
            "node": lambda pod: (pod.spec.node_name,) if pod.spec.node_name else (),
        }
        self.pods: Cache[WorkloadPod] = Cache(OUR_PODS, indexes=indexes)
        self.clock, self.root, self.gang = self.nodes.clock, root or WorkloadRoot(), gang
        self.slurm, self.writer = MemorySlurm(), MemoryWriter(self.put)
        self.exclusions, self.claims = MemoryExclusions(self.nodes.nodes), MemoryClaims()
        self.enqueued: list[Workload] = []
        self.scheduled_groups: list[str] = []  # pods of native groups that were reported as scheduled
        self.stuck_pod: WorkloadPod | None = None
        self.would_start = True
        self.on_read: Callable[[], None] = lambda: None  # called while the options of a workload are read
        slurm: Any = self.slurm
        self.registry = JobRegistry(slurm, BridgeIdentity("c", "b"))
        self.registry.searched.set()
        settings = BridgeSettings()
        cluster: Any = SimpleNamespace(
            settings=settings,
            client=SimpleNamespace(clock=SimpleNamespace(now=lambda: NOW)),
            catalog=Catalog(),
            pods=self.pods,
            nodes=self.nodes.nodes,
            pods_of=self._pods_of,
            workload_of=self._workload_of,
            workloads_of=lambda members: set(map(self._workload_of, members)),
            root_of=self._root_of,
            is_reachable=self._is_reachable,
            other_pods_on=self._other_pods_on,
            report_groups_scheduled=self._report_groups_scheduled,
            find_stuck=lambda _: self.stuck_pod,
        )
        exclusions: Any = self.exclusions
        claims: Any = self.claims
        writer: Any = self.writer
        discovery: Any = SimpleNamespace(searched=self.registry.searched, search=self._search)
        demand: Any = SimpleNamespace(compute=self._compute_devices)
        volumes: Any = SimpleNamespace(provide_volumes=self._nothing)
        positions: Any = SimpleNamespace(describe=lambda _: "Position 1.")
        ranges: Any = SimpleNamespace(of=lambda _: None)
        job_specs = JobSpecs(settings, cluster, demand, exclusions)
        self.attempts = Attempts(self.clock, Evictions(self.clock, 10, 2, 0.25, lambda: 8), random.Random(1))  # noqa: S311
        submitter = Submitter(slurm, slurm, self.registry, discovery, self.clock, allocate_first=True)
        submitter.would_start = self._would_start  # type: ignore[method-assign]
        self.binder = Binder(cluster, exclusions, self.nodes.room, claims, volumes, writer)
        observer = NodeObserver(cluster, self.registry, exclusions, self.nodes.room)
        self.builder = SnapshotBuilder(cluster, self.registry, job_specs, observer, positions, ranges, self.attempts)
        self.executor = WorkloadExecutor(job_specs, submitter, self.binder, slurm, writer, self.attempts)
        self.reconciler = WorkloadReconciler(
            cluster, self.registry, self.builder, self.executor, self.attempts, self.clock, self.enqueued.append
        )

    # --- the cluster

    def put(self, member: WorkloadPod) -> WorkloadPod:
        """Cache a new version of a pod."""
        self.nodes.version += 1
        metadata = msgspec.structs.replace(member.metadata, resource_version=str(self.nodes.version))
        cached = msgspec.structs.replace(member, metadata=metadata)
        self.pods.put(cached)
        self.nodes.pods.put(cached)
        return cached

    def remove(self, name: str) -> None:
        """Delete a pod from the caches."""
        self.nodes.version += 1
        metadata = msgspec.structs.replace(self.get(name).metadata, resource_version=str(self.nodes.version))
        self.pods.remove(metadata)
        self.nodes.pods.remove(metadata)

    def put_node(self, changed: Node) -> None:
        """Cache a new version of a node."""
        self.nodes.version += 1
        metadata = msgspec.structs.replace(changed.metadata, resource_version=str(self.nodes.version))
        self.nodes.nodes.put(msgspec.structs.replace(changed, metadata=metadata))

    def remove_node(self, name: str) -> None:
        """Delete a node from the cache."""
        self.nodes.version += 1
        found = self.nodes.nodes.get(Key("", name))
        assert found is not None
        self.nodes.nodes.remove(msgspec.structs.replace(found.metadata, resource_version=str(self.nodes.version)))

    def get(self, name: str) -> WorkloadPod:
        """A cached pod."""
        found = self.pods.get(Key("ns", name))
        assert found is not None
        return found

    def finish(self, name: str, phase: str = "Succeeded") -> None:
        """The containers of a pod end."""
        member = self.get(name)
        self.put(msgspec.structs.replace(member, status=msgspec.structs.replace(member.status, phase=phase)))

    def _workload_of(self, member: WorkloadPod) -> Workload:
        if self.gang is not None:
            return self.gang
        return grouping.workload_of(member, lambda _kind, _key: None, self.registry.resolve_workload)

    def _pods_of(self, workload: Workload) -> list[WorkloadPod]:
        members = (member for member in self.pods if self._workload_of(member) == workload)
        return sorted(members, key=grouping.rank)

    async def _root_of(self, _workload: Workload, _pods: list[WorkloadPod]) -> WorkloadRoot:
        self.on_read()
        if self.root.unsupported == "missing":
            raise grouping.GroupMissing("Job j does not exist")
        return self.root

    def _is_reachable(self, name: str) -> bool | None:
        found = self.nodes.nodes.get(Key("", name))
        return None if found is None else found.ready

    def _other_pods_on(self, name: str, job: str) -> list[WorkloadPod]:
        found = self.pods.by("node", name)
        return [member for member in found if not pod_state.is_gone(member) and pod_state.job_id(member) != job]

    async def _report_groups_scheduled(self, pods: Iterable[WorkloadPod]) -> None:
        self.scheduled_groups += [member.metadata.name for member in pods]

    async def _compute_devices(self, _pods: Iterable[WorkloadPod]) -> DeviceNeeds:
        return DeviceNeeds()

    async def _search(self, _since: float) -> None:
        """Everything is registered."""

    def _would_start(self, job_spec: JobSpec) -> bool:
        return self.would_start and len(job_spec.requests) == 1

    async def _nothing(self, *_: Any) -> None:
        """Nothing to do."""

    # --- reconciling

    async def reconcile(self, workload: Workload | None = None) -> float | None:
        """Reconcile the workload of the first pod; when to look again."""
        key = workload or self._workload_of(next(iter(self.pods)))
        outcome = await self.reconciler.reconcile(key)
        return outcome.seconds if isinstance(outcome, RequeueAfter) else None

    def reason(self, name: str = "p") -> str:
        """The reason in the last condition of a pod."""
        return self.writer.conditions[name].reason
