# SPDX-License-Identifier: Apache-2.0
"""Status conditions of a Controller. Pure."""

from slinky.api.accounting import Accounting
from slinky.api.controller import Controller
from slinky.api.fields.conditions import READY
from slinky.kube.conditions import is_condition_true
from slinky.kube.views import ReplicaStatus
from slinky.operator.controller.config_generation import Decision, GenerationState
from slinky.operator.controller.reconfiguration import AT_START, LOAD_SECONDS, Load
from slinky.operator.framework.conditions import ConditionState, ObjectHealth, workload_health
from slinky.operator.framework.failure_causes import Failure, with_failure
from slinky.operator.slurm.snapshot import SlurmSnapshot
from slinky.operator.upgrades.conditions import with_verdict


def external_health(snapshot: SlurmSnapshot) -> ObjectHealth:
    """Return the health of a Controller whose slurmctld runs outside Kubernetes."""
    slurm = snapshot.condition()
    message = f"slurmctld runs outside Kubernetes: {slurm.message}"
    return ObjectHealth(
        ConditionState(slurm.value is not False, "External", message),
        slurm=slurm,
        config=ConditionState(True, "Written", "the address of slurmctld is written for the other daemons"),
    )


def health(
    controller: Controller,
    workload: ReplicaStatus | None,
    observed: bool,
    snapshot: SlurmSnapshot,
    decision: Decision,
    loaded: str | None = None,
    failure: Failure | None = None,
    accounting: Accounting | None = None,
    wait: str = "",
    load: Load = AT_START,
) -> ObjectHealth:
    """Return the health of a Controller. One ready slurmctld is enough, because a standby is never ready."""
    status = workload or ReplicaStatus()
    updated = int(status.updated_replicas >= controller.replicas)
    result = workload_health(1, status.ready_replicas, updated, observed, wait)
    result = result._replace(slurm=snapshot.condition(), config=config_condition(decision, loaded, load))
    if not result.ready.value:
        result = result._replace(ready=_not_ready(result.ready, decision, accounting))
    return _with_rejection(_with_load(with_failure(result, failure), load), decision)


def config_condition(decision: Decision, loaded: str | None, load: Load = AT_START) -> ConditionState:
    """Return the state of the condition ConfigSynced."""
    wanted = decision.wanted
    runs = f"slurmctld runs generation {loaded}" if loaded else "the generation that slurmctld runs is not known yet"
    if wanted.state is GenerationState.UNTRIED:
        return ConditionState(False, "Trying", f"generation {wanted.id} is tried before it is used; {runs}")
    if rejected := _rejection(decision, runs):
        return rejected
    if loaded == wanted.id:
        return ConditionState(True, "Loaded", f"{runs}, loaded {_describe_load(load)}")
    if loaded is None:
        return ConditionState(None, "NotKnown", f"generation {wanted.id} is written; {runs}")
    reason = "Reconfiguring" if load.in_place else "Rolling"
    return ConditionState(
        False, reason, f"generation {wanted.id} is written, to be loaded {_describe_load(load)}; {runs}"
    )


def _rejection(decision: Decision, runs: str) -> ConditionState | None:
    """Return why the wanted generation is not used although it was tried."""
    wanted, used = decision.wanted, decision.used
    if wanted.state is GenerationState.BAD:
        return ConditionState(False, "Refused", f"slurmctld rejects generation {wanted.id}: {wanted.message}; {runs}")
    if not decision.upgrade.allowed:
        return ConditionState(False, decision.upgrade.reason, f"{decision.upgrade.message}; {runs}")
    if wanted.state is GenerationState.FAILED:
        back = f"rolled back to {used.id}" if used else "there is no generation to roll back to"
        message = f"slurmctld fails with generation {wanted.id}: {wanted.message}; {back}"
        return ConditionState(False, "RolledBack", message)
    return None


def _describe_load(load: Load) -> str:
    if load.in_place:
        return "by a running slurmctld (scontrol reconfigure)"
    keys = ", ".join(load.restart_keys)
    return f"with a restart, because a running slurmctld cannot change {keys}" if keys else "when slurmctld starts"


def _with_load(health: ObjectHealth, load: Load) -> ObjectHealth:
    """Return the health of a slurmctld that loads files while it runs; no workload shows that progress."""
    if health.config.reason != "Reconfiguring":
        return health
    health = health._replace(progressing=ConditionState(True, "Reconfiguring", health.config.message))
    if load.seconds < LOAD_SECONDS or health.degraded.value:
        return health
    text = f"{health.config.message}; this takes longer than {LOAD_SECONDS:.0f} s"
    hint = "read the logs of the containers reconfigure and slurmctld, and delete the pod to restart it"
    return health._replace(degraded=ConditionState(True, "NotLoaded", f"{text}: {hint}"))


def _not_ready(ready: ConditionState, decision: Decision, accounting: Accounting | None) -> ConditionState:
    """Return what slurmctld waits for before it is ready, in the order of a start."""
    if decision.used is None:
        return config_condition(decision, None)._replace(value=False)
    if (
        accounting is not None
        and not accounting.spec.external
        and not is_condition_true(accounting.status.conditions, READY)
    ):
        message = f"slurmctld starts after slurmdbd, and Accounting {accounting.key.name} is not ready"
        return ConditionState(False, "WaitingForAccounting", message)
    return ready


def _with_rejection(health: ObjectHealth, decision: Decision) -> ObjectHealth:
    """Return the health with the configuration that slurmctld rejects, which counts more than a failure of a pod."""
    health = with_verdict(health, decision.upgrade)
    if decision.wanted.state not in {GenerationState.BAD, GenerationState.FAILED}:
        return health
    message = f"{health.config.message}; edit the configuration to try again"
    return health._replace(degraded=ConditionState(True, health.config.reason, message))
