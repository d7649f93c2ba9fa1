# SPDX-License-Identifier: Apache-2.0
"""The phases of a planned outage."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.operator.samples import NOW, UNTRUSTED, controller, host, trusted_snapshot

from slinky.api.controller import Controller
from slinky.api.fields.outage import Outage, OutagePhase, OutageStatus
from slinky.api.names import metadata
from slinky.kube.timestamps import format_timestamp
from slinky.operator.framework.conditions import ConditionState, ObjectHealth
from slinky.operator.outages.conditions import stopped_health, with_outage
from slinky.operator.outages.decision import (
    OutageDecision,
    OutageObservation,
    advance,
    drain_text,
    stops_accounting,
)
from slinky.slurm import Reservation

P = OutagePhase
HEALTHY = ObjectHealth(ConditionState(True, "Available"))
REASON = f"{metadata.REASON_PREFIX}Outage of cluster ns_slurm"
IDLE, DRAINED = host("g-0"), host("g-0", "IDLE+DRAIN", REASON)
BUSY = host("g-0", "ALLOCATED+DRAIN", REASON)
RUNNING = OutageObservation(trusted_snapshot(IDLE), 1, 1, True, 1, True)
ENDED = OutageObservation(UNTRUSTED, 0, 0, False, 0, False)


def cluster(
    phase: OutagePhase, *, begins: float = 0, lasts: str = "1h", planned: bool = True, **more: object
) -> Controller:
    """A cluster in a phase of an outage that begins in so many seconds."""
    start = format_timestamp(NOW + timedelta(seconds=begins))
    outage = {"startTime": start, "duration": lasts, **more} if planned else None
    built = controller(outage=outage)
    record = OutageStatus(start_time=start, phase=phase.value) if phase else OutageStatus()
    return msgspec.structs.replace(built, status=msgspec.structs.replace(built.status, outage=record))


def follow(item: Controller, decision: OutageDecision) -> Controller:
    return msgspec.structs.replace(item, status=msgspec.structs.replace(item.status, outage=decision.status))


def run(item: Controller, observations: Iterable[OutageObservation], now: datetime = NOW) -> list[str]:
    """The phases that follow from these observations."""
    phases = []
    for observation in observations:
        decision = advance(item, observation, now)
        item = follow(item, decision)
        phases.append(decision.phase.value)
    return phases


DRAINED_ALL = RUNNING._replace(slurm=trusted_snapshot(DRAINED))


@pytest.mark.parametrize(
    ("law", "item", "seen", "following", "words"),
    [
        ("without an outage nothing happens", cluster(P.NONE, planned=False), RUNNING, P.NONE, ""),
        ("it is scheduled first", cluster(P.NONE, begins=60), RUNNING, P.SCHEDULED, "do not start"),
        ("and waits for its start", cluster(P.SCHEDULED, begins=60), RUNNING, P.SCHEDULED, ""),
        ("removed before its start, it is over", cluster(P.SCHEDULED, planned=False), RUNNING, P.COMPLETED, "over"),
        ("at its start hosts are drained", cluster(P.SCHEDULED), RUNNING, P.DRAINING, ""),
        ("a host that accepts jobs is waited for", cluster(P.DRAINING), RUNNING, P.DRAINING, "g-0"),
        ("as is a job", cluster(P.DRAINING), RUNNING._replace(slurm=trusted_snapshot(BUSY)), P.DRAINING, "g-0"),
        ("unknown hosts are not drained", cluster(P.DRAINING), RUNNING._replace(slurm=UNTRUSTED), P.DRAINING, "answer"),
        ("then login hosts stop", cluster(P.DRAINING), DRAINED_ALL, P.STOPPING_LOGIN, ""),
        ("a host that is down gets no job", cluster(P.DRAINING),
         RUNNING._replace(slurm=trusted_snapshot(DRAINED, host("g-1", "DOWN"))), P.STOPPING_LOGIN, ""),
        ("or nothing stops", cluster(P.DRAINING, stopDaemons=False), DRAINED_ALL, P.DRAINED, "daemons go on"),
        ("login hosts stop first", cluster(P.STOPPING_LOGIN), RUNNING, P.STOPPING_LOGIN, "1 pods"),
        ("then slurmctld", cluster(P.STOPPING_LOGIN), ENDED, P.STOPPING_CONTROLLER, ""),
        ("which saves its state", cluster(P.STOPPING_CONTROLLER), RUNNING, P.STOPPING_CONTROLLER, "1 pods"),
        ("then slurmdbd", cluster(P.STOPPING_CONTROLLER), ENDED, P.STOPPING_ACCOUNTING, ""),
        ("until all are stopped", cluster(P.STOPPING_ACCOUNTING), ENDED, P.STOPPED, ""),
        ("they stay so", cluster(P.STOPPED), ENDED, P.STOPPED, ""),
        ("until its end", cluster(P.STOPPED, begins=-3600), ENDED, P.STARTING_ACCOUNTING, ""),
        ("or its removal", cluster(P.STOPPED, planned=False), ENDED, P.STARTING_ACCOUNTING, ""),
        ("slurmdbd starts first", cluster(P.STARTING_ACCOUNTING), ENDED, P.STARTING_ACCOUNTING, "not ready"),
        ("then slurmctld starts", cluster(P.STARTING_ACCOUNTING), RUNNING, P.STARTING_CONTROLLER, ""),
        ("which has to answer", cluster(P.STARTING_CONTROLLER), RUNNING._replace(slurm=UNTRUSTED),
         P.STARTING_CONTROLLER, "answer"),
        ("then hosts are undrained", cluster(P.STARTING_CONTROLLER), RUNNING, P.RESUMING, ""),
        ("all of them", cluster(P.RESUMING), DRAINED_ALL, P.RESUMING, "1 hosts"),
        ("but not those of others", cluster(P.RESUMING),
         RUNNING._replace(slurm=trusted_snapshot(host("g-0", "IDLE+DRAIN", "disk"))), P.COMPLETED, ""),
        ("the same outage does not begin again", cluster(P.COMPLETED), RUNNING, P.COMPLETED, ""),
        ("a drain is ended early", cluster(P.DRAINING, planned=False), DRAINED_ALL, P.RESUMING, ""),
        ("a stop is ended early", cluster(P.STOPPING_CONTROLLER, planned=False), RUNNING, P.STARTING_CONTROLLER, ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_the_phases(law: str, item: Controller, seen: OutageObservation, following: OutagePhase, words: str) -> None:
    decision = advance(item, seen, NOW)
    assert decision.phase is following, law
    assert words in decision.status.message


def test_an_outage_runs_from_begin_to_end_and_its_time_line_tells() -> None:
    item = cluster(P.NONE, begins=0, reason="new disks")
    seen = [RUNNING, RUNNING, DRAINED_ALL, ENDED, ENDED, ENDED, ENDED]
    phases = [
        "Scheduled",
        "Draining",
        "StoppingLogin",
        "StoppingController",
        "StoppingAccounting",
        "Stopped",
        "Stopped",
    ]
    assert run(item, seen) == phases
    later = NOW + timedelta(hours=1)
    after = [ENDED, ENDED._replace(accounting_ready=True), DRAINED_ALL, DRAINED_ALL, RUNNING]
    stopped = cluster(P.STOPPED)
    back = ["StartingAccounting", "StartingController", "Resuming", "Resuming", "Completed"]
    assert run(stopped, after, later) == back
    for observation in after:
        stopped = follow(stopped, advance(stopped, observation, later))
    times = {step.time for step in stopped.status.outage.timeline}
    assert [step.phase for step in stopped.status.outage.timeline] == [*back[:3], "Completed"]
    assert times == {format_timestamp(later)}


def test_the_reservation_is_written_before_the_outage_and_deleted_after_it() -> None:
    item = cluster(P.SCHEDULED, begins=7200)
    decision = advance(item, RUNNING, NOW)
    assert decision.reserve is not None
    assert decision.reserve.start_time is not None
    assert decision.reserve.end_time is not None
    assert (decision.reserve.name, decision.reserve.node_list) == ("SlurmOperatorOutage-slurm", ["g-0"])
    start, end = decision.reserve.start_time, decision.reserve.end_time
    live = Reservation(name="SlurmOperatorOutage-slurm", node_list="g-0", start_time=start, end_time=end)
    reserved = RUNNING._replace(slurm=RUNNING.slurm._replace(reservations={live.name: live}))
    assert advance(item, reserved, NOW).reserve is None
    shorter = cluster(P.SCHEDULED, begins=7200, lasts="30m")
    assert advance(shorter, reserved, NOW).reserve is not None
    added = reserved._replace(slurm=reserved.slurm._replace(hosts={"g-0": IDLE, "g-1": host("g-1")}))
    changed = advance(item, added, NOW).reserve
    assert changed is not None
    assert changed.node_list == ["g-0", "g-1"]
    assert advance(cluster(P.RESUMING), reserved, NOW).release == live.name
    assert advance(cluster(P.RESUMING), reserved, NOW).phase is P.RESUMING
    assert advance(cluster(P.SCHEDULED, planned=False), reserved, NOW).release == live.name
    assert not advance(cluster(P.DRAINING), reserved, NOW).release


def test_another_start_time_ends_the_outage_and_begins_another() -> None:
    moved = controller(outage={"startTime": format_timestamp(NOW + timedelta(days=1)), "duration": "1h"})
    record = OutageStatus(start_time=format_timestamp(NOW), phase=P.STOPPED.value)
    moved = msgspec.structs.replace(moved, status=msgspec.structs.replace(moved.status, outage=record))
    assert advance(moved, ENDED, NOW).phase is P.STARTING_ACCOUNTING
    done = msgspec.structs.replace(record, phase=P.COMPLETED.value)
    moved = msgspec.structs.replace(moved, status=msgspec.structs.replace(moved.status, outage=done))
    decision = advance(moved, RUNNING, NOW)
    assert decision.phase is P.SCHEDULED
    assert [step.phase for step in decision.status.timeline] == ["Scheduled"]


SNAPSHOTS = st.sampled_from([UNTRUSTED, trusted_snapshot(IDLE), trusted_snapshot(DRAINED), trusted_snapshot(BUSY)])
OBSERVATIONS = st.builds(
    OutageObservation, SNAPSHOTS, st.integers(0, 2), st.integers(0, 2), st.booleans(), st.integers(0, 1), st.booleans()
)


@given(st.sampled_from(list(P)), OBSERVATIONS, st.booleans(), st.integers(-7200, 7200))
def test_no_daemon_stops_unless_slurm_confirms_that_no_job_runs(
    phase: OutagePhase, seen: OutageObservation, planned: bool, begins: int
) -> None:
    item = cluster(phase, begins=begins, planned=planned)
    following = advance(item, seen, NOW).phase
    if following.stops_login and not phase.stops_login:
        assert phase is P.DRAINING
        assert seen.slurm.trusted
        assert all(item.state.drained for item in seen.slurm.hosts.values())


@given(st.sampled_from(list(P)), st.lists(OBSERVATIONS, max_size=8))
def test_an_outage_that_is_removed_always_ends(phase: OutagePhase, seen: list[OutageObservation]) -> None:
    item = cluster(phase, planned=False)
    for observation in seen:
        item = follow(item, advance(item, observation, NOW))
    phases = run(item, [RUNNING] * 6)
    assert phases[-1] in {"", "Completed"}


def test_hosts_are_drained_with_the_reason_of_the_outage() -> None:
    assert drain_text(cluster(P.DRAINING, reason="new disks")) == "Outage of cluster ns_slurm: new disks"
    assert drain_text(cluster(P.STOPPED)) == "Outage of cluster ns_slurm"
    assert not drain_text(cluster(P.SCHEDULED))
    assert not drain_text(cluster(P.RESUMING))


def test_slurmdbd_stops_only_with_every_cluster_that_uses_it() -> None:
    assert not stops_accounting([])
    assert stops_accounting([cluster(P.STOPPED), cluster(P.STOPPING_ACCOUNTING)])
    assert not stops_accounting([cluster(P.STOPPED), cluster(P.DRAINING)])


def test_conditions_name_the_outage() -> None:
    none = with_outage(HEALTHY, OutageStatus())
    assert none == HEALTHY
    planned = with_outage(HEALTHY, OutageStatus(phase="Scheduled", message="m"))
    assert (planned.outage, planned.ready) == (ConditionState(False, "Scheduled", "m"), HEALTHY.ready)
    draining = with_outage(HEALTHY, OutageStatus(phase="Draining", message="m"))
    assert draining.outage == ConditionState(True, "Draining", "m")
    assert (draining.ready.value, draining.progressing.reason) == (True, "Outage")
    stopped = with_outage(HEALTHY, OutageStatus(phase="Stopped", message="m"))
    assert (stopped.ready.value, stopped.ready.reason) == (False, "Outage")
    assert stopped_health(HEALTHY, cluster(P.STOPPED)).ready.value is False


def test_a_phase_that_this_version_does_not_know_is_no_outage() -> None:
    assert OutagePhase.parse("Frozen") is P.NONE
    assert Outage("no time", "1h").end is None
