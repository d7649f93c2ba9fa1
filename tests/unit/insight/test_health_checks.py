# SPDX-License-Identifier: Apache-2.0
"""Every check finds its fault, and a healthy cluster has no findings."""

from typing import Any

import pytest
from tests.unit.insight.queues import NOW, cluster, host, job

from slinky.cli.doctor.doctor import check_token
from slinky.insight.health_checks import CHECKS, FindingSeverity, check_health
from slinky.slurm import Diag, mint_token, number
from slinky.slurm.model.partitions import Partition, PartitionMode

UP, DOWN = PartitionMode(state=("UP",)), PartitionMode(state=("DOWN",))
HEALTHY: dict[str, Any] = {"diag": Diag(req_time=number(NOW), bf_when_last_cycle=number(NOW - 5))}

FAULTS: list[tuple[dict[str, Any], FindingSeverity, str]] = [
    ({"diag": Diag(req_time=number(NOW - 300))}, FindingSeverity.ERROR, "differs by 5 min"),
    ({"unknown": ("limits of QOS (connection refused)",)}, FindingSeverity.WARNING, "Not readable: limits of QOS"),
    ({"diag": Diag(dbd_agent_queue_size=5000)}, FindingSeverity.ERROR, "5000 records"),
    (
        {"diag": Diag(), "jobs": (job(1, submit_time=number(NOW - 7200)),)},
        FindingSeverity.WARNING,
        "was never, and 1 job",
    ),
    ({"conf": {"SchedulerParameters": ["defer", "bf_continue"]}}, FindingSeverity.WARNING, "has `defer`"),
    ({"conf": {"PrivateData": ["jobs", "usage"]}}, FindingSeverity.WARNING, "hides jobs,usage"),
    ({"conf": {"EnforcePartLimits": "ALL"}, "hosts": ()}, FindingSeverity.WARNING, "work has no nodes"),
    ({"partitions": (Partition(name="work", partition=DOWN),)}, FindingSeverity.WARNING, "work is not up"),
    ({"hosts": (host("n1", words=("IDLE", "INVALID_REG")),)}, FindingSeverity.ERROR, "n1 registered"),
    ({"hosts": (host("n1", words=("DOWN",)),)}, FindingSeverity.ERROR, "1 node down: n1"),
    (
        {"hosts": (host("n1", words=("IDLE", "DRAIN"), reason_set_by_user="ops", reason_changed_at=number(1)),)},
        FindingSeverity.WARNING,
        "by ops: n1",
    ),
    ({"conf": {"MaxNodeCount": "1"}, "hosts": (host("n1"),)}, FindingSeverity.WARNING, "MaxNodeCount is 1"),
    (
        {
            "hosts": (host("n1", words=("IDLE", "EXTERNAL")),),
            "partitions": (Partition(name="work", partition=UP, grace_time=60),),
        },
        FindingSeverity.WARNING,
        "GraceTime is set for partition work",
    ),
    ({"conf": {"SlurmctldParameters": ["rl_enable"]}}, FindingSeverity.WARNING, "rl_enable"),
]


@pytest.mark.parametrize(("fields", "severity", "words"), FAULTS, ids=[fault[2] for fault in FAULTS])
def test_a_fault_is_found(fields: dict[str, Any], severity: FindingSeverity, words: str) -> None:
    findings = check_health(cluster(**(HEALTHY | fields)))
    assert [(finding.severity, words in finding.sentence) for finding in findings] == [(severity, True)]
    assert findings[0].fix.endswith(".")


def test_a_healthy_cluster_has_no_findings() -> None:
    assert check_health(cluster(job(1), **HEALTHY)) == ()
    assert len(CHECKS) <= len(FAULTS)


def test_a_token_that_ends_soon_is_reported() -> None:
    key = b"k" * 32
    assert check_token(mint_token(key, "slurm", lifetime=900, now=NOW), NOW) == []
    assert "in 20 seconds" in check_token(mint_token(key, "slurm", lifetime=20, now=NOW), NOW)[0].sentence
    assert check_token("no token", NOW) == []
