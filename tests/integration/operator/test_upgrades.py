# SPDX-License-Identifier: Apache-2.0
"""The order of upgrades, and the backup before slurmdbd is upgraded; the tests do the work of kubelets."""

from typing import Any

import pytest
from tests.integration.operator.stage import KEYS, OperatorStage
from tests.support.waiting import eventually

from slinky.api.accounting import ACCOUNTINGS
from slinky.api.controller import CONTROLLERS
from slinky.api.names import metadata
from slinky.kube import PODS, STATEFUL_SETS, Key
from slinky.kube.views import BATCH_JOBS, Unstructured

pytestmark = pytest.mark.plane

SPEC: dict[str, Any] = {
    "slurmKeyRef": KEYS["slurmKeyRef"],
    "jwtKeyRef": KEYS["jwtKeyRef"],
    "storageConfig": {"host": "db", "passwordKeyRef": {"name": "db", "key": "password"}},
}


async def accounting(stage: OperatorStage, image: str, **more: Any) -> None:
    await stage.apply(ACCOUNTINGS, "slurm", spec={**SPEC, "slurmdbd": {"image": image}, **more})


async def answer_version(stage: OperatorStage, image: str, message: str) -> None:
    """Do what a kubelet does with the pod that reads the version of this image."""

    async def find() -> Unstructured | None:
        pods = await stage.client.list(PODS.viewed_as(Unstructured), namespace=stage.namespace)
        readers = (pod for pod in pods if pod.metadata.labels.get(metadata.APP_NAME) == "slurm-version")
        return next((pod for pod in readers if pod.spec["containers"][0]["image"] == image), None)

    pod = await eventually(find, f"the pod that reads the version of {image}")
    assert pod is not None
    ended = {"exitCode": 0, "message": message, "reason": "Completed"}
    container = {"name": "version", "image": image, "imageID": "", "ready": False, "restartCount": 0}
    status = {"phase": "Succeeded", "containerStatuses": [{**container, "state": {"terminated": ended}}]}
    await stage.client.patch(PODS, pod.metadata.key, {"status": status}, subresource="status")
    await stage.wait_deleted(PODS, pod.metadata.name)


async def image(stage: OperatorStage, workload: str = "slurm-accounting") -> str:
    item = await stage.get(STATEFUL_SETS, workload)
    return str(item.spec["template"]["spec"]["containers"][0]["image"])


async def wait_image(stage: OperatorStage, name: str, workload: str = "slurm-accounting") -> None:
    async def is_used() -> bool:
        return await image(stage, workload) == name

    await eventually(is_used, f"the image {name}")


async def start_slurmdbd(stage: OperatorStage) -> None:
    """Do what the controller of StatefulSets does."""
    workload = await stage.get(STATEFUL_SETS, "slurm-accounting")
    counts = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"), 1)
    status = {**counts, "observedGeneration": workload.metadata.generation}
    await stage.client.patch(STATEFUL_SETS, workload.metadata.key, {"status": status}, subresource="status")


async def wait_version(stage: OperatorStage, version: str) -> None:
    async def is_reported() -> bool:
        item = await stage.get(ACCOUNTINGS, "slurm")
        return bool((item.status or {}).get("slurmVersion") == version)

    await eventually(is_reported, f"the version {version} in the status")


async def test_slurmdbd_is_upgraded_after_a_backup_and_never_downgraded(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.secret("db", password="secret")
    await accounting(stage, "old")
    assert await image(stage) == "old"
    await answer_version(stage, "old", "slurm 24.11.5")
    await wait_version(stage, "24.11.5")

    await accounting(stage, "new")
    await stage.wait_condition(ACCOUNTINGS, "slurm", "Progressing", "True", "ReadingVersion")
    await answer_version(stage, "new", "slurm-wlm 26.05.5")
    await stage.wait_condition(ACCOUNTINGS, "slurm", "Degraded", "True", "BackupMissing")
    assert await image(stage) == "old"

    await accounting(stage, "new", backup={"claimName": "keep"})
    await stage.wait_condition(ACCOUNTINGS, "slurm", "Progressing", "True", "BackingUp")
    (name,) = await stage.names(BATCH_JOBS)
    assert await image(stage) == "old"
    times = {"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:01Z"}
    conditions = [{"type": kind, "status": "True"} for kind in ("SuccessCriteriaMet", "Complete")]
    status = {**times, "conditions": conditions, "succeeded": 1}
    await stage.client.patch(BATCH_JOBS, Key(stage.namespace, name), {"status": status}, subresource="status")
    await wait_image(stage, "new")
    assert (await stage.get(ACCOUNTINGS, "slurm")).status["slurmVersion"] == "24.11.5", (
        "the new slurmdbd does not run yet"
    )
    await start_slurmdbd(stage)
    await wait_version(stage, "26.05.5")

    await accounting(stage, "old", backup={"claimName": "keep"})
    await stage.wait_condition(ACCOUNTINGS, "slurm", "Degraded", "True", "DowngradeRefused")
    assert await image(stage) == "new"

    await accounting(stage, "strange", backup={"claimName": "keep"})
    await answer_version(stage, "strange", "sh: slurmdbd: not found")
    await stage.wait_condition(ACCOUNTINGS, "slurm", "Degraded", "True", "VersionUnknown")
    assert await image(stage) == "new"
    await accounting(stage, "new", backup={"claimName": "keep"})
    await stage.wait_condition(ACCOUNTINGS, "slurm", "Degraded", "False", "AsExpected")


async def test_an_image_of_slurmctld_that_no_trial_has_started_is_judged_by_its_version(stage: OperatorStage) -> None:
    """The operator of these tests gives a trial no time, so every trial fails."""
    await stage.create_keys()
    await stage.apply_controller(slurmctld={"image": "old"})
    await wait_image(stage, "old", "slurm-controller")
    await answer_version(stage, "old", "slurm-wlm 25.11.2")

    await stage.apply_controller(slurmctld={"image": "older"})
    await stage.wait_condition(CONTROLLERS, "slurm", "Progressing", "True", "ReadingVersion")
    assert await image(stage, "slurm-controller") == "old"
    await answer_version(stage, "older", "slurm-wlm 24.11.5")
    await stage.wait_condition(CONTROLLERS, "slurm", "Degraded", "True", "DowngradeRefused")

    await stage.apply_controller(slurmctld={"image": "strange"})
    await answer_version(stage, "strange", "sh: slurmctld: not found")
    await stage.wait_condition(CONTROLLERS, "slurm", "Degraded", "True", "VersionUnknown")
    assert await image(stage, "slurm-controller") == "old"

    await stage.apply_controller(slurmctld={"image": "new"})
    await answer_version(stage, "new", "slurm-wlm 26.05.5")
    await wait_image(stage, "new", "slurm-controller")
