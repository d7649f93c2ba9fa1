# SPDX-License-Identifier: Apache-2.0
"""Reads the version of Slurm in an image with a temporary pod, and remembers it."""

from typing import Any, NamedTuple

from slinky.api.controller import CONTROLLERS, Controller
from slinky.api.fields.templates import PodTemplate
from slinky.kube.errors import AlreadyExists, Forbidden, Invalid
from slinky.kube.resource import Resource
from slinky.kube.types import HasMeta
from slinky.kube.views import PODS, Unstructured
from slinky.observe import Log
from slinky.operator.framework.children import Child, container_image
from slinky.operator.framework.context import Context
from slinky.operator.framework.failure_causes import IMAGE_FAILURES, Failure, FailureCause, pod_failure
from slinky.operator.framework.pods import delete_pod
from slinky.operator.metrics import WRITES
from slinky.operator.upgrades.rules import ALLOWED, Peer, UpgradeAction, UpgradeVerdict, judge_upgrade
from slinky.operator.upgrades.version_pod import version_answer, version_pod, version_pod_key
from slinky.slurm.releases import SlurmVersion, parse_version

log = Log("slinky.operator.upgrades.version_reader")


class VersionReading(NamedTuple):
    """The version of an image; None while it is not known, and for an image that answers with none."""

    version: SlurmVersion | None = None
    failure: Failure | None = None
    answer: str = ""  # of an image without a version

    def verdict(self, daemon: str, image: str) -> UpgradeVerdict:
        """Return the verdict on an image whose version is not known."""
        if not self.answer:
            text = f"reading the version of {daemon} in {image}"
            return UpgradeVerdict(UpgradeAction.WAIT, "ReadingVersion", text)
        text = f"{daemon} in {image} does not print its version, but {self.answer[:200]!r}"
        hint = "use an image of Slurm, under another name or tag"
        return UpgradeVerdict(UpgradeAction.REFUSE, "VersionUnknown", f"{text}; {hint}")


class ImageChoice(NamedTuple):
    """The image to run and its version, and why the image of the spec is not used, if it is not."""

    image: str
    version: str = ""
    verdict: UpgradeVerdict = ALLOWED
    failure: Failure | None = None


class VersionReader:
    """Reads versions of images."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._versions: dict[tuple[str, str], SlurmVersion] = {}
        self._answers: dict[tuple[str, str], str] = {}  # of images without a version

    async def read(
        self, owners: Resource[Any], owner: HasMeta, daemon: str, image: str, template: PodTemplate
    ) -> VersionReading:
        """Return the version of a daemon in an image; the answer tells whether it is still asked."""
        if (daemon, image) in self._versions:
            return VersionReading(self._versions[daemon, image])
        if (daemon, image) in self._answers:
            return VersionReading(answer=self._answers[daemon, image])
        pod = self.context.pods.get(version_pod_key(owner, daemon, image))
        if pod is None:
            await self._create(version_pod(owners, owner, daemon, image, template))
            return VersionReading()
        if not pod.finished:
            failure = pod_failure(pod, None, None, self.context.clock.now())
            return VersionReading(failure=failure if failure and failure.cause in _CAUSES else None)
        whole_pod = await self.context.client.find(PODS.viewed_as(Unstructured), pod.key)
        version, text = version_answer(whole_pod) if whole_pod else (None, "nothing")
        await delete_pod(self.context, pod)
        if version is None:
            self._answers[daemon, image] = text
            return VersionReading(answer=text)
        self._versions[daemon, image] = version
        return VersionReading(version)

    async def choose_image(
        self, controller: Controller | None, daemon: str, live: Child | None, wanted: str, template: PodTemplate
    ) -> ImageChoice:
        """Return the image to run for a daemon that talks to slurmctld; `live` is its present Deployment."""
        running = container_image(live, daemon) if live else None
        return await self.choose_client_image(controller, daemon, running, wanted, template)

    async def choose_client_image(
        self, controller: Controller | None, daemon: str, running: str | None, wanted: str, template: PodTemplate
    ) -> ImageChoice:
        """Return `wanted` if slurmctld accepts its version, and otherwise the image `running`."""
        server = parse_version(controller.status.slurm_version) if controller else None
        if running is None or running == wanted or controller is None or server is None:
            return ImageChoice(wanted)
        reading = await self.read(CONTROLLERS, controller, daemon, wanted, template)
        if reading.failure is not None:  # an image that cannot be pulled stops its rollout by itself
            return ImageChoice(wanted)
        if reading.version is None:
            return ImageChoice(running, "", reading.verdict(daemon, wanted))
        peer = Peer(f"slurmctld of Controller {controller.metadata.name}", server)
        verdict = judge_upgrade(daemon, None, reading.version, peer)
        return ImageChoice(wanted if verdict.allowed else running, "", verdict)

    async def _create(self, manifest: dict[str, Any]) -> None:
        WRITES.labels("create", "Pod").inc()
        try:
            self.context.pods.record_write(await self.context.client.create(PODS, manifest))
        except (AlreadyExists, Forbidden, Invalid) as error:  # a quota or a policy; the next reconcile tries again
            log.info("the pod that reads a version was not created", error=error)


_CAUSES = IMAGE_FAILURES | {FailureCause.CONTAINER_NOT_CREATED}
