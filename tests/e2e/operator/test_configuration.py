# SPDX-License-Identifier: Apache-2.0
"""A changed configuration: its trial, its load, its refusal and its rollback; and the rotation of the Slurm key."""

import json
from functools import partial
from typing import Any

import pytest
from tests.e2e.operator.site import EXTRA_CONF, OperatorSite, cluster, secret
from tests.support.waiting import until

from slinky.api.names import metadata
from slinky.lab.prepare.images import reference

pytestmark = pytest.mark.lab

#: A setting that a running slurmctld cannot change.
RESTARTED = f"{EXTRA_CONF}\nCommunicationParameters=keepaliveinterval=9"
STAGES = ("Adding", "Switching", "Retiring", "Settled")


def build(site: OperatorSite) -> None:
    site.apply(*cluster())
    site.wait_workers(2)
    until(lambda: synced(site), "a loaded configuration")


def condition(site: OperatorSite, name: str) -> dict[str, Any]:
    return site.condition("controller", "slurm", name)


def synced(site: OperatorSite) -> str:
    """The configuration generation that is both wanted and loaded; empty if these differ."""
    status = site.status("controller", "slurm")
    is_synced = condition(site, "ConfigSynced").get("status") == "True"
    return str(status["loadedConfig"]) if is_synced and status["wantedConfig"] == status.get("loadedConfig") else ""


def edit(site: OperatorSite, **spec: Any) -> None:
    site.patch("controller", "slurm", **spec)


def events(site: OperatorSite, reason: str) -> list[str]:
    """The messages of all events with this reason."""
    items = json.loads(site.kubectl("get", "events", "--field-selector", f"reason={reason}", "-o", "json"))["items"]
    return [event["message"] for event in items]


def slurmctld(site: OperatorSite) -> dict[str, Any]:
    return site.pods("slurmctld").get("slurm-controller-0", {})


def has_reached(site: OperatorSite, stages: tuple[str, ...]) -> bool:
    """Whether the rotation of the Slurm key is in one of these stages."""
    annotations: dict[str, str] = site.get("secret", "slurm-key-keyring")["metadata"]["annotations"]
    return annotations.get(metadata.KEY_STAGE) in stages


def test_slurmctld_starts_once_with_a_configuration_that_was_tried(site: OperatorSite) -> None:
    loaded = synced(site)
    assert loaded in site.slurm("scontrol", "show", "config")
    number = loaded.partition("-")[0]
    annotations = site.get("configmap", f"slurm-config-{number}")["metadata"]["annotations"]
    assert annotations[metadata.CONFIG_VERDICT] == "loaded"
    assert site.pods("slurmctld-trial") == {}, "trials are deleted"
    statuses = slurmctld(site)["status"]["containerStatuses"]
    assert [status["restartCount"] for status in statuses] == [0]


def test_a_configuration_that_ends_slurmctld_is_refused_with_its_own_error(site: OperatorSite) -> None:
    before, pod = synced(site), slurmctld(site)["metadata"]["uid"]
    edit(site, extraConf=f"{EXTRA_CONF}\nSchedulerType=sched/bogus\n")
    until(lambda: condition(site, "Degraded").get("reason") == "Refused", "the refusal")
    message = condition(site, "ConfigSynced")["message"]
    assert "sched/bogus" in message
    assert before in message
    until(lambda: any("sched/bogus" in text for text in events(site, "ConfigRefused")), "the event")
    assert slurmctld(site)["metadata"]["uid"] == pod, "slurmctld runs on"
    edit(site, extraConf=f"{EXTRA_CONF}\nNonsense=1\n")
    until(lambda: "Nonsense" in condition(site, "ConfigSynced").get("message", ""), "the second refusal")
    assert "slurm.conf line " in condition(site, "ConfigSynced")["message"]
    # The same files as before are known to be good and are not tried again.
    edit(site, extraConf=EXTRA_CONF)
    until(lambda: synced(site) == before, "the earlier configuration")
    assert slurmctld(site)["metadata"]["uid"] == pod


def test_an_image_that_cannot_be_pulled_or_started_never_replaces_slurmctld(site: OperatorSite) -> None:
    before, pod = synced(site), slurmctld(site)["metadata"]["uid"]
    edit(site, slurmctld={"image": "localhost/slinky/nosuch:lab"})
    until(lambda: condition(site, "Degraded").get("reason") == "ImageNotPulled", "the image that is missing")
    assert (condition(site, "ConfigSynced")["reason"], condition(site, "Ready")["status"]) == ("Trying", "True")
    edit(site, slurmctld={"image": reference("busybox")})
    until(lambda: condition(site, "Degraded").get("reason") == "Refused", "the refusal of the image")
    assert "cannot run slurmctld" in condition(site, "Degraded")["message"]
    edit(site, slurmctld={"image": None})
    until(lambda: synced(site) == before, "the earlier generation")
    assert condition(site, "Degraded")["status"] == "False"
    assert slurmctld(site)["metadata"]["uid"] == pod, "slurmctld runs on"


def test_a_configuration_that_ends_the_running_slurmctld_is_rolled_back(site: OperatorSite) -> None:
    before = synced(site)
    job = site.start_job("g-0")
    # The trial uses no database, so only the real slurmctld loads this plugin.
    edit(site, extraConf=f"{EXTRA_CONF}\nAccountingStorageType=accounting_storage/bogus\n")
    until(lambda: condition(site, "Degraded").get("reason") == "RolledBack", "the rollback")
    until(lambda: site.status("controller", "slurm").get("loadedConfig") == before, "the last good configuration")
    message = condition(site, "ConfigSynced")["message"]
    assert "accounting_storage" in message
    assert before in message
    until(lambda: any("bogus" in text for text in events(site, "ConfigRolledBack")), "the event")
    until(lambda: condition(site, "Ready").get("status") == "True", "a ready slurmctld")
    assert site.job_state(job) == "RUNNING"
    edit(site, extraConf=f"{RESTARTED}\nFirstJobId=1000\n")
    until(lambda: synced(site) not in ("", before), "the next configuration")
    assert "cannot change CommunicationParameters" in condition(site, "ConfigSynced")["message"]
    assert synced(site) in site.slurm("scontrol", "show", "config")
    assert condition(site, "Degraded")["status"] == "False"
    site.slurm("scancel", job)


def test_settings_that_slurmctld_can_change_reach_it_without_a_restart(site: OperatorSite) -> None:
    before, uid = synced(site), slurmctld(site)["metadata"]["uid"]
    job = site.start_job("g-0")
    files = {"cgroup.conf": "CgroupPlugin=disabled\n", "gres.conf": "AutoDetect=off\n"}
    site.kubectl("patch", "cm", "extra", "--type=merge", "-p", json.dumps({"data": files}))
    edit(site, extraConf=f"{RESTARTED}\nKillWait=77\n")
    until(lambda: site.status("controller", "slurm").get("wantedConfig") != before, "another generation")
    now = until(lambda: synced(site), "the load of the generation")
    settings = site.slurm("scontrol", "show", "config")
    assert now in settings
    assert any(line.split() == ["KillWait", "=", "77", "sec"] for line in settings.splitlines())
    assert "scontrol reconfigure" in condition(site, "ConfigSynced")["message"]
    assert slurmctld(site)["metadata"]["uid"] == uid
    assert {status["restartCount"] for status in slurmctld(site)["status"]["containerStatuses"]} == {0}
    loaded = site.operator.metrics("slinky_operator_config_generation_loaded{")
    assert list(loaded.values()) == [float(now.partition("-")[0])]
    # The trial does not load this plugin, so only the running slurmctld fails.
    edit(site, extraConf=f"{RESTARTED}\nKillWait=77\nJobCompType=jobcomp/bogus\n")
    until(lambda: condition(site, "Degraded").get("reason") == "RolledBack", "the rollback")
    until(lambda: site.status("controller", "slurm").get("loadedConfig") == now, "the last good generation")
    assert "bogus" in condition(site, "ConfigSynced")["message"]
    until(lambda: condition(site, "Ready").get("status") == "True", "a ready slurmctld")
    assert site.job_state(job) == "RUNNING"
    edit(site, extraConf=f"{RESTARTED}\nKillWait=77\n")
    until(lambda: synced(site) == now, "the same generation")
    site.slurm("scancel", job)


def test_another_slurm_key_reaches_every_daemon_and_no_job_or_worker_notices(site: OperatorSite) -> None:
    """The operator is killed at every stage; the next process continues."""
    site.operator.kill()
    site.operator.start(key_settle=8.0, key_retire=5.0)
    job = site.start_job("g-0")
    workers = site.uids()
    site.apply(secret("slurm-key", **{"slurm.key": "another " * 16}))
    until(lambda: condition(site, "Progressing").get("reason") == "RotatingKey", "the condition")
    for number, stage in enumerate(STAGES):
        # A stage takes a few seconds only, so the test may see a later one.
        until(partial(has_reached, site, STAGES[number:]), f"stage {stage}")
        site.operator.kill()
        site.operator.start()
    keyring = site.get("secret", "slurm-key-keyring")["data"]
    assert sorted(keyring) == ["slurm.jwks", "slurm.key"]
    assert keyring["slurm.key"] == site.get("secret", "slurm-key")["data"]["slurm.key"]
    assert site.uids() == workers
    assert site.job_state(job) == "RUNNING"
    until(lambda: set(site.host_states().values()) <= {"idle", "mix", "alloc"}, "hosts in service")
    assert site.exec("gpu-1", "srun", "--chdir=/tmp", "-w", "g-1", "hostname").split() == ["g-1"]
    site.slurm("scancel", job)
