# SPDX-License-Identifier: Apache-2.0
"""Whatever fails and whenever the bridge is killed: no device or core is used twice, and nothing is left behind.

A seeded run of random steps on a real API server and a real slurmctld, against the bridge as a process or as two
replicas, with faults of the daemons around it. A checker tests the invariants at every event. At the end every job has
pods and every pod has its job, and after the last pod nothing is left.

`make test` runs three seeds, which together have every fault. `make chaos` runs `SLINKY_SEEDS` seeds with more steps
and every fault in each. `SLINKY_SEED` runs one seed only.
"""

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.bridge.bridge_stage import SHARED
from tests.integration.bridge.chaos import NODE_SIZE, InvariantChecker, KubeletSimulation, is_nothing_left
from tests.integration.bridge.chaos_faults import Fault, Faults
from tests.integration.bridge.chaos_processes import BridgeReplicas
from tests.integration.bridge.device_stage import DeviceStage, device_stage, exactly, gpus, same_limits, single_cpus
from tests.support.kubernetes_minor import MINOR
from tests.support.slurmrestd_proxy import SlurmrestdProxy
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.bridge.config import DeviceProfile
from slinky.bridge.views import BATCH_JOBS
from slinky.kube import NAMESPACES, AlreadyExists, Key, KubeClient, NotFound, connect
from slinky.kube.conditions import find_condition
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import SlurmClient as Slurm
from slinky.slurm import SlurmError

LONG = bool({"SLINKY_SEED", "SLINKY_SEEDS"} & os.environ.keys())
SEEDS = (
    [int(os.environ["SLINKY_SEED"])]
    if "SLINKY_SEED" in os.environ
    else range(1, 1 + int(os.environ.get("SLINKY_SEEDS", "3")))
)
STEPS = 100 if LONG else 24
#: Steps for which a fault lasts, and seconds for which slurmctld is stopped.
FAULT_STEPS = 5 if LONG else 3
STOPPED_SECONDS = 40.0 if LONG else 4.0
#: The seeds of a short run share the faults, and the first of three has two replicas, which are killed together.
SHORT_RUNS = 3


class RandomSteps:
    """Random steps of users, kubelets and administrators."""

    def __init__(
        self,
        stage: DeviceStage,
        checker: InvariantChecker,
        kubelets: KubeletSimulation,
        bridge: BridgeReplicas,
        faults: Faults,
        rng: random.Random,
    ) -> None:
        self.stage, self.checker, self.kubelets = stage, checker, kubelets
        self.bridge, self.faults, self.random, self.count = bridge, faults, rng, 0

    @property
    def steps(self) -> list[tuple[int, Callable[[], Awaitable[None]]]]:
        """Weights and steps."""
        return [
            (30, self.single),
            (10, self.gang),
            (8, self.claimed),
            (14, self.remove),
            (22, self.complete),
            (8, self.cancel),
            (10 if len(self.bridge.processes) == 1 else 4, self.kill),
            (5, self.cordon),
        ]

    async def step(self) -> None:
        """Do one step, then pause for a random time."""
        weights, choices = zip(*self.steps, strict=True)
        await self.random.choices(choices, weights)[0]()
        await asyncio.sleep(self.random.random() * 0.4)
        if self.random.random() < 0.2 and not self.faults.active:
            await self.catch_up()
        self.bridge.assert_alive()
        self.checker.assert_no_violation()

    async def catch_up(self) -> None:
        """Wait until the bridge has reconciled every pod once: on a slow machine it would fall behind the steps."""
        await self.bridge.wait_ready()

        async def reconciled() -> bool:
            waiting = [pod for pod in self.checker.pods if not pod.spec.node_name and not pod.metadata.deleting]
            return all(find_condition(pod.status.conditions, names.SCHEDULED) for pod in waiting)

        await eventually(reconciled, "a condition on every pod")

    def name(self) -> str:
        self.count += 1
        return f"p{self.count}"

    def resources(self) -> dict[str, dict[str, str]]:
        amounts = self.random.choice(
            [
                {self.stage.gpu_resource: str(self.random.randint(1, 3))},
                {names.DEVICE_CLASS_PREFIX + self.stage.cpu: str(self.random.randint(1, 7))},
                {self.stage.gpu_resource: "1", names.DEVICE_CLASS_PREFIX + self.stage.cpu: "3"},
                {"cpu": str(self.random.randint(2, 12))},
            ]
        )
        return same_limits(amounts)

    async def single(self) -> None:
        annotations = SHARED if self.random.random() < 0.8 else {}
        await self.stage.create_pod(self.name(), annotations=annotations, **self.resources())

    async def gang(self) -> None:
        size, name = self.random.randint(2, 3), f"g{self.count}"
        options = {
            names.OPTION + "gang": "true",
            names.OPTION + "pods-per-node": str(self.random.randint(1, 2)),
            **SHARED,
        }
        template = {"spec": {**self.stage.pod_manifest("x")["spec"], "restartPolicy": "Never"}}
        spec = {"parallelism": size, "completions": size, "template": template}
        key = Key(self.stage.namespace, name)
        await self.stage.client.create(
            BATCH_JOBS, BATCH_JOBS.manifest(key, metadata={"annotations": options}, spec=spec)
        )
        resources = self.resources()
        for _ in range(size):
            await self.stage.create_pod(self.name(), labels={names.JOB_NAME: name}, **resources)

    async def claimed(self) -> None:
        """A pod with a new claim, or sometimes with the claim of an earlier pod."""
        if self.count == 0 or self.random.random() < 0.7:
            self.count += 1
            await self.stage.create_claim(f"c{self.count}", exactly(self.stage.gpu, count=self.random.randint(1, 2)))
        listed = sorted(claim.metadata.name for claim in self.checker.claims if not claim.metadata.owner_references)
        name = self.random.choice(listed) if listed else f"c{self.count}"
        await self.stage.create_pod(
            self.name(), annotations=SHARED, resourceClaims=[{"name": "g", "resourceClaimName": name}]
        )

    async def remove(self) -> None:
        if pod := self._choose():
            with contextlib.suppress(NotFound):
                await self.stage.delete_pod(pod)

    async def complete(self) -> None:
        if pod := self._choose("Running"):
            self.kubelets.finish.add(pod)

    def _choose(self, *phases: str) -> str:
        pods = sorted(pod.metadata.name for pod in self.checker.pods if not phases or pod.status.phase in phases)
        return self.random.choice(pods) if pods else ""

    async def cancel(self) -> None:
        with contextlib.suppress(SlurmError):  # a fault may last
            live = [job for job in await self.checker.jobs() if job.state.live]
            if live:
                job = self.random.choice(live)
                self.checker.cancelled.add(job.sluid)
                await self.stage.slurm.cancel(job.sluid)

    async def kill(self) -> None:
        self.random.choice(self.bridge.processes).kill()
        await asyncio.sleep(self.random.random() * 0.5)
        self.bridge.start()
        if self.random.random() < 0.8 and not self.faults.active:  # else the next step comes while it still starts
            await self.bridge.wait_ready()

    async def cordon(self) -> None:
        await self.stage.cordon(self.random.choice(self.stage.nodes), self.random.random() < 0.4)

    async def end(self) -> None:
        """Let everything work again, compare jobs and pods, and delete every pod."""
        await self.faults.end()
        for name in self.stage.nodes:
            await self.stage.cordon(name, False)
        self.bridge.start()
        await eventually(self.checker.agreement, "agreement of jobs and pods")
        for pod in list(self.checker.pods):
            with contextlib.suppress(NotFound):
                await self.stage.delete_pod(pod.metadata.name)


@pytest.fixture(scope="module")
def chaos_plane() -> Iterator[BarePlane]:
    """A control plane that the tests may restart."""
    with BarePlane.running(MINOR) as plane:
        yield plane


@pytest.fixture(scope="module")
async def chaos_kube(chaos_plane: BarePlane) -> AsyncIterator[KubeClient]:
    """A client of that control plane."""
    async with connect(chaos_plane.kubeconfig, manager="slurm-bridge") as client:
        with contextlib.suppress(AlreadyExists):
            await client.create(NAMESPACES, NAMESPACES.manifest(Key("", "kube-system")))
        yield client


def plan_faults(faults: Faults, seed: int, rng: random.Random) -> dict[int, Fault]:
    """The faults of a run, by the step at which they begin. Each ends before the next begins."""
    chosen = faults.all if LONG else faults.all[(seed - 1) % SHORT_RUNS :: SHORT_RUNS]
    rng.shuffle(chosen)
    distance = STEPS // len(chosen)
    return {number * distance + rng.randrange(1, distance - FAULT_STEPS): fault for number, fault in enumerate(chosen)}


@pytest.mark.timeout(1800 if LONG else 600)
@pytest.mark.parametrize("seed", SEEDS)
async def test_no_device_or_core_is_held_twice(
    seed: int, chaos_kube: KubeClient, ctld: Slurm, chaos_plane: BarePlane, slurm: LabSlurm, tmp_path: Path
) -> None:
    settings = {
        "device_profiles": lambda stage: (DeviceProfile(driver=stage.cpu, cores=True),),
        "not_ready_seconds": 1,
        "lost_pods_evicted": 1000,
    }
    async with device_stage(chaos_kube, ctld, **settings) as stage, SlurmrestdProxy(slurm.url) as proxy:
        replicas = 2 if seed % SHORT_RUNS == 1 else 1
        bridge = BridgeReplicas.of(stage, chaos_plane, slurm, proxy.url, tmp_path, replicas)
        await stage.create_device_class(stage.gpu)
        await stage.create_device_class(stage.cpu)
        rng = random.Random(seed)  # noqa: S311
        checker = InvariantChecker(stage)
        kubelets = KubeletSimulation(checker, random.Random(seed + 1))  # noqa: S311
        faults = Faults(checker, kubelets, bridge, chaos_plane, slurm, proxy, rng, STOPPED_SECONDS)
        steps = RandomSteps(stage, checker, kubelets, bridge, faults, rng)
        planned = plan_faults(faults, seed, rng)
        ends = {begin + FAULT_STEPS for begin in planned}
        tasks = [asyncio.create_task(run()) for run in (checker.runtime.run, checker.watch, kubelets.run)]

        def counts() -> dict[str, int]:
            return {
                "kills": bridge.kills,
                "cancelled": len(checker.cancelled),
                "started": kubelets.started,
                "devices": kubelets.prepared_count,
                "checks": checker.checks,
                "events": checker.events,
            }

        try:
            bridge.start()
            for number in (1, 2):
                node = f"{stage.name}-{number}"
                await stage.publish(node, stage.gpu, gpus(4))
                await stage.publish(node, stage.cpu, single_cpus(stage.cpu, 8, threads=2))
                await stage.add_node(number, amounts=NODE_SIZE)
            # A run proves something only if enough happens, and on a slow machine less happens in each step.
            taken = 0
            while taken < STEPS or kubelets.started < STEPS // 6 or not all(counts().values()):
                if fault := planned.get(taken):
                    await faults.begin(fault)
                await steps.step()
                if taken in ends:
                    await faults.end()
                taken += 1
            await steps.end()
            await eventually(lambda: is_nothing_left(checker), "nothing left")
            checker.assert_no_violation()
        except BaseException:
            print(bridge.tails())
            raise
        finally:
            print(f"SLINKY_SEED={seed}, {replicas} replicas: {counts()}, {faults.history}")
            await faults.end()
            bridge.kill()
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            for result in results:
                if isinstance(result, Exception):
                    raise result
