# SPDX-License-Identifier: Apache-2.0
"""When slurmctld starts to use an Accounting, and whether slurmdbd has registered the cluster."""

from typing import Any

import msgspec
import pytest
from tests.unit.operator.controller.test_controller import inputs
from tests.unit.operator.samples import NOW, accounting, ago, controller, pod

from slinky.api.accounting import Accounting, AccountingStatus
from slinky.kube.types import Condition
from slinky.kube.views import STATEFUL_SETS, ContainerRunning, ContainerRunState, ContainerStatus, Pod
from slinky.operator.build.pod_parts import Images
from slinky.operator.controller.accounting_switch import (
    Registration,
    accounting_to_use,
    active_seconds,
    needs_restart,
    storage_host,
    with_accounting,
)
from slinky.operator.controller.objects import ActiveConfig
from slinky.operator.controller.plan import config_digest, config_files, plan
from slinky.operator.framework.conditions import ConditionState, ObjectHealth

PARENT = controller(accountingRef={"name": "slurm"})
OUTSIDE = accounting(external=True, externalConfig={"host": "old-dbd", "port": 6819})
GREEN = ObjectHealth(ConditionState(True, "Available"), config=ConditionState(True, "Loaded"))


def with_ready(value: bool, since: float = 60) -> Accounting:
    ready = Condition("Ready", str(value), "x", "slurmdbd cannot reach db:3306", last_transition_time=ago(since))
    return msgspec.structs.replace(accounting(), status=AccountingStatus(conditions=(ready,)))


READY, LATE = with_ready(True), with_ready(False)


def files(used: Accounting | None) -> Any:
    return config_files(PARENT, inputs(accounting=used))


# law, wanted, files of slurmctld, Accounting to use
CHOICES: list[tuple[str, Accounting | None, Any, Accounting | None]] = [
    ("none is wanted", None, files(READY), None),
    ("a new cluster waits for slurmdbd in its pod", LATE, None, LATE),
    ("a running slurmctld is not changed for a slurmdbd that does not answer", LATE, files(None), None),
    ("a running slurmctld keeps its slurmdbd until the other answers", LATE, files(OUTSIDE), OUTSIDE),
    ("a slurmdbd that answers is used", READY, files(None), READY),
    ("a slurmdbd that no longer answers stays configured", LATE, files(LATE), LATE),
    ("a slurmdbd outside is used as written", OUTSIDE, files(None), OUTSIDE),
]


@pytest.mark.parametrize(("law", "wanted", "running", "used"), CHOICES, ids=[case[0] for case in CHOICES])
def test_which_accounting_slurmctld_uses(
    law: str, wanted: Accounting | None, running: Any, used: Accounting | None
) -> None:
    assert accounting_to_use(wanted, running, [LATE, OUTSIDE]) == used


def test_the_host_is_read_from_slurm_conf() -> None:
    assert storage_host(files(READY)) == READY.host
    assert storage_host(files(None)) == storage_host({}) == storage_host({"slurm.conf": "broken"}) == ""


def test_the_pod_waits_for_slurmdbd_only_with_files_that_name_it() -> None:
    """While the generation with the Accounting is tried, the pod of the earlier one is not changed."""
    known = inputs(accounting=READY, wanted_accounting=READY)

    def init_containers(used: Accounting | None) -> list[str]:
        active = ActiveConfig(files(used), config_digest(PARENT, known, Images("x/{daemon}")))
        made = plan(PARENT, known, Images("x/{daemon}"), active).apply
        workload = next(item for resource, item in made if resource is STATEFUL_SETS)
        return [container["name"] for container in workload["spec"]["template"]["spec"]["initContainers"]]

    assert init_containers(READY) == ["reconfigure", "logfile", "await-accounting"]
    assert init_containers(None) == ["reconfigure", "logfile"]


def test_a_postponed_accounting_does_not_block_other_changes() -> None:
    assert config_digest(PARENT, inputs(accounting=None, wanted_accounting=LATE), Images("x"))


# wanted, used, registration, reason (None: nothing is wrong), whether Degraded
REPORTS: list[tuple[Accounting | None, Accounting | None, Registration, str | None, bool]] = [
    (None, None, Registration.UNKNOWN, None, False),
    (LATE, None, Registration.UNKNOWN, "WaitingForAccounting", True),
    (LATE, OUTSIDE, Registration.UNKNOWN, "WaitingForAccounting", True),
    (READY, READY, Registration.POSTPONED, "WaitingForAccounting", True),
    (READY, READY, Registration.STARTING, "NotRegistered", False),
    (READY, READY, Registration.UNREGISTERED, "NotRegistered", True),
    (READY, READY, Registration.UNKNOWN, None, False),
    (READY, READY, Registration.REGISTERED, None, False),
]


@pytest.mark.parametrize(("wanted", "used", "registration", "reason", "degraded"), REPORTS)
def test_no_condition_is_good_while_no_job_is_recorded(
    wanted: Accounting | None, used: Accounting | None, registration: Registration, reason: str | None, degraded: bool
) -> None:
    health = with_accounting(GREEN, wanted, used, registration)
    assert health.degraded.value is degraded
    if reason is None:
        assert health == GREEN
        return
    assert [health.ready.value, health.progressing.value, health.config.value] == [False, True, False]
    assert {health.ready.reason, health.progressing.reason, health.config.reason} == {reason}


def test_an_earlier_problem_is_reported_first() -> None:
    refused = GREEN._replace(ready=ConditionState(False, "CrashLoop"), degraded=ConditionState(True, "Refused"))
    health = with_accounting(refused, LATE, None, Registration.UNKNOWN)
    assert (health.ready.reason, health.degraded.reason) == ("CrashLoop", "Refused")
    assert "cannot reach db:3306" in with_accounting(GREEN, LATE, None, Registration.UNKNOWN).ready.message


def slurmctld(started: float, ready: float | None = 30) -> Pod:
    made = pod("slurm-controller-0", ready=ready)
    state = ContainerRunState(running=ContainerRunning(ago(started)))
    status = msgspec.structs.replace(made.status, container_statuses=(ContainerStatus("slurmctld", state=state),))
    return msgspec.structs.replace(made, status=status)


def test_only_a_slurmctld_that_is_older_than_the_answer_of_slurmdbd_is_restarted() -> None:
    older, newer = slurmctld(100), slurmctld(50)
    assert needs_restart(READY, [older]) is older
    assert needs_restart(READY, [newer]) is None
    assert needs_restart(READY, [slurmctld(100, None)]) is None
    assert needs_restart(LATE, [older]) is None
    assert needs_restart(OUTSIDE, [older]) is None
    assert active_seconds([older], NOW) == 30
    assert active_seconds([slurmctld(100, None)], NOW) == 0
