# SPDX-License-Identifier: Apache-2.0
"""Stores generations in ConfigMaps, runs their trials, asks slurmctld which one it runs, and deletes old ones.

Each generation is an immutable ConfigMap with its state in annotations. Annotations of the ConfigMap that slurmctld
mounts name the generation in it and the last one that was loaded. A state is written before the operator acts on it, so
that an operator that is restarted in between continues.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from slinky.api.controller import CONTROLLERS, Controller
from slinky.api.names import metadata
from slinky.api.names.child_names import SLURMCTLD, SLURMCTLD_TRIAL
from slinky.bounds import INT32_MAX, parse_integer
from slinky.kube.errors import AlreadyExists, Forbidden, Invalid
from slinky.kube.timestamps import age_seconds, format_timestamp, unix_seconds
from slinky.kube.types import Key
from slinky.kube.views import CONFIG_MAPS, PODS, Pod, Unstructured
from slinky.operator.controller import config_trial, objects
from slinky.operator.controller.conf import loaded_generation
from slinky.operator.controller.config_generation import (
    Decision,
    Generation,
    GenerationHistory,
    GenerationState,
    Observation,
    decide,
    generation_id,
    unneeded_generations,
    unread_images,
)
from slinky.operator.controller.config_trial import TrialResult
from slinky.operator.controller.objects import ActiveConfig
from slinky.operator.controller.plan import ControllerInputs, config_digest, config_files, wanted_image
from slinky.operator.controller.reconfiguration import AT_START, Load, start_generation
from slinky.operator.framework.children import Child
from slinky.operator.framework.context import Context
from slinky.operator.framework.crash_message import Crash, find_crash
from slinky.operator.framework.failure_causes import IMAGE_FAILURES, Failure, FailureCause, pod_failure
from slinky.operator.framework.pods import delete_pod, refresh_volumes
from slinky.operator.metrics import CONFIG_LOADED, CONFIG_TRIALS, CONFIG_WANTED, WRITES
from slinky.operator.slurm.clusters import Clusters
from slinky.operator.upgrades.peers import host_peers, slurmdbd_peer
from slinky.operator.upgrades.rules import ALLOWED, UpgradeVerdict
from slinky.operator.upgrades.version_reader import VersionReader
from slinky.slurm import SlurmError, Unsupported

#: Index of the ConfigMaps of generations by the uid of their Controller.
BY_CONTROLLER = "generations"
#: Index of trial pods by Controller.
TRIALS = "trials"
#: Failures of a pod for which a generation that never ran is rolled back.
START_FAILURES = IMAGE_FAILURES | {FailureCause.CONTAINER_NOT_CREATED}
#: Value of the annotation that disables trials.
OFF = "off"
#: Maximum seconds to wait for a trial of the first configuration, when no slurmctld runs yet.
FIRST_TRIAL_SECONDS = 15.0
#: Seconds that slurmctld has to report its configuration; slurmrestd without a slurmctld takes longer to fail.
REPORT_TIMEOUT = 5.0


class ConfigState(NamedTuple):
    """The state of a Controller's configuration."""

    decision: Decision
    active: ActiveConfig | None
    loaded: str | None
    trial_failure: Failure | None  # why the trial cannot run now
    load: Load = AT_START
    reading: bool = False  # whether a pod that reads the version of an image has not ended


class ImageVersions(NamedTuple):
    """What the pods that read versions have told of the images of a Controller."""

    versions: Mapping[str, str] = {}
    unread: UpgradeVerdict = ALLOWED  # on the wanted image, if its version is not known
    failure: Failure | None = None
    reading: bool = False


class GenerationStore:
    """The generations of every Controller."""

    def __init__(self, context: Context, clusters: Clusters) -> None:
        self.context = context
        self.clusters = clusters
        self._config_maps = context.children.caches[CONFIG_MAPS.name]
        self._versions = VersionReader(context)
        self._config_maps.add_indexes({BY_CONTROLLER: _owner_of_generation})
        context.pods.add_indexes({TRIALS: _controller_of_trial})
        # The generation that was found loaded, and the pods that ran it; slurmctld is asked again if either changes.
        self._confirmed: dict[Key, tuple[object, ...]] = {}
        # The Controllers whose slurmrestd cannot tell which generation slurmctld runs.
        self._silent: set[Key] = set()

    async def advance(self, controller: Controller, inputs: ControllerInputs) -> ConfigState:
        """Update the states of the generations, record them, and choose the one to run."""
        history = self.history(controller)
        wanted = self._wanted(controller, inputs, history)
        crash = self._crash_of_used(controller, history)
        trial = await self._trial_result(controller, wanted)
        trial_failure = await self._trial_failure(controller, wanted) if history.used else None
        observation = Observation(
            trial.state if trial else None,
            trial.message if trial else "",
            trial.version if trial else "",
            trial_blocked=trial_failure is not None,
            loaded=await self._loaded(controller, history),
            crash=crash.message if crash else None,
            now=self._now(),
            trial_timeout=self._trial_timeout(controller, history),
            slurmdbd=slurmdbd_peer(inputs.accounting),
            clients=host_peers(self.clusters.snapshot(controller.key).hosts.values()),
        )
        decision = decide(wanted, history, observation)
        if decision.trial_needed and (obstacle := await self._start_trial(controller, decision.wanted, inputs)):
            observation = observation._replace(trial=GenerationState.UNKNOWN, trial_message=obstacle)
            decision = decide(wanted, history, observation)
        images = await self._read_versions(controller, history, decision.wanted)
        observation = observation._replace(versions=images.versions, unread=images.unread)
        decision = decide(wanted, history, observation)
        for record in decision.changed:
            await self.context.children.apply(CONFIG_MAPS, objects.generation_config_map(controller, record))
        await self._clean_up(controller, history, decision)
        self._publish_metrics(controller, decision, observation.loaded)
        active, load = self._active_config(controller, history, decision)
        failure = trial_failure or images.failure
        return ConfigState(decision, active, observation.loaded, failure, load, images.reading)

    def history(self, controller: Controller) -> GenerationHistory:
        """Return the recorded generations of a Controller."""
        records = (_read_generation(child) for child in self._config_maps.by(BY_CONTROLLER, controller.metadata.uid))
        key = Key(controller.metadata.namespace, controller.config_name)
        live = self.context.children.find(CONFIG_MAPS, key)
        annotations = live.metadata.annotations if live else {}
        return GenerationHistory(
            tuple(sorted(records, key=lambda record: record.number)),
            used=annotations.get(metadata.CONFIG_GENERATION, ""),
            last_loaded=annotations.get(metadata.CONFIG_LAST_GOOD, ""),
            used_since=unix_seconds(annotations.get(metadata.CONFIG_SINCE, "")),
            started=annotations.get(metadata.CONFIG_STARTED, ""),
            reloaded=annotations.get(metadata.CONFIG_RELOADED) == "true",
            restart_keys=tuple(filter(None, annotations.get(metadata.CONFIG_RESTART_KEYS, "").split(","))),
        )

    async def delete_failed_pods(self, controller: Controller, state: ConfigState) -> None:
        """Delete pods that crash with other files than the chosen ones.

        A StatefulSet waits for ever for a pod that keeps crashing, and would not replace it.
        """
        if state.decision.used is None:
            return
        history = self.history(controller)
        for pod in self.pods(controller):
            crash = self._crash(pod)
            if crash is not None and not self._crashed_with(pod, crash, controller, history):
                await delete_pod(self.context, pod)

    async def refresh_files(self, controller: Controller, state: ConfigState) -> None:
        """Bring the chosen files to slurmctld pods that load them in place."""
        if state.load.in_place and state.decision.used is not None:
            for pod in self.pods(controller):
                await refresh_volumes(self.context, pod, metadata.CONFIG_GENERATION, state.decision.used.id)

    def is_running(self, controller: Controller, active: ActiveConfig) -> bool:
        """Return whether a ready pod was started with the configuration that is to run, or loads it in place."""
        ready = [pod.metadata.annotations.get(metadata.SLURM_CONFIG_HASH) for pod in self.pods(controller) if pod.ready]
        return bool(ready) if controller.spec.inplace_reconfigure else active.started in ready

    def forget(self, key: Key) -> None:
        """Discard what is remembered of a Controller that no longer exists."""
        self._confirmed.pop(key, None)
        self._silent.discard(key)
        for gauge in (CONFIG_WANTED, CONFIG_LOADED):
            with suppress(KeyError):
                gauge.remove(*key)

    def _wanted(self, controller: Controller, inputs: ControllerInputs, history: GenerationHistory) -> Generation:
        digest = config_digest(controller, inputs, self.context.images)
        known = history.find_digest(digest)
        if known is not None:
            return known
        number = history.next_number
        files = config_files(controller, inputs, generation_id(number, digest))
        image = wanted_image(controller, self.context.images)
        return Generation(number, digest, files, created=self._now(), image=image)

    def _active_config(
        self, controller: Controller, history: GenerationHistory, decision: Decision
    ) -> tuple[ActiveConfig | None, Load]:
        used = decision.used
        if used is None:
            return None, AT_START
        start = start_generation(history, used, in_place=self._reports(controller))
        since = history.used_since if used.id == history.used and history.used_since else self._now()
        annotations = {
            metadata.CONFIG_GENERATION: used.id,
            metadata.CONFIG_LAST_GOOD: decision.last_loaded,
            metadata.CONFIG_SINCE: format_timestamp(since),
            metadata.CONFIG_STARTED: start.digest,
            metadata.CONFIG_RELOADED: str(start.reloaded).lower(),
            metadata.CONFIG_RESTART_KEYS: ",".join(start.restart_keys),
        }
        in_place = controller.spec.inplace_reconfigure or start.reloaded
        load = Load(in_place, start.restart_keys, self._now() - since)
        return ActiveConfig(used.data, start.digest, annotations, used.image), load

    def _reports(self, controller: Controller) -> bool:
        """Return whether slurmctld can load files while it runs, and report through slurmrestd that it did."""
        asked = self.clusters.client(controller.key) is not None and controller.key not in self._silent
        return objects.reloads_files(controller) and asked

    def _trial_timeout(self, controller: Controller, history: GenerationHistory) -> float:
        timeout = self.context.settings.trial_seconds
        if controller.metadata.annotations.get(metadata.CONFIG_TRIAL) == OFF:
            return 0.0
        return timeout if history.used else min(FIRST_TRIAL_SECONDS, timeout)

    async def _trial_result(self, controller: Controller, wanted: Generation) -> TrialResult | None:
        key = config_trial.pod_key(controller, wanted)
        pod = self.context.pods.get(key)
        if wanted.state is not GenerationState.UNTRIED or pod is None or not pod.finished:
            return None
        whole_pod = await self.context.client.find(PODS.viewed_as(Unstructured), key)
        result = config_trial.trial_result(whole_pod, wanted) if whole_pod else None
        if result is not None:
            CONFIG_TRIALS.labels(result.state.value).inc()
        return result

    async def _trial_failure(self, controller: Controller, wanted: Generation) -> Failure | None:
        """Return why the image of a trial cannot be pulled; the trial waits for it, and slurmctld runs on."""
        pod = self.context.pods.get(config_trial.pod_key(controller, wanted))
        if wanted.state is not GenerationState.UNTRIED or pod is None or pod.metadata.deleting:
            return None
        now = self.context.clock.now()
        failure = pod_failure(pod, None, None, now)
        if failure is None or failure.cause not in IMAGE_FAILURES:
            return None
        if age_seconds(pod.metadata.creation_timestamp, now) > config_trial.POD_DEADLINE / 2:
            await delete_pod(self.context, pod)  # a new one follows, before the kubelet ends this one for its age
        return failure

    async def _start_trial(self, controller: Controller, wanted: Generation, inputs: ControllerInputs) -> str:
        """Create the trial pod if it does not exist; return why that is not possible, if it is not."""
        if self.context.pods.get(config_trial.pod_key(controller, wanted)) is not None:
            return ""
        await self.context.children.apply(CONFIG_MAPS, objects.generation_config_map(controller, wanted))
        name = objects.generation_name(controller, wanted.number)
        manifest = config_trial.pod(controller, wanted, name, inputs.files, self.context.images)
        WRITES.labels("create", "Pod").inc()
        try:
            self.context.pods.record_write(await self.context.client.create(PODS, manifest))
        except AlreadyExists:
            return ""
        except (Forbidden, Invalid) as error:
            return f"the trial pod cannot be created: {error}"
        return ""

    async def _read_versions(
        self, controller: Controller, history: GenerationHistory, wanted: Generation
    ) -> ImageVersions:
        """Read the versions that no trial has told, because it failed or was not possible."""
        result = ImageVersions()
        for image in unread_images(history, wanted):
            reading = await self._versions.read(CONTROLLERS, controller, SLURMCTLD.app, image, controller.spec.template)
            if reading.version is not None:
                result = result._replace(versions={**result.versions, image: str(reading.version)})
                continue
            result = result._replace(reading=result.reading or not reading.answer)
            if image == wanted.image:
                result = result._replace(unread=reading.verdict(SLURMCTLD.app, image), failure=reading.failure)
        return result

    async def _loaded(self, controller: Controller, history: GenerationHistory) -> str | None:
        """Return the generation that slurmctld reports; derived from its pod if slurmctld cannot be asked."""
        pods = self.pods(controller)
        identities = tuple((pod.metadata.uid, _restarts(pod), pod.ready) for pod in pods)
        if self._confirmed.get(controller.key) == (history.used, identities):
            return history.used
        if not any(pod.ready for pod in pods):
            return None
        try:
            loaded = await self._reported_generation(controller)
            self._silent.discard(controller.key)
        except Unsupported:
            self._silent.add(controller.key)
            loaded = None
        except (SlurmError, TimeoutError):
            return None
        if loaded is None:
            loaded = self._loaded_by_pod(controller, history)
        if loaded and loaded == history.used:
            self._confirmed[controller.key] = (history.used, identities)
        return loaded

    async def _reported_generation(self, controller: Controller) -> str | None:
        client = self.clusters.client(controller.key)
        if client is None:
            return None
        async with asyncio.timeout(REPORT_TIMEOUT):
            conf = await client.conf()
        return loaded_generation(conf.settings.get("SlurmctldParameters", ()))

    def _loaded_by_pod(self, controller: Controller, history: GenerationHistory) -> str | None:
        """Return the used generation if a ready pod was started with it; unknown for pods that read in place."""
        used = history.find(history.used)
        if used is None or controller.spec.inplace_reconfigure:
            return None
        ready = [pod for pod in self.pods(controller) if pod.ready]
        started = any(pod.metadata.annotations.get(metadata.SLURM_CONFIG_HASH) == used.digest for pod in ready)
        return used.id if started else None

    def _crash_of_used(self, controller: Controller, history: GenerationHistory) -> Crash | None:
        """Return how slurmctld fails to start with the generation in use."""
        used = history.find(history.used)
        if used is None:
            return None
        for pod in self.pods(controller):
            crash = self._crash(pod) or self._start_failure(pod)
            if crash is not None and self._crashed_with(pod, crash, controller, history):
                return crash
        return None

    def _crashed_with(self, pod: Pod, crash: Crash, controller: Controller, history: GenerationHistory) -> bool:
        """Return whether a crash happened with the generation in use."""
        in_place = controller.spec.inplace_reconfigure
        if (in_place or history.reloaded) and crash.time < history.used_since:
            return False
        started = history.started or history.used.partition("-")[2]
        return in_place or pod.metadata.annotations.get(metadata.SLURM_CONFIG_HASH) == started

    def _crash(self, pod: Pod) -> Crash | None:
        working = pod.ready or pod.metadata.deleting or not _restarts(pod)
        return None if working else find_crash(pod, "slurmctld")

    def _start_failure(self, pod: Pod) -> Crash | None:
        """Return why the kubelet cannot start slurmctld, which a StatefulSet would wait for without end."""
        failure = None if pod.ready else pod_failure(pod, None, None, self.context.clock.now())
        if failure is None or failure.cause not in START_FAILURES:
            return None
        return Crash(unix_seconds(pod.metadata.creation_timestamp), failure.describe())

    async def _clean_up(self, controller: Controller, history: GenerationHistory, decision: Decision) -> None:
        """Delete trial pods that have ended, and generations that are not needed."""
        running = config_trial.pod_key(controller, decision.wanted) if decision.trial_needed else None
        for pod in self.context.pods.by(TRIALS, str(controller.key)):
            if pod.key != running and not pod.metadata.deleting:
                await delete_pod(self.context, pod)
        for record in unneeded_generations(history, decision):
            key = Key(controller.metadata.namespace, objects.generation_name(controller, record.number))
            await self.context.children.delete_owned(CONFIG_MAPS, key, controller.metadata.uid)

    def pods(self, controller: Controller) -> list[Pod]:
        """Return the slurmctld pods of a Controller."""
        pods = (self.context.pods.get(Key(controller.metadata.namespace, name)) for name in controller.pod_names)
        return [pod for pod in pods if pod is not None]

    def _publish_metrics(self, controller: Controller, decision: Decision, loaded: str | None) -> None:
        CONFIG_WANTED.labels(*controller.key).set(decision.wanted.number)
        if loaded:
            CONFIG_LOADED.labels(*controller.key).set(parse_integer(loaded.partition("-")[0], 0, INT32_MAX) or 0)

    def _now(self) -> float:
        return self.context.clock.now().timestamp()


def _read_generation(child: Child) -> Generation:
    annotations = child.metadata.annotations
    number, _, digest = annotations.get(metadata.CONFIG_GENERATION, "0-").partition("-")
    return Generation(
        parse_integer(number, 0, INT32_MAX) or 0,
        digest,
        child.data or {},
        GenerationState(annotations[metadata.CONFIG_VERDICT]),
        annotations.get(metadata.CONFIG_ERROR, ""),
        unix_seconds(child.metadata.creation_timestamp),
        annotations.get(metadata.CONFIG_IMAGE, ""),
        annotations.get(metadata.CONFIG_VERSION, ""),
    )


def _owner_of_generation(child: Child) -> tuple[str, ...]:
    owner = child.metadata.controller
    is_generation = child.metadata.annotations.get(metadata.CONFIG_VERDICT, "") in set(GenerationState)
    return (owner.uid,) if owner is not None and is_generation else ()


def _controller_of_trial(pod: Pod) -> tuple[str, ...]:
    labels = pod.metadata.labels
    if labels.get(metadata.APP_NAME) != SLURMCTLD_TRIAL.app:
        return ()
    return (str(Key(pod.metadata.namespace, labels.get(metadata.APP_INSTANCE, ""))),)


def _restarts(pod: Pod) -> int:
    return next((s.restart_count for s in pod.status.container_statuses if s.name == "slurmctld"), 0)
