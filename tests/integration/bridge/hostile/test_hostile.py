# SPDX-License-Identifier: Apache-2.0
"""Hostile objects, requests and answers against the running processes: none ends, blocks, grows or starves others.

`make test` attacks for two minutes, beside other tests; `make hostile` for `SLINKY_HOSTILE_SECONDS` on a machine that
does nothing else, so that limits of time hold as well. `SLINKY_SEED` sets the seed.
"""

import asyncio
import base64
import contextlib
import json
import os
import random
import re
import secrets
import statistics
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.integration.bridge.bridge_stage import BridgeStage, bridge_stage, create_namespace
from tests.integration.bridge.hostile.objects import NODE_LABEL, HostileObjects
from tests.integration.bridge.hostile.processes import ObservedProcess
from tests.integration.bridge.hostile.requests import HostileCaller, HostileSlurmrestd
from tests.support.slurm_settings import slurm_settings
from tests.support.slurmrestd_proxy import SlurmrestdProxy
from tests.support.waiting import eventually

from slinky.api import CONTROLLERS, NODE_SETS, REST_APIS
from slinky.api.names.child_names import SLURMRESTD
from slinky.api.names.wellknown import SLURMRESTD_PORT
from slinky.bounds import MIB
from slinky.bridge.admission import rules as bridge_rules
from slinky.bridge.views import OUR_PODS
from slinky.kube import NODES, PODS, SECRETS, Key, KubeClient, KubeError, Resource, Unstructured
from slinky.kube.certificates import renew_bundle
from slinky.kube.tls import CERTIFICATE, PRIVATE_KEY
from slinky.lab.kubernetes.bare_plane import BarePlane, free_port
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import SlurmClient as Slurm
from slinky.webhook import application

ALONE = "SLINKY_HOSTILE_SECONDS" in os.environ
SECONDS = float(os.environ.get("SLINKY_HOSTILE_SECONDS", "120"))
SEED = int(os.environ.get("SLINKY_SEED", "1"))
#: The memory limits of the charts.
MEMORY = {
    "bridge": 1024 * MIB,
    "operator": 1024 * MIB,
    "exporter": 512 * MIB,
    "webhook": 512 * MIB,
    "bridge-admission": 512 * MIB,
}
#: A longer stall of the event loop delays the lease and the pods of all others. Beside other tests only the CPU time of
#: the process counts.
STALL_SECONDS = 1.0
#: Objects between two pods of another user, and how many of them exist at a time.
ROUND, ALIVE = 25, 400
#: Pods of the other user before the attack, with which those during the attack are compared.
BASELINE = 8
#: A pod of another user may start so many times later than before the attack: generous, because machines are busy.
SLOWER = 20
#: On a machine of its own, each pod of another user has its node after so many seconds.
START_SECONDS = 2.0
WEBHOOK_PATHS = (*map(application.path, application.RULES), application.BINDING_PATH)
BRIDGE_PATHS = (bridge_rules.MUTATE, bridge_rules.VALIDATE, bridge_rules.OPTIONS)


@pytest.fixture(scope="module")
def definitions(plane: BarePlane) -> None:
    text = subprocess.run([sys.executable, "-m", "slinky.api.crds"], capture_output=True, check=True).stdout
    argv = [str(plane.kubectl), f"--kubeconfig={plane.kubeconfig}"]
    subprocess.run([*argv, "apply", "--server-side", "-f", "-"], input=text, check=True, capture_output=True)
    subprocess.run([*argv, "wait", "--for=condition=Established", "crd", "--all"], check=True, capture_output=True)


class PodTimes(NamedTuple):
    """Seconds from the creation of a pod until it had a job, which the bridge submits, and a node, which Slurm chooses.

    The node may come with the next cycle of Slurm's backfill: see `scheduler`.
    """

    job: float
    node: float


class Attack:
    """All processes of slinky, a hostile namespace, and a slurmrestd that can be hostile."""

    def __init__(self, kube: KubeClient, stage: BridgeStage, namespace: str, proxy: SlurmrestdProxy) -> None:
        self.kube, self.stage, self.namespace, self.proxy = kube, stage, namespace, proxy
        self.rng = random.Random(SEED)  # noqa: S311 -- a seed that can be repeated
        self.node_prefix = f"{namespace}-node-"
        self.objects = HostileObjects(self.rng, namespace, stage.settings.scheduler_name, self.node_prefix)
        self._generated = self.objects.generate()
        self._alive: deque[tuple[Resource[Any], Key]] = deque()
        self.processes: list[ObservedProcess] = []
        self.callers: list[HostileCaller] = []
        self.answers: Counter[int] = Counter()
        self.created = self.refused = self.pods = 0

    async def create_objects(self) -> None:
        """Create some objects, send them to the webhooks, and delete the oldest ones."""
        batch = [next(self._generated) for _ in range(ROUND)]
        await asyncio.gather(*(self._create(*one) for one in batch))
        for caller in self.callers:
            self.answers.update(await asyncio.gather(*(caller.send(*one) for one in batch[::5])))
        surplus = [self._alive.popleft() for _ in range(len(self._alive) - ALIVE)]
        await asyncio.gather(*(self._delete(*one) for one in surplus))

    async def _create(self, resource: Resource[Any], manifest: dict[str, Any]) -> None:
        with contextlib.suppress(KubeError):  # what the API server itself refuses
            item = await self.kube.create(resource.viewed_as(Unstructured), manifest)
            self.created += 1
            self._alive.append((resource, item.key))
            if resource is OUR_PODS:  # annotations can be changed while a pod runs
                patch = {"metadata": {"annotations": self.objects.annotations()}}
                await self.kube.patch(resource, item.key, patch)
            return
        self.refused += 1

    async def _delete(self, resource: Resource[Any], key: Key) -> None:
        with contextlib.suppress(KubeError):
            await self.kube.delete(resource, key, grace=0)

    async def run_pod(self) -> PodTimes:
        """Run a pod of another user to its end; returns the seconds until it had a job, and until it had a node."""
        name, begin = f"good-{self.pods}", time.monotonic()
        self.pods += 1
        await self.stage.create_pod(name)
        await self.stage.wait_job(name)
        job = time.monotonic() - begin
        await self.stage.wait_bound(name)
        node = time.monotonic() - begin
        await self.stage.report_phase(name, "Succeeded", 0)
        await self.stage.wait_released(name)
        return PodTimes(job, node)

    async def create_cluster(self, jwt_key: bytes, address: str) -> None:
        """A cluster with a NodeSet whose slurmrestd has this address, for the operator."""
        for name, value in (("slurm", b"k" * 64), ("jwt", jwt_key)):
            data = {f"{name}.key": base64.b64encode(value).decode()}
            await self.kube.create(SECRETS, SECRETS.manifest(Key(self.namespace, f"{name}-key"), data=data))
        keys = {f"{name}KeyRef": {"name": f"{name}-key", "key": f"{name}.key"} for name in ("slurm", "jwt")}
        key, reference = Key(self.namespace, "slurm"), {"controllerRef": {"name": "slurm"}}
        await self.kube.create(CONTROLLERS, CONTROLLERS.manifest(key, spec=keys))
        await self.kube.create(REST_APIS, REST_APIS.manifest(key, spec=reference))
        await self.kube.create(NODE_SETS, NODE_SETS.manifest(key, spec={**reference, "replicas": 3}))
        pod, spec = Key(self.namespace, "slurmrestd"), {"containers": [{"name": "slurmrestd", "image": "x"}]}
        await self.kube.create(PODS, PODS.manifest(pod, metadata={"labels": SLURMRESTD.labels("slurm")}, spec=spec))
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [ready]}
        await self.kube.patch(PODS, pod, {"status": status}, subresource="status")

    async def end(self) -> None:
        """End the processes, the jobs and the nodes of the attack."""
        for process in self.processes:
            process.stop()
        jobs = await self.stage.slurm.jobs()
        for job in jobs.items if jobs else ():
            if f'"{self.namespace}/' in job.admin_comment and job.state.live:
                await self.stage.slurm.cancel(job.job_id)
        for node in await self.kube.list(NODES):
            if node.metadata.name.startswith(self.node_prefix):
                await self.kube.delete(NODES, Key("", node.metadata.name))


@pytest.fixture
def scheduler(slurm: LabSlurm) -> Iterator[None]:
    """Slurm with the scheduler's settings that the installation recommends.

    Slurm starts a job behind pending ones of its partition only in the next cycle of backfill, of whichever user.
    """
    page = (Path(__file__).parents[4] / "docs/bridge/install.md").read_text()
    (settings,) = re.findall(r"(?m)^SchedulerParameters=(\S+)", page)
    with slurm_settings(slurm, {"SchedulerParameters": settings}):
        yield


@pytest.fixture
async def stage(kube: KubeClient, ctld: Slurm, job_sets: None, scheduler: None) -> AsyncIterator[BridgeStage]:
    """A namespace of a user who wants to work."""
    async with bridge_stage(kube, ctld) as stage:
        yield stage


@pytest.fixture
async def attack(
    kube: KubeClient, plane: BarePlane, slurm: LabSlurm, stage: BridgeStage, definitions: None, tmp_path: Path
) -> AsyncIterator[Attack]:
    """Every process of slinky; those that read Slurm read it through a proxy."""
    address = f"127.{secrets.randbelow(200) + 20}.{secrets.randbelow(250)}.{secrets.randbelow(250) + 2}"
    key, config, webhook_port, admission_port = tmp_path / "jwt", tmp_path / "config.yaml", free_port(), free_port()
    key.write_bytes(slurm.jwt_key)
    serving = renew_bundle(None, ("127.0.0.1",), datetime.now(UTC)).serving
    (tmp_path / CERTIFICATE).write_text(serving.certificate)
    (tmp_path / PRIVATE_KEY).write_text(serving.key)
    async with SlurmrestdProxy(slurm.url, address, SLURMRESTD_PORT) as proxy:
        settings = msgspec.structs.replace(stage.settings, slurm_rest_api=proxy.url, jwt_key_file=str(key))
        config.write_text(json.dumps(msgspec.to_builtins(settings)))
        attack = Attack(kube, stage, await create_namespace(kube), proxy)
        await attack.create_cluster(slurm.jwt_key, address)
        certificates = ["--certificates", str(tmp_path)]
        operator = ["--namespaces", attack.namespace, "--cluster-domain", "cluster.local", "--pod-addresses"]
        commands = {
            "bridge": ["--config", str(config)],
            "operator": [*operator, "--no-leader-elect", "--trial-seconds", "0"],
            "exporter": ["--slurm-rest-api", proxy.url, "--jwt-key-file", str(key), "--users", "--jobs"],
            "webhook": ["--server-addr", f"127.0.0.1:{webhook_port}", *certificates],
            "bridge-admission": ["--config", str(config), "--port", str(admission_port), *certificates],
        }
        try:
            for name, arguments in commands.items():
                log = tmp_path / f"{name}.log"
                attack.processes.append(ObservedProcess(name, *arguments, kubeconfig=plane.kubeconfig, log=log))
            for process in attack.processes:
                await eventually(process.is_ready, f"readiness of {process.command}")
            for port, paths in ((webhook_port, WEBHOOK_PATHS), (admission_port, BRIDGE_PATHS)):
                attack.callers.append(HostileCaller(f"https://127.0.0.1:{port}", paths, attack.rng))
            yield attack
        finally:
            await attack.end()


async def test_hostile_input_stops_no_process_and_delays_no_other_user(attack: Attack, slurm: LabSlurm) -> None:
    await attack.stage.add_node(1)
    await attack.stage.add_node(2, labels=NODE_LABEL)
    calm = [await attack.run_pod() for _ in range(BASELINE)]
    attacked = []
    end = time.monotonic() + SECONDS
    hostile_slurm = HostileSlurmrestd(slurm.url, attack.rng)
    while time.monotonic() < end:
        for _ in range(4):
            await attack.create_objects()
            attacked.append(await attack.run_pod())
        # The answers of Slurm are hostile for a while; nothing is asked of the processes but to survive.
        attack.proxy.fault, answers = hostile_slurm, hostile_slurm.answers
        await attack.create_objects()
        await eventually(lambda: hostile_slurm.answers >= answers + 20, "hostile answers that were read")  # noqa: B023
        attack.proxy.fault = None
        await attack.run_pod()
        for process in attack.processes:
            process.assert_alive()
    await hostile_slurm.close()
    print(f"{attack.created} objects, {attack.refused} refused, {hostile_slurm.answers} answers, {attack.answers}")
    assert attack.created > 0
    assert 200 in attack.answers
    assert 500 not in attack.answers
    for process in attack.processes:
        observation = await process.observe()
        print(process.command, observation)
        stall = observation.lag_seconds if ALONE else observation.busy_seconds
        assert stall < STALL_SECONDS, (process.command, observation, process.tail())
        assert observation.peak_bytes < MEMORY[process.command], (process.command, observation)
        assert not observation.bugs, (process.command, observation, process.tail())
    for number, name in enumerate(PodTimes._fields):
        before, during = ([times[number] for times in pods] for pods in (calm, attacked))
        print(f"a {name} for another user's pod: {_summary(before)} before, {_summary(during)} during the attack")
        assert statistics.median(during) < SLOWER * max(before), name
    late = [times for times in attacked if times.node > START_SECONDS]
    assert not ALONE or not late, (len(late), len(attacked), late[:20])


def _summary(seconds: list[float]) -> str:
    high = statistics.quantiles(seconds, n=20)[-1]
    return (
        f"{len(seconds)} pods, median {statistics.median(seconds):.2f} s, 95 % {high:.2f} s, all {max(seconds):.2f} s"
    )
