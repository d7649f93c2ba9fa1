# SPDX-License-Identifier: Apache-2.0
"""Explains a Slurm node: its state, who set it and why, its jobs, what would bring it back. Pure."""

from slinky.insight.explain.explanation import Finding, QueueExplanation, Topic
from slinky.insight.explain.resource_checks import unavailable_text
from slinky.insight.job_requirements import capacity, free
from slinky.insight.pending_reasons import Remedy
from slinky.insight.plain_text import counted, duration, listed, megabytes, plain
from slinky.insight.queue_snapshot import QueueSnapshot, host_names
from slinky.slurm.model.views import Host, Job


def explain_host(host: Host, snapshot: QueueSnapshot) -> QueueExplanation:
    """What a node does, and why it starts no jobs if it does not."""
    jobs = sorted(
        (job for job in snapshot.running if job.nodes and host.name in host_names(job.nodes)),
        key=lambda job: job.end_time.whole or 2**40,
    )
    findings = [] if host.state.schedulable else [_unavailable(host, jobs, snapshot)]
    return QueueExplanation(
        subject=f"Node {plain(host.name, 80)}",
        state=plain(str(host.state).lower().replace("_", " "), 120),
        reason=plain(host.reason),
        findings=tuple(findings),
        notes=(_use_note(host, jobs), *_job_notes(jobs, snapshot), *_reservation_notes(host, snapshot)),
        unknown=snapshot.unknown,
    )


def _unavailable(host: Host, jobs: list[Job], snapshot: QueueSnapshot) -> Finding:
    name = plain(host.name, 80)
    text = unavailable_text((host,), snapshot.now).removeprefix("Unavailable: ")
    sentence = f"It starts no jobs: {text}"
    if host.state.draining:
        cure = f"{counted(len(jobs), 'job')} still {'runs' if len(jobs) == 1 else 'run'} on it." if jobs else ""
        step = f"When the cause is gone, run `scontrol update NodeName={name} State=RESUME`."
    elif host.state.down:
        cure, step = "It returns when its slurmd registers again.", f"Look at slurmd on {name}, then resume the node."
    else:
        cure, step = "It returns when this state ends.", ""
    return Finding(Topic.NODES, sentence, cure, step, Remedy.ADMINISTRATOR, (f"node {name}",))


def _use_note(host: Host, jobs: list[Job]) -> str:
    whole, rest = capacity(host), free(host)
    devices = "".join(
        f", {rest.gres.get(kind, 0)} of {count} {':'.join(map(plain, filter(None, kind)))}"
        for kind, count in list(whole.gres.items())[:5]
    )
    return (
        f"{rest.cpus} of {whole.cpus} CPUs, {megabytes(rest.memory)} of {megabytes(whole.memory)}{devices} are free; "
        f"partitions: {listed(host.partitions) or 'none'}."
    )


def _job_notes(jobs: list[Job], snapshot: QueueSnapshot) -> list[str]:
    if not jobs:
        return ["No job runs on it."]
    texts = []
    for job in jobs[:3]:
        left = job.end_time.whole - snapshot.now
        until = f" until {duration(left)} from now at the latest" if 0 < left < 365 * 86400 else ""
        texts.append(f"job {job.job_id} of {plain(job.user_name or 'hidden', 40)}{until}")
    more = f"; and {counted(len(jobs) - 3, 'more job')}" if len(jobs) > 3 else ""
    return [f"It runs {'; '.join(texts)}{more}."]


def _reservation_notes(host: Host, snapshot: QueueSnapshot) -> list[str]:
    notes = []
    for entry in snapshot.reservations:
        if entry.node_list and host.name in host_names(entry.node_list) and entry.end_time.whole > snapshot.now:
            begins = entry.start_time.whole - snapshot.now
            when = (
                f"in {duration(begins)}"
                if begins > 0
                else f"for another {duration(entry.end_time.whole - snapshot.now)}"
            )
            notes.append(f"The reservation {plain(entry.name, 80)} has it {when}.")
    return notes[:5]
