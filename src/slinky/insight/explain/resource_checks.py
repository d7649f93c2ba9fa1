# SPDX-License-Identifier: Apache-2.0
"""Checks of what the cluster has for a job: features, reservations, licences, nodes. Pure."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from slinky.insight.explain.explanation import Finding, Topic
from slinky.insight.explain.priority import competitors
from slinky.insight.job_requirements import (
    JobRequirements,
    capacity,
    excluded_hosts,
    free,
    missing_features,
    requirements,
)
from slinky.insight.pending_reasons import Remedy
from slinky.insight.plain_text import NAMES_LIMIT, counted, duration, listed, plain
from slinky.insight.queue_snapshot import QueueSnapshot, host_names, names
from slinky.slurm.hostlist import HostlistError, fold
from slinky.slurm.model.views import Host, Job, Reservation

#: A job is not told to fit into less time than this, in seconds.
SHORTEST_LIMIT = 60


@dataclass(frozen=True, slots=True)
class HostSurvey:
    """The nodes that a job could use, by what they do now."""

    suitable: tuple[Host, ...]
    ready: tuple[Host, ...]
    busy: tuple[Host, ...]
    unavailable: tuple[Host, ...]


def survey_hosts(job: Job, snapshot: QueueSnapshot, need: JobRequirements) -> HostSurvey:
    """Sort the nodes of the job's partitions: those that suit the job at all, and of these the ready ones."""
    excluded, required = excluded_hosts(job), frozenset(host_names(job.required_nodes)) if job.required_nodes else None
    suitable = [
        host
        for host in snapshot.candidate_hosts(job)
        if host.name not in excluded
        and (required is None or host.name in required or need.nodes > len(required))
        and not missing_features(job, host)
        and not capacity(host).shortages(need)
    ]
    available = [host for host in suitable if host.state.schedulable]
    ready = [host for host in available if _is_ready(host, need)]
    names_ready = {host.name for host in ready}
    return HostSurvey(
        tuple(suitable),
        tuple(ready),
        tuple(host for host in available if host.name not in names_ready),
        tuple(host for host in suitable if not host.state.schedulable),
    )


def _is_ready(host: Host, need: JobRequirements) -> bool:
    return host.state.idle if need.exclusive else not free(host).shortages(need)


def check_features(job: Job, snapshot: QueueSnapshot) -> Iterator[Finding]:
    """Features and amounts that no node of the partition has."""
    hosts, need = snapshot.candidate_hosts(job), requirements(job)
    if not hosts:
        return
    lacking = Counter(feature for host in hosts for feature in missing_features(job, host))
    nowhere = [feature for feature, count in lacking.items() if count == len(hosts)]
    if nowhere:
        known = sorted({feature for host in hosts for feature in host.features})
        yield Finding(
            Topic.FEATURES,
            f"No node of the partition {plain(job.partition, 80)} has the feature {listed(nowhere)}.",
            "",
            f"Change the constraint; the nodes have {listed(known) or 'no features'}.",
            Remedy.USER,
        )
        return
    if all(capacity(host).shortages(need) for host in hosts):
        nearest = min(hosts, key=lambda host: len(capacity(host).shortages(need)))
        yield Finding(
            Topic.FEATURES,
            f"No node of the partition {plain(job.partition, 80)} is large enough: the job needs per node "
            f"{listed(capacity(nearest).shortages(need))} (in parentheses: what {plain(nearest.name, 80)} has).",
            "",
            "Request less per node, or use another partition.",
            Remedy.USER,
        )


def check_reservation(job: Job, snapshot: QueueSnapshot) -> Iterator[Finding]:
    """The reservation that the job asks for, and reservations of others that come too early for its time limit."""
    if job.resv_name:
        yield from _own_reservation(job, snapshot)
        return
    need = requirements(job)
    survey = survey_hosts(job, snapshot, need)
    usable = (*survey.ready, *survey.busy)
    suitable = {host.name for host in survey.suitable}
    for reservation in sorted(snapshot.reservations, key=lambda entry: entry.start_time.whole):
        begin, end = reservation.start_time.whole, reservation.end_time.whole
        taken = set(host_names(reservation.node_list)) if reservation.node_list else set()
        left = [host for host in usable if host.name not in taken]
        if end <= snapshot.now or begin >= snapshot.now + need.seconds or len(left) >= need.nodes:
            continue
        if taken.isdisjoint(suitable):
            continue
        yield _foreign_reservation(job, reservation, begin - snapshot.now, end - snapshot.now)


def _own_reservation(job: Job, snapshot: QueueSnapshot) -> Iterator[Finding]:
    shown, now = plain(job.resv_name, 80), snapshot.now
    reservation = next((entry for entry in snapshot.reservations if entry.name == job.resv_name), None)
    blockers = (f"reservation {shown}",)
    if reservation is None:
        yield Finding(
            Topic.RESERVATION,
            f"The reservation {shown} of the job does not exist.",
            "",
            f"Run `scontrol update JobId={job.job_id} ReservationName=`, then `scontrol release {job.job_id}`.",
            Remedy.USER,
            blockers,
        )
        return
    wait = reservation.start_time.whole - now
    if wait > 0:
        yield Finding(
            Topic.RESERVATION,
            f"The reservation {shown} of the job starts in {duration(wait)}.",
            f"It can start in {duration(wait)}.",
            blockers=blockers,
        )
    users, accounts = names(reservation.users), names(reservation.accounts)
    if (users or accounts) and job.user_name not in users and job.account not in accounts:
        yield Finding(
            Topic.RESERVATION,
            f"The reservation {shown} is for {listed((*users, *accounts))}, not for user {plain(job.user_name, 40)} "
            f"and account {plain(job.account, 40)}.",
            "",
            "Use another reservation or none.",
            Remedy.USER,
            blockers,
        )


def _foreign_reservation(job: Job, reservation: Reservation, begins: float, ends: float) -> Finding:
    shown = plain(reservation.name, 80)
    kind = " for maintenance" if "MAINT" in reservation.flags else ""
    if begins <= 0:
        sentence = f"The reservation {shown}{kind} has the nodes that the job needs for another {duration(ends)}."
        step = ""
    else:
        minutes = int(begins // 60)
        sentence = (
            f"The reservation {shown}{kind} takes nodes that the job needs in {duration(begins)}, before the job "
            "would end by its time limit."
        )
        step = (
            f"If {duration(minutes * 60)} are enough, run `scontrol update JobId={job.job_id} TimeLimit={minutes}`: "
            "the job then fits before the reservation."
            if begins > SHORTEST_LIMIT
            else ""
        )
    cure = f"It can start when the reservation ends in {duration(ends)}."
    return Finding(Topic.RESERVATION, sentence, cure, step, Remedy.WAITING, (f"reservation {shown}",))


def check_licenses(job: Job, snapshot: QueueSnapshot) -> Iterator[Finding]:
    """Licences of which too few are free, with the jobs that hold them."""
    pools = {pool.license_name: pool for pool in snapshot.licenses}
    for name, count in license_counts(job.licenses).items():
        pool = pools.get(name)
        if pool is None or pool.free >= count:
            continue
        holders = [other for other in snapshot.running if name in license_counts(other.licenses)]
        by = f" by {listed(f'job {other.job_id} of {other.user_name}' for other in holders)}" if holders else ""
        too_many = count > pool.total
        yield Finding(
            Topic.LICENSES,
            f"The job needs {counted(count, 'licence')} {plain(name, 80)}; {pool.free} of {pool.total} are free, "
            f"{pool.used} in use{by}.",
            "" if too_many else "It can start when enough of them are given back.",
            "Request fewer licences; waiting does not help." if too_many else "",
            Remedy.USER if too_many else Remedy.WAITING,
            (f"license {plain(name, 80)}", *(f"job {other.job_id}" for other in holders[:20])),
        )


def license_counts(text: str) -> dict[str, int]:
    """The licences in a job's text: `lic:2,other@server:1`; alternatives (`|`) are left to slurmctld."""
    counts: dict[str, int] = {}
    if "|" in text:
        return counts
    for part in names(text):
        name, _, count = part.partition(":")
        counts[name] = int(count) if count.isascii() and count.isdigit() and len(count) < 10 else 1
    return counts


def check_nodes(job: Job, snapshot: QueueSnapshot) -> Iterator[Finding]:
    """Too few nodes are free: how many are missing, which jobs have them until when, and who drained which nodes."""
    need = requirements(job)
    survey = survey_hosts(job, snapshot, need)
    if not snapshot.hosts or not survey.suitable or len(survey.ready) >= need.nodes:
        return
    sentence = f"The job needs {counted(need.nodes, 'node')}{_shape(need)}; of {len(survey.suitable)} suitable nodes "
    sentence += f"{len(survey.ready)} are free now, {len(survey.busy)} busy, {len(survey.unavailable)} unavailable."
    blocking = jobs_on(survey.busy, snapshot)
    cure, remedy = "", Remedy.WORKERS
    if blocking:
        sentence += f" The busy nodes run {jobs_text(blocking, snapshot)}."
        cure = _frees_text(blocking, need.nodes - len(survey.ready), survey, snapshot)
    step = ""
    if survey.unavailable:
        sentence += f" {unavailable_text(survey.unavailable, snapshot.now)}"
        if len(survey.ready) + len(survey.busy) < need.nodes:
            cure = "It can start when enough of the unavailable nodes are back."
            step = "Ask those who drained the nodes, or see `sinfo -R`."
    blockers = (
        *(f"job {other.job_id}" for other in blocking[:20]),
        *(f"node {plain(host.name, 80)}" for host in survey.unavailable[:20]),
    )
    yield Finding(Topic.NODES, sentence, cure, step, remedy, blockers)


def check_priority(job: Job, snapshot: QueueSnapshot) -> Iterator[Finding]:
    """Jobs of higher priority that want the same nodes."""
    if job.state_reason != "Priority" and not snapshot.is_eligible(job):
        return
    ahead = competitors(job, snapshot)
    if not ahead:
        return
    owners = Counter(other.user_name or "hidden" for other in ahead)
    shown = listed(f"job {other.job_id} of {other.user_name or 'hidden'}" for other in ahead)
    counts = listed(f"{owner} {count}" for owner, count in owners.most_common())
    by_owner = f" (by owner: {counts})" if len(ahead) > NAMES_LIMIT else ""
    yield Finding(
        Topic.PRIORITY,
        f"{counted(len(ahead), 'job')} of higher priority {'wants' if len(ahead) == 1 else 'want'} the same nodes: "
        f"{shown}{by_owner}.",
        "It starts after them, or earlier on nodes that they leave free until its time limit.",
        "A shorter time limit makes an earlier start more likely.",
        Remedy.WORKERS,
        tuple(f"job {other.job_id}" for other in ahead[:20]),
    )


def unavailable_text(hosts: tuple[Host, ...], now: float) -> str:
    """Which nodes start no jobs, why, and who is responsible; nodes with the same cause together."""
    causes: dict[tuple[str, str, str], list[Host]] = {}
    for host in hosts:
        causes.setdefault((unavailable_word(host), host.reason, host.reason_set_by_user), []).append(host)
    texts = []
    for (word, reason, user), members in sorted(causes.items(), key=lambda cause: -len(cause[1]))[:3]:
        text = f"{hostlist(members)} {'is' if len(members) == 1 else 'are'} {word}"
        since = members[0].reason_changed_at.whole
        if reason:
            by = f" by {plain(user, 40)}" if user else ""
            ago = f" {duration(now - since)} ago" if since else ""
            text += f"{by}{ago}: {plain(reason)}"
        texts.append(text)
    more = f"; and {len(causes) - 3} more causes" if len(causes) > 3 else ""
    return f"Unavailable: {'; '.join(texts)}{more}."


def unavailable_word(host: Host) -> str:
    """The state in which a node starts no jobs."""
    state = host.state
    if state.draining:
        return "drained" if state.drained else "draining"
    if state.down:
        return "down"
    flags = [flag for flag in ("NOT_RESPONDING", "MAINTENANCE", "POWERED_DOWN", "POWERING_DOWN") if flag in state.flags]
    return plain(" ".join(flags or [str(state)]).lower().replace("_", " "), 60)


def hostlist(hosts: list[Host]) -> str:
    """The names of nodes as Slurm's hostlist, bounded."""
    try:
        return plain(fold(host.name for host in hosts), 120)
    except HostlistError:
        return listed(host.name for host in hosts)


def _shape(need: JobRequirements) -> str:
    parts = [f"{need.cpus} CPUs" if need.cpus > 1 else "", f"{need.memory} MB" if need.memory else ""]
    parts += [f"{count} {':'.join(filter(None, kind))}" for kind, count in need.gres.items()]
    text = listed(filter(None, parts))
    whole = " (whole nodes)" if need.exclusive else ""
    return f" with {text} each{whole}" if text else whole


def jobs_on(hosts: tuple[Host, ...], snapshot: QueueSnapshot) -> list[Job]:
    """The jobs on these nodes, first the one that ends first."""
    wanted = {host.name for host in hosts}
    jobs = [job for job in snapshot.running if job.nodes and not wanted.isdisjoint(host_names(job.nodes))]
    return sorted(jobs, key=lambda job: job.end_time.whole or 2**40)


def jobs_text(jobs: list[Job], snapshot: QueueSnapshot) -> str:
    """The first jobs with their owners and latest ends."""

    def text(job: Job) -> str:
        left = job.end_time.whole - snapshot.now
        until = f", ends within {duration(left)}" if 0 < left < 365 * 86400 else ""
        return f"job {job.job_id} of {plain(job.user_name or 'hidden', 40)}{until}"

    shown = "; ".join(text(job) for job in jobs[:3])
    return f"{shown}; and {counted(len(jobs) - 3, 'more job')}" if len(jobs) > 3 else shown


def _frees_text(jobs: list[Job], missing: int, survey: HostSurvey, snapshot: QueueSnapshot) -> str:
    if len(survey.ready) + len(survey.busy) < missing:
        return ""
    first = jobs[0]
    left = first.end_time.whole - snapshot.now
    when = f", at the latest in {duration(left)} by its time limit" if 0 < left < 365 * 86400 else ""
    return f"The first of them to end is job {first.job_id}{when}."
