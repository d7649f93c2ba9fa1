# SPDX-License-Identifier: Apache-2.0
"""Checks whether blocks of the topology have enough free nodes for a job with segments. Pure.

slurmrestd reports the position of nodes that were created with one (`Topology=nvl:b1`), not that of nodes in
topology.conf; of the latter only slurmctld's own text is shown.
"""

from collections.abc import Iterator, Mapping

from slinky.insight.explain.explanation import Finding, Topic
from slinky.insight.explain.resource_checks import (
    HostSurvey,
    jobs_on,
    jobs_text,
    survey_hosts,
    unavailable_text,
)
from slinky.insight.job_requirements import requirements
from slinky.insight.pending_reasons import Remedy
from slinky.insight.plain_text import NAMES_LIMIT, counted, plain
from slinky.insight.queue_snapshot import QueueSnapshot, names
from slinky.slurm.hostlist import natural_sort_key
from slinky.slurm.model.views import Host, Job

#: How slurmctld's descriptions that concern the topology begin.
_DESCRIPTIONS = ("No suitable topology unit found", "Insufficient resources in topology unit")


def check_topology(job: Job, snapshot: QueueSnapshot) -> Iterator[Finding]:
    """Blocks that have too few free nodes for the segments of a job, each with its free nodes."""
    need = requirements(job)
    segment = job.segment_size or (need.nodes if job.state_description.startswith(_DESCRIPTIONS) else 0)
    if segment < 2:
        return
    survey = survey_hosts(job, snapshot, need)
    topology = _topology_name(job, snapshot)
    blocks = _by_block(survey.suitable, topology)
    ready = _by_block(survey.ready, topology)
    segments = sum(len(hosts) // segment for hosts in ready.values())
    wanted = -(-need.nodes // segment)
    if not blocks or segments >= wanted:
        return
    pieces = f"{counted(need.nodes, 'node')} in {counted(wanted, 'segment')} of {segment}"
    sentence = (
        f"The job needs {pieces}, each within one block of the topology, and the blocks have room for {segments}: "
        f"{_blocks_text(blocks, ready)}."
    )
    if len(survey.ready) >= need.nodes:  # else the check of nodes has named them
        sentence += _taken_text(survey, snapshot)
    possible = sum(len(hosts) // segment for hosts in _by_block(_returning(survey), topology).values())
    never = possible < wanted
    cure = "" if never else "It can start when enough nodes of the same block are free."
    step = "Use a smaller segment, or bring the nodes of a block back." if never else "A smaller segment fits earlier."
    blockers = tuple(f"block {plain(name, 80)}" for name in sorted(blocks, key=natural_sort_key)[:20])
    yield Finding(Topic.NODES, sentence, cure, step, Remedy.WORKERS, blockers)


def _taken_text(survey: HostSurvey, snapshot: QueueSnapshot) -> str:
    """Which jobs and drains take the other nodes of the blocks."""
    jobs = jobs_on(survey.busy, snapshot)
    busy = f" The busy nodes run {jobs_text(jobs, snapshot)}." if jobs else ""
    return busy + (f" {unavailable_text(survey.unavailable, snapshot.now)}" if survey.unavailable else "")


def _returning(survey: HostSurvey) -> tuple[Host, ...]:
    return (*survey.ready, *survey.busy)


def _topology_name(job: Job, snapshot: QueueSnapshot) -> str:
    """The topology of the job's first partition; empty for the default one."""
    partitions = (snapshot.partitions_by_name.get(name) for name in names(job.partition))
    return next((partition.topology for partition in partitions if partition is not None), "")


def block_of(host: Host, topology: str = "") -> str:
    """The block or leaf switch of a node: `b1` of `tree:root:leaf2,nvl:b1`; empty if it has none."""
    for position in names(host.topology):
        name, _, path = position.partition(":")
        if path and (not topology or name == topology):
            return path.rpartition(":")[2]
    return ""


def _by_block(hosts: tuple[Host, ...], topology: str) -> Mapping[str, tuple[Host, ...]]:
    blocks: dict[str, tuple[Host, ...]] = {}
    for host in hosts:
        if block := block_of(host, topology):
            blocks[block] = (*blocks.get(block, ()), host)
    return blocks


def _blocks_text(blocks: Mapping[str, tuple[Host, ...]], ready: Mapping[str, tuple[Host, ...]]) -> str:
    """The blocks with the most free nodes first."""

    def free(name: str) -> int:
        return len(ready.get(name, ()))

    ordered = sorted(blocks, key=lambda name: (-free(name), natural_sort_key(name)))
    shown = [f"block {plain(name, 80)} has {free(name)} of {len(blocks[name])} free" for name in ordered[:NAMES_LIMIT]]
    more = f", and {counted(len(ordered) - NAMES_LIMIT, 'more block')}" if len(ordered) > NAMES_LIMIT else ""
    return ", ".join(shown) + more
