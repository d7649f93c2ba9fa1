# SPDX-License-Identifier: Apache-2.0
"""A configuration on its way: tried in a throwaway slurmctld, loaded, refused, taken back."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.e2e.operator.site import EXTRA_CONF, Operator, Site, cluster, secret, until

pytestmark = pytest.mark.lab


def condition(site: Site, kind: str, of: str = "controller") -> dict[str, Any]:
    said = site.get(of, "slurm").get("status", {}).get("conditions", [])
    return next((found for found in said if found["type"] == kind), {})


def status(site: Site) -> dict[str, Any]:
    found: dict[str, Any] = site.get("controller", "slurm").get("status", {})
    return found


def synced(site: Site) -> str:
    """The generation that is both wanted and loaded."""
    said = status(site)
    same = condition(site, "ConfigSynced").get("status") == "True" and said["wantedConfig"] == said.get("loadedConfig")
    return str(said["loadedConfig"]) if same else ""


def edit(site: Site, **spec: Any) -> None:
    site.kubectl("patch", "controller", "slurm", "--type=merge", "-p", json.dumps({"spec": spec}))


def events(site: Site, reason: str) -> list[str]:
    found = json.loads(site.kubectl("get", "events", "--field-selector", f"reason={reason}", "-o", "json"))["items"]
    return [event["message"] for event in found]


def slurmctld(site: Site) -> dict[str, Any]:
    return site.pods("slurmctld").get("slurm-controller-0", {})


@pytest.fixture(scope="module")
def running(site: Site, operator: Operator) -> Iterator[Site]:
    site.apply(*cluster())
    until(lambda: site.settled(2), "two workers", 180)
    until(lambda: synced(site), "a loaded configuration", 60)
    yield site


def test_bring_up_starts_slurmctld_once_with_a_configuration_that_was_tried(running: Site) -> None:
    said = synced(running)
    assert said in running.slurm("scontrol", "show", "config")
    number = said.partition("-")[0]
    marks = running.get("cm", f"slurm-config-{number}")["metadata"]["annotations"]
    assert marks["slinky.slurm.net/config-verdict"] == "loaded"
    assert running.pods("slurmctld-trial") == {}, "trials are cleared away"
    statuses = slurmctld(running)["status"]["containerStatuses"]
    assert [found["restartCount"] for found in statuses] == [0]


def test_what_slurmctld_would_die_of_is_held_back_with_its_own_words(running: Site) -> None:
    before, pod = synced(running), slurmctld(running)["metadata"]["uid"]
    edit(running, extraConf=f"{EXTRA_CONF}\nSchedulerType=sched/bogus\n")
    until(lambda: condition(running, "Degraded").get("reason") == "Refused", "the refusal", 90)
    words = condition(running, "ConfigSynced")["message"]
    assert "sched/bogus" in words
    assert before in words
    until(lambda: any("sched/bogus" in message for message in events(running, "ConfigRefused")), "the event")
    assert slurmctld(running)["metadata"]["uid"] == pod, "slurmctld has not noticed"
    edit(running, extraConf=f"{EXTRA_CONF}\nNonsense=1\n")
    until(lambda: "Nonsense" in condition(running, "ConfigSynced").get("message", ""), "the second refusal", 90)
    assert "slurm.conf line " in condition(running, "ConfigSynced")["message"]
    # The same files as before are not tried again: they are known to be good.
    edit(running, extraConf=EXTRA_CONF)
    until(lambda: synced(running) == before, "what was there before", 30)
    assert slurmctld(running)["metadata"]["uid"] == pod


def test_what_stops_the_running_slurmctld_is_taken_back_and_an_edit_tries_again(running: Site) -> None:
    before = synced(running)
    job = running.job("g-0")
    # A trial reports to no database, so that only the real slurmctld meets this one.
    edit(running, extraConf=f"{EXTRA_CONF}\nAccountingStorageType=accounting_storage/bogus\n")
    until(lambda: condition(running, "Degraded").get("reason") == "RolledBack", "the way back", 120)
    until(lambda: status(running).get("loadedConfig") == before, "the last good configuration", 120)
    words = condition(running, "ConfigSynced")["message"]
    assert "accounting_storage" in words
    assert before in words
    until(lambda: any("bogus" in message for message in events(running, "ConfigRolledBack")), "the event")
    until(lambda: condition(running, "Ready").get("status") == "True", "a ready slurmctld", 60)
    assert "RUNNING" in running.slurm("squeue", "-h", "-j", job, "-o", "%T"), "the job has lived through it"
    edit(running, extraConf=f"{EXTRA_CONF}\nFirstJobId=1000\n")
    now = until(lambda: (found := synced(running)) != before and found, "the next edit", 120)
    assert now in running.slurm("scontrol", "show", "config")
    assert condition(running, "Degraded")["status"] == "False"
    running.slurm("scancel", job)


def test_in_place_an_edited_file_reaches_slurmctld_without_a_new_pod(running: Site, operator: Operator) -> None:
    edit(running, inplaceReconfigure=True)
    until(lambda: "reconfigure" in json.dumps(slurmctld(running).get("status", {})), "the sidecar", 90)
    before = until(lambda: synced(running), "a loaded configuration", 90)
    pod = slurmctld(running)
    extra = {"cgroup.conf": "CgroupPlugin=disabled\n", "gres.conf": "AutoDetect=off\n"}
    running.kubectl("patch", "cm", "extra", "--type=merge", "-p", json.dumps({"data": extra}))
    until(lambda: status(running).get("wantedConfig") != before, "another generation", 30)
    now = until(lambda: synced(running), "the generation to be loaded", 240)
    assert now in running.slurm("scontrol", "show", "config")
    assert slurmctld(running)["metadata"]["uid"] == pod["metadata"]["uid"]
    assert slurmctld(running)["status"]["containerStatuses"][0]["restartCount"] == 0
    loaded = [line for line in operator.get("/metrics").splitlines() if "config_generation_loaded{" in line]
    assert [line.rpartition(" ")[2] for line in loaded] == [f"{now.partition('-')[0]}.0"]


def key_of(site: Site) -> dict[str, str]:
    """What the keyring says of itself."""
    found: dict[str, str] = site.get("secret", "slurm-key-keyring")["metadata"]["annotations"]
    return {name.rpartition("/")[2]: value for name, value in found.items()}


STAGES = ("Adding", "Switching", "Retiring", "Settled")


def reach(site: Site, stage: str) -> None:
    """That stage or a later one: each lasts a few seconds, and nobody promises to look in time."""
    later = STAGES[STAGES.index(stage) :]
    until(lambda: key_of(site).get("key-stage") in later, f"stage {stage}", 180)


def test_another_slurm_key_reaches_every_daemon_and_no_job_or_worker_notices(running: Site, operator: Operator) -> None:
    """The operator is killed at every stage and goes on with the next one."""
    operator.settings |= {"key_settle": 8.0, "key_retire": 5.0}
    operator.kill()
    operator.start()
    job = running.job("g-0")
    workers = {name: pod["metadata"]["uid"] for name, pod in running.pods().items()}
    running.apply(secret("slurm-key", **{"slurm.key": "another " * 16}))
    until(lambda: condition(running, "Progressing").get("reason") == "RotatingKey", "the condition", 60)
    for stage in STAGES:
        reach(running, stage)
        operator.kill()
        operator.start()
    ring = running.get("secret", "slurm-key-keyring")["data"]
    assert sorted(ring) == ["slurm.jwks", "slurm.key"]
    assert ring["slurm.key"] == running.get("secret", "slurm-key")["data"]["slurm.key"]
    assert {name: pod["metadata"]["uid"] for name, pod in running.pods().items()} == workers
    assert "RUNNING" in running.slurm("squeue", "-h", "-j", job, "-o", "%T")
    until(lambda: set(running.states().values()) <= {"idle", "mix", "alloc"}, "workers that answer", 60)
    assert running.on("gpu-1", "srun", "--chdir=/tmp", "-w", "g-1", "hostname").split() == ["g-1"]
    running.slurm("scancel", job)
