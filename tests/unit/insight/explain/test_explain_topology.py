# SPDX-License-Identifier: Apache-2.0
"""Which blocks of the topology lack nodes for a job with segments."""

import pytest
from tests.unit.insight.queues import cluster, host, job, running

from slinky.insight.explain import explain_job
from slinky.insight.explain.topology_check import block_of
from slinky.slurm import Job


def paragraph(subject: Job, *others: Job, words: dict[str, tuple[str, ...]] | None = None) -> str:
    """The explanation on two blocks of two nodes."""
    hosts = tuple(
        host(f"n{index}", topology=position, words=(words or {}).get(f"n{index}", ("IDLE",)))
        for index, position in enumerate(("nvl:b1", "nvl:b1", "nvl:b2", "nvl:b2"), 1)
    )
    return explain_job(subject, cluster(subject, *others, hosts=hosts)).paragraph()


def test_the_block_that_lacks_nodes_is_named() -> None:
    text = paragraph(
        job(1, nodes=2, segment_size=2, state_description="No suitable topology unit found"),
        words={"n1": ("IDLE", "DRAIN"), "n3": ("IDLE", "DRAIN")},
    )
    assert "2 nodes in 1 segment of 2, each within one block of the topology, and the blocks have room for 0" in text
    assert "block b1 has 1 of 2 free, block b2 has 1 of 2 free" in text
    assert "Unavailable: n[1,3] are drained." in text
    assert "Use a smaller segment, or bring the nodes of a block back." in text


def test_nodes_of_the_same_block_become_free() -> None:
    busy = [running(number, f"n{node}", cpus=16) for number, node in ((8, 1), (9, 3))]
    allocated = {"n1": ("ALLOCATED",), "n3": ("ALLOCATED",)}
    subject = job(1, nodes=4, cpus=16, segment_size=2)
    hosts = tuple(
        host(f"n{i}", topology=f"nvl:b{(i + 1) // 2}", words=allocated.get(f"n{i}", ("IDLE",)), alloc_cpus=16 * (i % 2))
        for i in (1, 2, 3, 4)
    )
    explanation = explain_job(subject, cluster(subject, *busy, hosts=hosts))
    text = explanation.paragraph()
    assert "4 nodes in 2 segments of 2" in text
    assert "It can start when enough nodes of the same block are free." in text
    assert "block b1" in [blocker for finding in explanation.findings for blocker in finding.blockers]


@pytest.mark.parametrize("fields", [{"segment_size": 2}, {}, {"segment_size": 1}])
def test_a_job_whose_segments_fit_is_not_told_about_blocks(fields: dict[str, int]) -> None:
    assert "topology" not in paragraph(job(1, nodes=2, **fields))


def test_a_slurmctld_that_reports_no_positions_is_quoted() -> None:
    subject = job(1, nodes=2, segment_size=2, state_description="No suitable topology unit found")
    text = explain_job(subject, cluster(subject)).paragraph()
    assert "No block or switch of the topology has enough free nodes" in text
    assert "No suitable topology unit found" in text


@pytest.mark.parametrize(
    ("position", "topology", "block"),
    [
        ("", "", ""),
        ("nvl:b1", "", "b1"),
        ("default:root:leaf2,nvl:b1", "nvl", "b1"),
        ("default:root:leaf2,nvl:b1", "", "leaf2"),
        ("default:leaf2", "nvl", ""),
        ("b1", "", ""),
    ],
)
def test_the_block_of_a_node_is_the_end_of_its_position(position: str, topology: str, block: str) -> None:
    assert block_of(host("n1", topology=position), topology) == block
