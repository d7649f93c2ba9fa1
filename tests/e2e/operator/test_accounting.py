# SPDX-License-Identifier: Apache-2.0
"""Accounting that is switched on in a running cluster, with a database that is late and a password that is wrong."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.operator.site import OperatorSite, cluster, manifest, secret
from tests.support.waiting import until

from slinky.kube.timestamps import format_timestamp
from slinky.lab.prepare.images import reference

pytestmark = pytest.mark.lab

EXAMPLE = Path(__file__).parents[3] / "examples/operator/whole.yaml"
KEYS = {"slurmKeyRef": {"name": "slurm-key", "key": "slurm.key"}, "jwtKeyRef": {"name": "jwt-key", "key": "jwt.key"}}
STORAGE = {"host": "mariadb", "username": "slurm", "passwordKeyRef": {"name": "slurmdbd-password", "key": "password"}}
PASSWORD = "choose another"


def build(site: OperatorSite) -> None:
    site.apply(*cluster())
    site.wait_workers(2)
    until(lambda: is_ready(site), "a ready slurmctld")


def database() -> Iterator[dict[str, Any]]:
    """The database of the example, with the lab's image."""
    for item in yaml.safe_load_all(EXAMPLE.read_text()):
        if item["metadata"]["name"].startswith("mariadb"):
            if item["kind"] == "Deployment":
                item["spec"]["template"]["spec"]["containers"][0]["image"] = reference("mariadb")
            yield item


def is_ready(site: OperatorSite) -> bool:
    return bool(site.condition("controller", "slurm", "Ready").get("status") == "True")


def reason(site: OperatorSite, kind: str) -> str:
    return str(site.condition(kind, "slurm", "Degraded").get("reason"))


def clusters(site: OperatorSite) -> list[str]:
    """The clusters that slurmdbd has."""
    return site.slurm("sacctmgr", "-nP", "show", "cluster", "format=cluster", check=False).split()


def slurmctld(site: OperatorSite) -> str:
    return site.uids("slurmctld")["slurm-controller-0"]


def runs_jobs(site: OperatorSite) -> bool:
    return site.exec("gpu-0", "srun", "--chdir=/tmp", "-w", "g-1", "hostname").split() == ["g-1"]


def is_recorded(site: OperatorSite, job: str) -> bool:
    return "COMPLETED" in site.slurm("sacct", "-nXP", "-j", job, "-o", "state")


def test_accounting_is_switched_on_only_when_slurmdbd_answers(site: OperatorSite) -> None:
    before, job = slurmctld(site), site.start_job("g-0")
    site.apply(
        secret("slurmdbd-password", password="wrong"), manifest("Accounting", "slurm", storageConfig=STORAGE, **KEYS)
    )
    site.patch("controller", "slurm", accountingRef={"name": "slurm"})
    # There is no database yet.
    until(lambda: reason(site, "controller") == "WaitingForAccounting", "the wait of the Controller")
    until(lambda: reason(site, "accounting") == "DatabaseUnreachable", "slurmdbd without a database")
    assert not is_ready(site)
    assert (slurmctld(site), runs_jobs(site)) == (before, True)
    # The database rejects the password.
    site.apply(*database())
    until(lambda: reason(site, "accounting") == "DatabaseRefuses", "the refusal of the database")
    site.reconcile_again("controller", "slurm")
    assert not is_ready(site)
    assert (slurmctld(site), runs_jobs(site)) == (before, True)
    site.apply(secret("slurmdbd-password", password=PASSWORD))
    until(lambda: is_ready(site), "a Controller whose jobs are recorded")
    assert clusters(site) == [f"{site.namespace}_slurm"]
    assert slurmctld(site) != before
    site.wait_workers(2)
    site.finish_job(job, "gpu-0")
    script = ("sbatch", "--parsable", "--chdir=/tmp", "-o", "/dev/null", "--wrap=true")
    for name in (job, site.exec("gpu-0", *script).strip()):
        until(partial(is_recorded, site, name), f"the record of job {name}")


def test_a_cluster_that_slurmdbd_has_lost_is_registered_again(site: OperatorSite) -> None:
    """The database of the example has no volume, so that a new pod of it is empty."""
    site.kubectl("delete", "pod", "-l", "app=mariadb")
    site.kubectl("delete", "pod", "slurm-accounting-0")
    until(lambda: site.condition("accounting", "slurm", "Ready").get("status") == "False", "the end of slurmdbd")
    until(lambda: clusters(site) == [f"{site.namespace}_slurm"] and is_ready(site), "the registration")
    assert runs_jobs(site)


def phase(site: OperatorSite) -> str:
    return str(site.status("controller", "slurm").get("outage", {}).get("phase"))


def test_a_planned_outage_stops_the_cluster_and_brings_it_back(site: OperatorSite) -> None:
    workers, job = site.uids(), site.start_job("g-0")
    outage = {"startTime": format_timestamp(datetime.now(UTC)), "duration": "10h", "reason": "new disks"}
    site.patch("controller", "slurm", outage=outage)
    until(lambda: set(site.host_states().values()) == {"drng", "drain"}, "the drain of all hosts")
    assert set(site.drain_reasons().values()) == {
        f"slurm-operator: Outage of cluster {site.namespace}_slurm: new disks"
    }
    assert (phase(site), site.job_state(job)) == ("Draining", "RUNNING")
    waiting = site.exec("gpu-0", "sbatch", "--parsable", "--chdir=/tmp", "-o", "/dev/null", "--wrap=true").strip()
    site.release_job(job, "gpu-0")
    until(lambda: phase(site) == "Stopped", "the end of all daemons")
    assert not any(site.pods(daemon) for daemon in ("slurmctld", "slurmdbd", "slurmrestd"))
    assert site.condition("controller", "slurm", "Ready")["reason"] == "Outage"
    site.patch("controller", "slurm", outage=None)
    until(lambda: phase(site) == "Completed" and is_ready(site), "the return of the cluster")
    site.wait_workers(2)
    assert site.uids() == workers
    assert site.job_state(job) == "COMPLETED"
    until(lambda: is_recorded(site, waiting), "the record of the job that has waited")
    steps = [step["phase"] for step in site.status("controller", "slurm")["outage"]["timeline"]]
    stops = ["Scheduled", "Draining", "StoppingLogin", "StoppingController", "StoppingAccounting", "Stopped"]
    assert steps == [*stops, "StartingAccounting", "StartingController", "Resuming", "Completed"]
