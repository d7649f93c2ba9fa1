# SPDX-License-Identifier: Apache-2.0
"""The pod that reads the version of an image, and the backup before an upgrade."""

import pytest
from tests.unit.operator.samples import accounting

from slinky.api.accounting import ACCOUNTINGS
from slinky.api.fields.templates import PodTemplate
from slinky.kube.types import Condition, ObjectMeta
from slinky.kube.views import BatchJob, BatchJobStatus, Unstructured
from slinky.operator.framework.conditions import ConditionState, ObjectHealth
from slinky.operator.upgrades.backup import BackupState, backup_job, backup_state
from slinky.operator.upgrades.conditions import with_verdict
from slinky.operator.upgrades.rules import ALLOWED, UpgradeAction, UpgradeVerdict
from slinky.operator.upgrades.version_pod import version_answer, version_pod, version_pod_key
from slinky.slurm.releases import Release, SlurmVersion

OLD = SlurmVersion(Release(24, 11), 5)


def finished(**terminated: object) -> Unstructured:
    status = {"containerStatuses": [{"name": "version", "state": {"terminated": terminated}}]}
    return Unstructured(metadata=ObjectMeta(name="x"), status=status)


def test_the_daemon_in_the_image_is_asked_and_not_the_tag() -> None:
    parent = accounting()
    template = PodTemplate(spec={"nodeSelector": {"a": "b"}, "containers": [{"name": "evil"}]})
    pod = version_pod(ACCOUNTINGS, parent, "slurmdbd", "registry/slurmdbd:99.99", template)
    (container,) = pod["spec"]["containers"]
    assert container["image"] == "registry/slurmdbd:99.99"
    assert container["command"][-1] == "slurmdbd"
    assert "registry" not in container["command"][2]
    assert pod["spec"]["nodeSelector"] == {"a": "b"}
    assert pod["metadata"]["name"] == version_pod_key(parent, "slurmdbd", "registry/slurmdbd:99.99").name
    assert version_pod_key(parent, "slurmdbd", "other") != version_pod_key(
        parent, "slurmdbd", "registry/slurmdbd:99.99"
    )


@pytest.mark.parametrize(
    ("terminated", "version"),
    [
        ({"exitCode": 0, "message": "slurm 24.11.5\n"}, OLD),
        ({"exitCode": 127, "message": "sh: 1: exec: slurmdbd: not found"}, None),
        ({"exitCode": 128, "reason": "StartError"}, None),
    ],
)
def test_only_an_answer_of_slurm_is_a_version(terminated: dict[str, object], version: SlurmVersion | None) -> None:
    assert version_answer(finished(**terminated))[0] == version


def test_the_backup_reads_the_password_from_its_secret_and_no_shell_evaluates_the_spec() -> None:
    storage = {"host": "$(reboot)", "username": "u", "passwordKeyRef": {"name": "pw", "key": "k"}, "database": "`x`"}
    parent = accounting(storageConfig=storage, backup={"claimName": "keep", "image": "db:1"})
    pod = backup_job(parent, OLD)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "db:1"
    assert "reboot" not in str(container["command"])
    variables = {item["name"]: item for item in container["env"]}
    assert variables["HOST"]["value"] == "$(reboot)"
    assert variables["MYSQL_PWD"]["valueFrom"] == {"secretKeyRef": {"name": "pw", "key": "k"}}
    assert pod["volumes"][0]["persistentVolumeClaim"] == {"claimName": "keep"}


@pytest.mark.parametrize(
    ("conditions", "state"),
    [([], BackupState.RUNNING), (["Complete"], BackupState.COMPLETE), (["Failed"], BackupState.FAILED)],
)
def test_the_state_of_a_backup(conditions: list[str], state: BackupState) -> None:
    found = tuple(Condition(type=name, status="True") for name in conditions)
    assert backup_state(BatchJob(metadata=ObjectMeta(name="x"), status=BatchJobStatus(conditions=found))) is state


def test_conditions_of_an_image_that_is_not_used() -> None:
    fine = ObjectHealth(ConditionState(True, "Available"))
    assert with_verdict(fine, ALLOWED) == fine
    waiting = with_verdict(fine, UpgradeVerdict(UpgradeAction.WAIT, "WaitingForUpgrade", "w"))
    assert (waiting.progressing.value, waiting.degraded.value, waiting.config.value) == (True, False, False)
    refused = with_verdict(fine, UpgradeVerdict(UpgradeAction.REFUSE, "DowngradeRefused", "d"))
    assert (refused.degraded.value, refused.degraded.reason, refused.ready.value) == (True, "DowngradeRefused", True)
