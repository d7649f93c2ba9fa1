# SPDX-License-Identifier: Apache-2.0
"""How a Controller does. Pure."""

from slinky.api.accounting import Accounting
from slinky.api.controller import Controller
from slinky.api.fields.conditions import READY
from slinky.kube.conditions import is_condition_true
from slinky.kube.views import ReplicaStatus
from slinky.operator.controller.config_generation import Decision, GenerationState
from slinky.operator.framework.conditions import Fact, ObjectHealth, of_workload
from slinky.operator.slurm.snapshot import SlurmSnapshot


def health(
    of: Controller,
    workload: ReplicaStatus | None,
    observed: bool,
    sight: SlurmSnapshot,
    decision: Decision | None = None,
    loaded: str | None = None,
    crashed: str | None = None,
    accounting: Accounting | None = None,
) -> ObjectHealth:
    """Conditions of a Controller: one ready slurmctld is enough, standby ones never are."""
    reachable = sight.fact()
    if of.spec.external or decision is None:
        # All that is made for it is there; more is known only if a RestApi speaks for it.
        ready = Fact(
            reachable.value is not False, "External", f"slurmctld is outside of Kubernetes: {reachable.message}"
        )
        return ObjectHealth(
            ready, slurm=reachable, config=Fact(True, "Written", "where slurmctld is, is written for others")
        )
    status = workload or ReplicaStatus()
    found = of_workload(1, status.ready_replicas, int(status.updated_replicas >= of.replicas), observed)
    found = found._replace(slurm=reachable, config=config(decision, loaded))
    if not found.ready.value:
        found = found._replace(ready=_waiting(found.ready, decision, crashed, accounting))
    return found._replace(degraded=_degraded(found, decision, crashed))


def config(decision: Decision, loaded: str | None) -> Fact:
    """Which generation is wanted, and which one slurmctld runs."""
    wanted, used = decision.wanted, decision.used
    runs = f"slurmctld runs generation {loaded}" if loaded else "what slurmctld runs is not known yet"
    if wanted.verdict is GenerationState.UNTRIED:
        return Fact(False, "Trying", f"generation {wanted.mark} is tried before it is used; {runs}")
    if wanted.verdict is GenerationState.BAD:
        return Fact(False, "Refused", f"slurmctld refuses generation {wanted.mark}: {wanted.words}; {runs}")
    if wanted.verdict is GenerationState.FAILED:
        back = f"went back to {used.mark}" if used else "there is none to go back to"
        return Fact(False, "RolledBack", f"slurmctld fails with generation {wanted.mark}: {wanted.words}; {back}")
    if loaded == wanted.mark:
        return Fact(True, "Loaded", runs)
    if loaded is None:
        return Fact(None, "NotKnown", f"generation {wanted.mark} is written; {runs}")
    return Fact(False, "Rolling", f"generation {wanted.mark} is written; {runs}")


def _waiting(ready: Fact, decision: Decision, crashed: str | None, accounting: Accounting | None) -> Fact:
    """What slurmctld waits for before it is ready, in the order in which things start."""
    if crashed:
        return Fact(False, "Failing", f"slurmctld ends: {crashed}")
    if decision.used is None:
        return config(decision, None)._replace(value=False)
    if (
        accounting is not None
        and not accounting.spec.external
        and not is_condition_true(accounting.status.conditions, READY)
    ):
        words = f"slurmctld starts after slurmdbd, and Accounting {accounting.key.name} is not ready"
        return Fact(False, "WaitingForAccounting", words)
    return ready


def _degraded(found: ObjectHealth, decision: Decision, crashed: str | None) -> Fact:
    if decision.wanted.verdict in {GenerationState.BAD, GenerationState.FAILED}:
        return Fact(True, found.config.reason, f"{found.config.message}; edit the configuration to try again")
    return Fact(True, "Failing", f"slurmctld ends: {crashed}") if crashed else found.degraded
