# SPDX-License-Identifier: Apache-2.0
"""How long a pending job on an empty NodeSet waits until its pod exists, beside many other pending jobs.

Each sample uses a NodeSet of its own without workers. Its jobs ask for a feature that only the workers of this NodeSet
have. The other jobs ask for a host that is drained: they are pending and the demand model judges all of them, but no
NodeSet can help them. The floor of the same run is the least that anyone could do: read the states of all jobs once,
read the new job, create a pod, and see the pod in a watch.
"""

import asyncio
import time

from bench.operator_cluster import BenchNamespace, OperatorProcess, bench_namespace, wait_until
from bench.operator_reaction import p95
from bench.operator_scale_out import watch_workers
from slinky.api.names.child_names import SLURMD
from slinky.api.nodeset import NODE_SETS
from slinky.kube import PODS, Cache, Pod
from slinky.lab.lab import Lab
from slinky.slurm import JobRequest, MintedToken, NodeUpdate, SlurmClient, node_conf, number

NAMESPACE = "elastic"
#: Jobs that are submitted at the same time.
SUBMISSIONS = 8
#: Seconds within which a pod must exist, so that a defect does not block the run.
TIMEOUT = 60


async def measure_growth(lab: Lab, others: int, samples: int) -> dict[str, float]:
    """The 95th percentiles in seconds: of the operator, and of the floor."""
    tokens = MintedToken(lambda: lab.slurm.jwt_key, "slurm")
    async with SlurmClient(lab.slurm.url, tokens) as slurm, bench_namespace(lab, NAMESPACE) as namespace:
        await create_hosts(slurm, samples)
        await submit_others(slurm, others)
        try:
            await namespace.cluster(lab.slurm.address)
            async with OperatorProcess(lab, NAMESPACE) as operator, watch_workers(namespace) as pods:
                for sample in range(samples):
                    await apply_empty_set(namespace, sample)
                await wait_until(lambda: is_followed(namespace, samples), "the autoscaler", 600, every=1.0)
                await operator.quiet()
                reactions = [await time_growth(slurm, pods, sample) for sample in range(samples)]
                print(f"seconds by sample: {', '.join(f'{seconds:.1f}' for seconds in reactions)}", flush=True)
                floors = [await time_floor(slurm, namespace, pods, sample) for sample in range(samples)]
        finally:
            lab.slurm.exec("scancel", "--user=slurm")
    return {"p95": p95(reactions), "median": sorted(reactions)[samples // 2], "floor p95": p95(floors)}


async def time_growth(slurm: SlurmClient, pods: Cache[Pod], sample: int) -> float:
    """Seconds from the submission of a job until the pod of a worker exists."""
    began = time.monotonic()
    await slurm.submit(pending_job(feature(sample)))
    await wait_until(lambda: has_pod(pods, f"set-{sample}-0"), f"a worker of set-{sample}", TIMEOUT, every=0.005)
    return time.monotonic() - began


async def time_floor(slurm: SlurmClient, namespace: BenchNamespace, pods: Cache[Pod], sample: int) -> float:
    """The same without a decision."""
    name, began = f"floor-{sample}", time.monotonic()
    job = (await slurm.submit(pending_job(feature(sample)))).job_id
    await slurm.job_states()
    await slurm.job(job)
    spec = {"schedulerName": "nobody", "containers": [{"name": "slurmd", "image": "x"}]}
    await namespace.apply(PODS, name, metadata={"labels": SLURMD.labels("floor")}, spec=spec)
    await wait_until(lambda: has_pod(pods, name), name, TIMEOUT, every=0.005)
    return time.monotonic() - began


async def apply_empty_set(namespace: BenchNamespace, sample: int) -> None:
    """A NodeSet without workers, which grows with its jobs."""
    spec = {
        "controllerRef": {"name": "slurm"},
        "replicas": 0,
        "slurmd": {"image": "x"},
        "logfile": {"image": "x"},
        "extraConf": f"CPUs=2 RealMemory=1000 Features=ext,{feature(sample)}",
        "autoscaling": {"maxReplicas": 4},
        "template": {"spec": {"schedulerName": "nobody"}},
    }
    await namespace.apply(NODE_SETS, f"set-{sample}", spec=spec)


async def create_hosts(slurm: SlurmClient, samples: int) -> None:
    """Hosts from which slurmctld knows the features that jobs ask for; they are drained, as their workers are gone."""
    for name in ("busy", *(feature(sample) for sample in range(samples))):
        shape: dict[str, str | int] = {"CPUs": 2, "RealMemory": 1000, "State": "EXTERNAL", "Feature": f"ext,{name}"}
        await slurm.create_node(node_conf(f"host-{name}", NodeAddr="127.0.0.1", **shape))
        await slurm.update_node(f"host-{name}", NodeUpdate(state=["DRAIN"], reason="bench"))


async def submit_others(slurm: SlurmClient, count: int) -> None:
    """Jobs that stay pending."""
    numbers = iter(range(count))

    async def submit() -> None:
        for _ in numbers:
            await slurm.submit(pending_job("busy"))

    await asyncio.gather(*(submit() for _ in range(SUBMISSIONS)))


def feature(sample: int) -> str:
    return f"f{sample}"


def pending_job(constraint: str) -> JobRequest:
    """A job that only hosts with this feature can run."""
    return JobRequest(
        name="bench",
        partition="ext",
        account="lab",
        flags=["EXTERNAL_JOB"],
        current_working_directory="/",
        constraints=constraint,
        tasks=1,
        memory_per_node=number(100),
        time_limit=number(60),
    )


async def is_followed(namespace: BenchNamespace, count: int) -> bool:
    """Whether the autoscaler has decided on every NodeSet, and none has a worker."""
    items = await namespace.client.list(NODE_SETS, namespace=namespace.namespace)
    states = [item.status.autoscaling for item in items]
    return len(states) == count and all(state and state.reason == "Steady" for state in states)


async def has_pod(pods: Cache[Pod], name: str) -> bool:
    return any(pod.metadata.name == name for pod in pods)
