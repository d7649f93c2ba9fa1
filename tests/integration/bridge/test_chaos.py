# SPDX-License-Identifier: Apache-2.0
"""No device and no core is ever held twice, whatever happens and whenever the bridge is killed.

A seeded run of random steps on a real API server and a real slurmctld, against the real process. An observer judges
every event; at the end everything must have converged with nothing left behind. `SLINKY_SEED` repeats a run,
`SLINKY_STEPS` makes it longer.
"""

import asyncio
import contextlib
import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.integration.bridge.chaos import CPUS, Hands, Observer, Process, unclaimed
from tests.integration.bridge.rack import Rack, exactly, gpus, rack, single_cpus
from tests.integration.bridge.scene import eventually

from slinky.bridge import names
from slinky.bridge.config import DeviceProfile
from slinky.bridge.state.views import BATCH_JOBS
from slinky.kube import NODES, Key, KubeClient, NotFound
from slinky.kube.conditions import find_condition
from slinky.lab.kubernetes.bare_plane import PlainPlane
from slinky.lab.slurm.cluster import Beside
from slinky.slurm import SlurmClient as Slurm
from slinky.slurm import SlurmError

SEEDS = [int(os.environ["SLINKY_SEED"])] if "SLINKY_SEED" in os.environ else [1]
STEPS = int(os.environ.get("SLINKY_STEPS", "60"))
SHARED = {names.OPTION + "exclusive": "false"}


class Play:
    """The steps that can happen, each at random."""

    def __init__(self, made: Rack, seen: Observer, hands: Hands, bridge: Process, chance: random.Random) -> None:
        self.made, self.stage, self.seen, self.hands = made, made.stage, seen, hands
        self.bridge, self.chance, self.count = bridge, chance, 0

    @property
    def steps(self) -> list[tuple[int, Callable[[], Awaitable[None]]]]:
        """How likely what is."""
        return [
            (30, self.single),
            (10, self.gang),
            (8, self.claimed),
            (14, self.remove),
            (22, self.complete),
            (8, self.cancel),
            (10, self.kill),
            (5, self.cordon),
        ]

    async def step(self) -> None:
        """Do one thing, then wait for a moment that is never the same."""
        weights, choices = zip(*self.steps, strict=True)
        await self.chance.choices(choices, weights)[0]()
        await asyncio.sleep(self.chance.random() * 0.4)
        if self.chance.random() < 0.2:
            await self.catch_up()
        self.bridge.alive()
        self.seen.judge()

    async def catch_up(self) -> None:
        """Let the bridge see everything once, however slow the machine is: nothing happens to pods nobody looks at."""
        await self.bridge.ready()

        async def looked_at() -> bool:
            there = [pod for pod in self.seen.pods if not pod.spec.node_name and not pod.metadata.deleting]
            return all(find_condition(pod.status.conditions, names.SCHEDULED) for pod in there)

        await eventually(looked_at, "a word on every pod", 60)

    def name(self) -> str:
        self.count += 1
        return f"p{self.count}"

    def wish(self) -> dict[str, dict[str, str]]:
        amounts = self.chance.choice(
            [
                {self.made.resource: str(self.chance.randint(1, 3))},
                {names.DEVICE_CLASS_PREFIX + self.made.cpu: str(self.chance.randint(1, 7))},
                {self.made.resource: "1", names.DEVICE_CLASS_PREFIX + self.made.cpu: "3"},
                {"cpu": str(self.chance.randint(2, 12))},
            ]
        )
        return {"requests": amounts, "limits": amounts}

    async def single(self) -> None:
        annotations = SHARED if self.chance.random() < 0.8 else {}
        await self.stage.pod(self.name(), annotations=annotations, **self.wish())

    async def gang(self) -> None:
        size, name = self.chance.randint(2, 3), f"g{self.count}"
        options = {
            names.OPTION + "gang": "true",
            names.OPTION + "pods-per-node": str(self.chance.randint(1, 2)),
            **SHARED,
        }
        template = {"spec": {**self.stage.manifest("x")["spec"], "restartPolicy": "Never"}}
        spec = {"parallelism": size, "completions": size, "template": template}
        key = Key(self.stage.namespace, name)
        await self.stage.client.create(
            BATCH_JOBS, BATCH_JOBS.manifest(key, metadata={"annotations": options}, spec=spec)
        )
        wish = self.wish()
        for _ in range(size):
            await self.stage.pod(self.name(), labels={names.JOB_NAME: name}, **wish)

    async def claimed(self) -> None:
        """A pod with a claim of its own, now and then one that an earlier pod has already."""
        if self.count == 0 or self.chance.random() < 0.7:
            self.count += 1
            await self.made.claim(f"c{self.count}", exactly(self.made.gpu, count=self.chance.randint(1, 2)))
        listed = sorted(claim.metadata.name for claim in self.seen.claims if not claim.metadata.owner_references)
        name = self.chance.choice(listed) if listed else f"c{self.count}"
        await self.stage.pod(self.name(), annotations=SHARED, resourceClaims=[{"name": "g", "resourceClaimName": name}])

    async def remove(self) -> None:
        if found := self._some():
            with contextlib.suppress(NotFound):
                await self.stage.delete(found)

    async def complete(self) -> None:
        if found := self._some("Running"):
            self.hands.finish.add(found)

    def _some(self, *phases: str) -> str:
        found = sorted(pod.metadata.name for pod in self.seen.pods if not phases or pod.status.phase in phases)
        return self.chance.choice(found) if found else ""

    async def cancel(self) -> None:
        live = [job for job in await self.seen.jobs() if job.state.live]
        if live:
            job = self.chance.choice(live)
            self.seen.cancelled.add(job.job_id)
            with contextlib.suppress(SlurmError):
                await self.stage.slurm.cancel(job.job_id)

    async def kill(self) -> None:
        self.bridge.kill()
        await asyncio.sleep(self.chance.random() * 0.5)
        self.bridge.start()
        if self.chance.random() < 0.8:  # else the next one comes while it still looks around
            await self.bridge.ready()

    async def cordon(self) -> None:
        name, off = self.chance.choice(self.stage.nodes), self.chance.random() < 0.4
        await self.stage.client.patch(NODES, Key("", name), {"spec": {"unschedulable": off}})

    async def clear(self) -> None:
        """Let everything end."""
        for name in self.stage.nodes:
            await self.stage.client.patch(NODES, Key("", name), {"spec": {"unschedulable": None}})
        self.bridge.start()
        for pod in list(self.seen.pods):
            with contextlib.suppress(NotFound):
                await self.stage.delete(pod.metadata.name)


@pytest.mark.parametrize("seed", SEEDS)
async def test_no_device_or_core_is_held_twice(
    seed: int, kube: KubeClient, ctld: Slurm, plane: PlainPlane, slurm: Beside, tmp_path: Path
) -> None:
    print(f"repeat with SLINKY_SEED={seed}")
    chance = random.Random(seed)  # noqa: S311 -- a play, not a secret
    profile = {"device_profiles": lambda made: (DeviceProfile(driver=made.cpu, cores=True),)}
    async with rack(kube, ctld, **profile) as made:
        bridge = Process(made, plane, slurm, tmp_path)
        await made.device_class(made.gpu)
        await made.device_class(made.cpu)
        seen = Observer(made)
        hands = Hands(seen, random.Random(seed + 1))  # noqa: S311
        tasks = [asyncio.create_task(work()) for work in (seen.runtime.run, seen.watch, hands.work)]
        play = Play(made, seen, hands, bridge, chance)
        try:
            bridge.start()
            for number in (1, 2):
                node = f"{made.stage.name}-{number}"
                await made.publish(node, made.gpu, gpus(4))
                await made.publish(node, made.cpu, single_cpus(made.cpu, 8, threads=2))
                await made.stage.node(number, amounts={"cpu": str(CPUS)}, seconds=60)
            for _ in range(STEPS):
                await play.step()
            await play.clear()
            await eventually(lambda: unclaimed(seen), "the end of everything", 90)
            await seen.look()
            seen.judge()
            done = {
                "kills": bridge.kills,
                "cancelled": len(seen.cancelled),
                "started": hands.started,
                "devices": hands.given,
                "looks": seen.looks,
                "events": seen.events,
            }
            print(done)
            # A run in which little happens proves little.
            assert all(done.values()), done
            assert hands.started >= STEPS // 6, done
        except BaseException:
            print(bridge.tail())
            raise
        finally:
            bridge.kill()
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            for result in results:
                if isinstance(result, Exception):
                    raise result
