# SPDX-License-Identifier: Apache-2.0
"""Glue: remembers generations in ConfigMaps, has them tried, asks slurmctld what it runs, and clears away.

Each generation is an immutable ConfigMap with its verdict in annotations; the ConfigMap that slurmctld mounts says
which one it holds and which one last ran. A verdict is written before it is acted upon, so that an operator that dies
in between goes on where it was.
"""

import asyncio
from contextlib import suppress
from typing import NamedTuple

from slinky.api.controller import Controller
from slinky.api.names import metadata
from slinky.kube.errors import AlreadyExists, Forbidden, Invalid
from slinky.kube.timestamps import format_timestamp, unix_seconds
from slinky.kube.types import Key
from slinky.kube.views import CONFIG_MAPS, PODS, Pod, Unstructured
from slinky.operator.controller import config_trial, objects
from slinky.operator.controller.conf import loaded_mark
from slinky.operator.controller.config_generation import (
    Decision,
    Generation,
    GenerationState,
    Observation,
    Past,
    decide,
    mark,
    superfluous,
)
from slinky.operator.controller.objects import Running
from slinky.operator.controller.plan import ControllerInputs, data, digest_of
from slinky.operator.framework.children import Child
from slinky.operator.framework.context import Context
from slinky.operator.framework.crash_message import Crash, crash
from slinky.operator.framework.kubelet_refresh import refresh
from slinky.operator.metrics import CONFIG_LOADED, CONFIG_TRIALS, CONFIG_WANTED, WRITES
from slinky.operator.slurm.clusters import Clusters
from slinky.slurm import SlurmError, Unsupported

OWNER = "generations"
TRIALS = "trials"
OFF = "off"
#: Seconds for slurmctld to say what it runs; a slurmrestd whose slurmctld is gone takes longer to say nothing.
ANSWER = 5.0


class Story(NamedTuple):
    """Where a Controller's configuration stands."""

    decision: Decision
    running: Running | None
    loaded: str | None
    crash: Crash | None


class GenerationStore:
    """The generations of every Controller."""

    def __init__(self, world: Context, clusters: Clusters) -> None:
        self.world = world
        self.clusters = clusters
        self._maps = world.children.caches[CONFIG_MAPS.name]
        self._maps.add_indexes({OWNER: _generation_of})
        world.pods.add_indexes({TRIALS: _trial_of})
        # Which generation was found loaded, by which pods: asked again when either changes.
        self._confirmed: dict[Key, tuple[object, ...]] = {}

    async def advance(self, of: Controller, facts: ControllerInputs) -> Story:
        """Judge, record and choose."""
        past = self.past(of)
        wanted = self._wanted(of, facts, past)
        fall = await self._fall(of, past)
        tried, words = await self._tried(of, wanted) or (None, "")
        seen = Observation(
            tried,
            words,
            loaded=await self._loaded(of, past),
            crashed=fall.words if fall else None,
            now=self._now(),
            patience=self._patience(of, past),
        )
        decision = decide(wanted, past, seen)
        if decision.trying and (hindrance := await self._try(of, decision.wanted, facts)):
            decision = decide(wanted, past, seen._replace(tried=GenerationState.UNKNOWN, tried_words=hindrance))
        for changed in decision.changed:
            await self.world.children.ensure(CONFIG_MAPS, objects.generation(of, changed))
        await self._clear(of, past, decision)
        self._measure(of, decision, seen.loaded)
        return Story(decision, self._running(past, decision), seen.loaded, fall)

    def past(self, of: Controller) -> Past:
        """What is remembered of a Controller."""
        kept = tuple(_read(found) for found in self._maps.by(OWNER, of.metadata.uid))
        live = self.world.children.find(CONFIG_MAPS, Key(of.metadata.namespace, of.config_name))
        marks = live.metadata.annotations if live else {}
        return Past(
            tuple(sorted(kept, key=lambda found: found.number)),
            used=marks.get(metadata.CONFIG_GENERATION, ""),
            good=marks.get(metadata.CONFIG_LAST_GOOD, ""),
            since=unix_seconds(marks.get(metadata.CONFIG_SINCE, "")),
        )

    async def unstick(self, of: Controller, story: Story) -> None:
        """A StatefulSet waits for ever for a pod that keeps failing: let go of one that fails with other files."""
        if story.decision.used is None:
            return
        past = self.past(of)
        for pod in self.pods(of):
            found = await self._crash(pod)
            if found is not None and not self._is_of(pod, found, of, past, story.decision.used.digest):
                await self.delete(pod)

    async def spread(self, of: Controller, story: Story) -> None:
        """Bring the files to a slurmctld that reads them in place."""
        if of.spec.inplace_reconfigure and story.decision.used is not None:
            for pod in self.pods(of):
                await refresh(self.world, pod, metadata.CONFIG_GENERATION, story.decision.used.mark)

    def forget(self, key: Key) -> None:
        """The Controller is gone."""
        self._confirmed.pop(key, None)
        for gauge in (CONFIG_WANTED, CONFIG_LOADED):
            with suppress(KeyError):
                gauge.remove(*key)

    def _wanted(self, of: Controller, facts: ControllerInputs, past: Past) -> Generation:
        digest = digest_of(of, facts, self.world.settings.images)
        known = past.same(digest)
        if known is not None:
            return known
        return Generation(past.next, digest, data(of, facts, mark(past.next, digest)), made=self._now())

    def _running(self, past: Past, decision: Decision) -> Running | None:
        used = decision.used
        if used is None:
            return None
        since = past.since if used.mark == past.used and past.since else self._now()
        marks = {
            metadata.CONFIG_GENERATION: used.mark,
            metadata.CONFIG_LAST_GOOD: decision.good,
            metadata.CONFIG_SINCE: format_timestamp(since),
        }
        return Running(used.data, used.digest, marks)

    def _patience(self, of: Controller, past: Past) -> float:
        settings = self.world.settings
        if of.metadata.annotations.get(metadata.CONFIG_TRIAL) == OFF:
            return 0.0
        return settings.trial_seconds if past.used else min(settings.trial_first, settings.trial_seconds)

    async def _tried(self, of: Controller, wanted: Generation) -> tuple[GenerationState, str] | None:
        key = config_trial.key(of, wanted)
        pod = self.world.pods.get(key)
        if wanted.verdict is not GenerationState.UNTRIED or pod is None or not pod.finished:
            return None
        whole = await self.world.client.find(PODS.viewed_as(Unstructured), key)
        found = config_trial.verdict(whole, wanted) if whole else None
        if found is not None:
            CONFIG_TRIALS.labels(found[0].value).inc()
        return found

    async def _try(self, of: Controller, wanted: Generation, facts: ControllerInputs) -> str:
        """Have the trial going; what stands against it, if it cannot be."""
        if self.world.pods.get(config_trial.key(of, wanted)) is not None:
            return ""
        await self.world.children.ensure(CONFIG_MAPS, objects.generation(of, wanted))
        name = objects.generation_name(of, wanted.number)
        manifest = config_trial.pod(of, wanted, name, facts.files, self.world.settings.images)
        WRITES.labels("create", "Pod").inc()
        try:
            self.world.pods.record_write(await self.world.client.create(PODS, manifest))
        except AlreadyExists:
            return ""
        except (Forbidden, Invalid) as error:
            return f"the trial could not be started: {error}"
        return ""

    async def _loaded(self, of: Controller, past: Past) -> str | None:
        """The generation that slurmctld itself reports; by its pod where it cannot be asked."""
        pods = tuple((p.metadata.uid, _restarts(p), p.ready) for p in self.pods(of))
        if self._confirmed.get(of.key) == (past.used, pods):
            return past.used
        if not any(pod.ready for pod in self.pods(of)):
            return None
        client = self.clusters.client(of.key)
        try:
            async with asyncio.timeout(ANSWER):
                found = loaded_mark((await client.conf()).settings.get("SlurmctldParameters", ())) if client else None
        except Unsupported:
            found = None
        except (SlurmError, TimeoutError):
            return None
        if found is None:
            found = self._loaded_by_pod(of, past)
        if found and found == past.used:
            self._confirmed[of.key] = (past.used, pods)
        return found

    def _loaded_by_pod(self, of: Controller, past: Past) -> str | None:
        """A ready pod that was started for a generation has read it; one that reads in place may not have."""
        used = past.find(past.used)
        if used is None or of.spec.inplace_reconfigure:
            return None
        ready = [pod for pod in self.pods(of) if pod.ready]
        there = any(pod.metadata.annotations.get(metadata.SLURM_CONFIG_HASH) == used.digest for pod in ready)
        return used.mark if there else None

    async def _fall(self, of: Controller, past: Past) -> Crash | None:
        """How slurmctld ends with the generation in use."""
        used = past.find(past.used)
        if used is None:
            return None
        for pod in self.pods(of):
            found = await self._crash(pod)
            if found is not None and self._is_of(pod, found, of, past, used.digest):
                return found
        return None

    def _is_of(self, pod: Pod, found: Crash, of: Controller, past: Past, digest: str) -> bool:
        """Whether a crash happened with these files."""
        if of.spec.inplace_reconfigure:
            return found.when >= past.since
        return pod.metadata.annotations.get(metadata.SLURM_CONFIG_HASH) == digest

    async def _crash(self, pod: Pod) -> Crash | None:
        if pod.ready or pod.metadata.deleting or not _restarts(pod):
            return None
        whole = await self.world.client.find(PODS.viewed_as(Unstructured), pod.key)
        return crash(whole, "slurmctld") if whole else None

    async def _clear(self, of: Controller, past: Past, decision: Decision) -> None:
        """Take away trials that are over, and generations that nobody needs."""
        going = config_trial.key(of, decision.wanted) if decision.trying else None
        for pod in self.world.pods.by(TRIALS, str(of.key)):
            if pod.key != going and not pod.metadata.deleting:
                await self.delete(pod)
        for old in superfluous(past, decision):
            key = Key(of.metadata.namespace, objects.generation_name(of, old.number))
            await self.world.children.remove(CONFIG_MAPS, key, of.metadata.uid)

    async def delete(self, pod: Pod) -> None:
        """Delete this very pod."""
        WRITES.labels("delete", "Pod").inc()
        self.world.pods.record_deletion(pod, await self.world.client.delete(PODS, pod.key, uid=pod.metadata.uid))

    def pods(self, of: Controller) -> list[Pod]:
        """The slurmctld of a Controller."""
        found = (self.world.pods.get(Key(of.metadata.namespace, name)) for name in of.pod_names)
        return [pod for pod in found if pod is not None]

    def _measure(self, of: Controller, decision: Decision, loaded: str | None) -> None:
        CONFIG_WANTED.labels(*of.key).set(decision.wanted.number)
        if loaded:
            CONFIG_LOADED.labels(*of.key).set(int(loaded.partition("-")[0]))

    def _now(self) -> float:
        return self.world.clock.now().timestamp()


def _read(found: Child) -> Generation:
    marks = found.metadata.annotations
    number, _, digest = marks.get(metadata.CONFIG_GENERATION, "0-").partition("-")
    return Generation(
        int(number) if number.isdigit() else 0,
        digest,
        found.data or {},
        GenerationState(marks[metadata.CONFIG_VERDICT]),
        marks.get(metadata.CONFIG_ERROR, ""),
        unix_seconds(found.metadata.creation_timestamp),
    )


def _generation_of(found: Child) -> tuple[str, ...]:
    owner = found.metadata.controller
    known = found.metadata.annotations.get(metadata.CONFIG_VERDICT, "") in set(GenerationState)
    return (owner.uid,) if owner is not None and known else ()


def _trial_of(pod: Pod) -> tuple[str, ...]:
    labels = pod.metadata.labels
    if labels.get(metadata.APP_NAME) != config_trial.TRIAL.app:
        return ()
    return (str(Key(pod.metadata.namespace, labels.get(metadata.APP_INSTANCE, ""))),)


def _restarts(pod: Pod) -> int:
    return next((s.restart_count for s in pod.status.container_statuses if s.name == "slurmctld"), 0)
