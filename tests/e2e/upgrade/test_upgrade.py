# SPDX-License-Identifier: Apache-2.0
"""A whole cluster is upgraded from an earlier release of Slurm while a job runs, and restored from its backup.

The images of the earlier release (24.11) come from the recipes of the others, on an earlier Debian. The tests depend on
each other: the second restores the cluster that the first has upgraded.
"""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from tests.conftest import MakeLab
from tests.e2e.operator.site import OperatorSite, cluster, manifest, operator_site, secret
from tests.e2e.operator.test_accounting import KEYS, PASSWORD, STORAGE, database, is_recorded
from tests.support.waiting import until

from slinky.lab.lab import Lab
from slinky.lab.prepare.images import reference
from slinky.lab.prepare.inventory import EARLIER, EARLIER_SLURM, ArtifactInventory
from slinky.lab.progress import Progress

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1800)]

LATER_SLURM = "26.05"
#: Daemon, kind and name of the object that runs it, and the field with its container.
DAEMONS = (
    ("slurmdbd", "accounting", "slurm"),
    ("slurmctld", "controller", "slurm"),
    ("slurmrestd", "restapi", "slurm"),
    ("login", "loginset", "login"),
    ("slurmd", "nodeset", "gpu"),
)
#: Kinds whose daemons keep state.
STATEFUL = ("accounting", "controller")
CONTROLLER = {"name": "slurm"}
SSSD = """
[sssd]
services = nss, pam
domains = local
[domain/local]
id_provider = proxy
auth_provider = proxy
proxy_lib_name = files
proxy_pam_target = sssd-shadowutils
"""
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
#: Daemons before 25.11 have no HTTP probes.
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
BACKUP = {"claimName": "slurm-backup", "image": reference("mariadb")}
SCRIPT = ("sbatch", "--parsable", "--chdir=/tmp", "-o", "/dev/null")


def container(daemon: str, *, earlier: bool) -> dict[str, Any]:
    image = {"image": reference(f"{daemon}{EARLIER}" if earlier else daemon)}
    if daemon not in ("slurmctld", "slurmd"):
        return image
    return image | {probe: {"httpGet": None, "tcpSocket": {"port": daemon}} for probe in PROBES}


def claim(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": CLAIM}


def objects() -> list[dict[str, Any]]:
    """A cluster of every kind, with the images of the earlier release."""
    extra = [
        manifest("Accounting", "slurm", storageConfig=STORAGE, **KEYS),
        manifest(
            "LoginSet", "login", controllerRef={"name": "slurm"}, sssdConfRef={"name": "sssd", "key": "sssd.conf"}
        ),
        secret("slurmdbd-password", password=PASSWORD),
        secret("mariadb-password", password=PASSWORD),
        secret("sssd", **{"sssd.conf": SSSD}),
    ]
    found = [*cluster(accountingRef={"name": "slurm"}), *extra]
    for item in found:
        for daemon, kind, _ in DAEMONS:
            if item["kind"].lower() == kind:
                item["spec"][daemon] = container(daemon, earlier=True)
        if item["kind"] == "NodeSet":
            item["spec"]["replicas"] = 1
    return [*(item for item in database() if item["kind"] != "Secret"), claim("slurm-backup"), *found]


@pytest.fixture(scope="module")
def upgrade_lab(make_lab: MakeLab) -> Lab:
    inventory, progress = ArtifactInventory.of(), Progress()
    inventory.prepare(progress, earlier=True)
    lab = make_lab(nodes=1, gpus=0)
    for archive in inventory.earlier_images():
        lab.load_image(archive)
    return lab


@pytest.fixture(scope="module")
def site(upgrade_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorSite]:
    with operator_site(upgrade_lab, tmp_path_factory.mktemp("upgrade")) as site:
        site.apply(*objects())
        site.wait_workers(1)
        yield site


def has_version(site: OperatorSite, kind: str, release: str) -> bool:
    return str(site.status(kind, "slurm").get("slurmVersion")).startswith(release)


def is_degraded(site: OperatorSite, kind: str, expected: str) -> bool:
    return reason(site, kind) == expected


def reason(site: OperatorSite, kind: str) -> str:
    found = site.condition(kind, "slurm", "Degraded")
    return str(found.get("reason")) if found.get("status") == "True" else ""


def image(pod: dict[str, Any], daemon: str) -> str:
    return next(str(item["image"]) for item in pod["spec"]["containers"] if item["name"] == daemon)


def runs(site: OperatorSite, daemon: str, *, earlier: bool) -> bool:
    """Whether every pod of a daemon is ready and has the image of this release."""
    wanted = container(daemon, earlier=earlier)["image"]
    pods = site.pods(daemon).values()
    return bool(pods) and all(image(pod, daemon) == wanted and is_ready(pod) for pod in pods)


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def created(site: OperatorSite, daemon: str) -> str:
    return min(str(pod["metadata"]["creationTimestamp"]) for pod in site.pods(daemon).values())


def use_images(site: OperatorSite, *, earlier: bool, daemons: tuple[str, ...] = ()) -> None:
    for daemon, kind, name in DAEMONS:
        if not daemons or daemon in daemons:
            site.patch(kind, name, **{daemon: {"image": container(daemon, earlier=earlier)["image"]}})


def backup_jobs(site: OperatorSite) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(site.kubectl("get", "jobs", "-o", "json"))["items"]
    return items


def test_a_job_lives_through_an_upgrade_of_every_daemon(site: OperatorSite) -> None:
    for daemon, _, _ in DAEMONS:
        until(partial(runs, site, daemon, earlier=True), f"{daemon} {EARLIER_SLURM}")
    for kind in STATEFUL:
        until(partial(has_version, site, kind, EARLIER_SLURM), f"the version of {kind}")
    worker = site.uids()
    before = site.exec("gpu-0", *SCRIPT, "--wrap=true").strip()
    until(lambda: is_recorded(site, before), "the record of a job before the upgrade")
    job = site.start_job("g-0")

    use_images(site, earlier=False)
    until(lambda: reason(site, "accounting") == "BackupMissing", "the wait for a backup")
    synced = partial(site.condition, "controller", "slurm", "ConfigSynced")
    until(lambda: synced().get("reason") == "WaitingForUpgrade", "the wait for slurmdbd")
    assert all(runs(site, daemon, earlier=True) for daemon, _, _ in DAEMONS)
    site.patch("accounting", "slurm", backup=BACKUP)
    for daemon in ("slurmdbd", "slurmctld", "slurmrestd", "login"):
        until(partial(runs, site, daemon, earlier=False), f"{daemon} {LATER_SLURM}", 600)
    for kind in STATEFUL:
        until(partial(has_version, site, kind, LATER_SLURM), f"the version of {kind}")
    (backup,) = backup_jobs(site)
    order = [backup["status"]["completionTime"], *(created(site, item) for item in ("slurmdbd", "slurmctld"))]
    assert order == sorted(order)
    assert created(site, "slurmctld") <= min(created(site, "slurmrestd"), created(site, "login"))

    # The worker of the job drains on the earlier slurmd until the job has ended.
    until(lambda: "drng" in site.host_states().values(), "the drain of the worker")
    assert (site.uids(), site.job_state(job)) == (worker, "RUNNING")
    site.finish_job(job, "gpu-0")
    until(lambda: runs(site, "slurmd", earlier=False), f"slurmd {LATER_SLURM}")
    site.wait_workers(1)
    assert f"Version={LATER_SLURM}" in site.slurm("scontrol", "show", "node", "g-0")
    after = site.exec("gpu-0", *SCRIPT, "--wrap=true").strip()
    for name in (before, job, after):
        until(partial(is_recorded, site, name), f"the record of job {name}")


def test_a_downgrade_is_refused(site: OperatorSite) -> None:
    uids = {daemon: site.uids(daemon) for daemon in ("slurmdbd", "slurmctld")}
    use_images(site, earlier=True, daemons=("slurmdbd", "slurmctld"))
    for kind in STATEFUL:
        until(partial(is_degraded, site, kind, "DowngradeRefused"), f"the refusal of {kind}")
    assert {daemon: site.uids(daemon) for daemon in uids} == uids
    use_images(site, earlier=False, daemons=("slurmdbd", "slurmctld"))
    for kind in STATEFUL:
        until(partial(is_degraded, site, kind, ""), f"the end of the refusal of {kind}")


#: The Secrets of a backup.
KEY_SECRETS = ("slurm-key", "jwt-key", "slurmdbd-password")


def restore_pod() -> dict[str, Any]:
    """A pod of user slurm that mounts the claim of the restored state, as docs/operator/backup.md has it."""
    spec = {
        "securityContext": {"runAsUser": 401, "runAsGroup": 401, "fsGroup": 401},
        "containers": [
            {
                "name": "restore",
                "image": reference("slurmctld"),
                "command": ["sleep", "infinity"],
                "volumeMounts": [{"name": "state", "mountPath": "/state"}],
            }
        ],
        "volumes": [{"name": "state", "persistentVolumeClaim": {"claimName": "slurm-state"}}],
        "terminationGracePeriodSeconds": 1,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "restore"}, "spec": spec}


def in_database(site: OperatorSite, command: str, input: str | None = None) -> str:
    """Run a command with the credentials of the database, in its pod."""
    script = command.replace("CREDENTIALS", '--user=slurm --password="$MARIADB_PASSWORD" --host=127.0.0.1')
    return site.kubectl("exec", "-i", "deploy/mariadb", "--", "sh", "-ec", script, input=input)


def test_a_cluster_is_restored_from_its_backup(site: OperatorSite) -> None:
    recorded = site.exec("gpu-0", *SCRIPT, "--wrap=true").strip()
    until(lambda: is_recorded(site, recorded), "the record of a job")
    held = site.exec("gpu-0", *SCRIPT, "--hold", "--wrap=true").strip()
    site.slurm("scontrol", "create", "reservation", "reservationname=keep", "starttime=now+1day", "duration=60",
               "users=root", "nodes=g-0")  # fmt: skip

    # slurmctld writes its state some seconds after a change, and on request.
    site.slurm("scontrol", "reconfigure")
    state = site.slurm("sh", "-ec", "cd /var/spool/slurmctld/* && tar -cz --exclude=lost+found -- * | base64")
    dump = in_database(site, "mariadb-dump CREDENTIALS --single-transaction --databases slurm_acct_db")
    secrets = json.loads(site.kubectl("get", "secret", *KEY_SECRETS, "-o", "json"))
    before = site.uids("slurmctld")

    site.kubectl("delete", "nodesets,restapis,loginsets,controllers,accountings", "--all", "--wait=true")
    site.kubectl("delete", "pvc", "statesave-slurm-controller-0", "--wait=true")
    site.kubectl("delete", "deployment", "mariadb")
    site.kubectl("delete", "secret", *KEY_SECRETS)
    until(lambda: not site.pods("slurmctld") and not site.pods("slurmdbd"), "the end of the daemons")

    keys = [secret(item["metadata"]["name"], **{}) | {"data": item["data"]} for item in secrets["items"]]
    names = {item["metadata"]["name"] for item in keys}
    rebuilt = [item for item in objects() if not (item["kind"] == "Secret" and item["metadata"]["name"] in names)]
    for item in rebuilt:
        for daemon, kind, _ in DAEMONS:
            if item["kind"].lower() == kind:
                item["spec"][daemon] = {"image": container(daemon, earlier=False)["image"]}
        if item["kind"] == "Controller":
            item["spec"]["persistence"] = {"existingClaim": "slurm-state"}
    ours = [item for item in rebuilt if item["apiVersion"].startswith("slinky")]
    site.apply(*keys, *(item for item in rebuilt if item not in ours), claim("slurm-state"), restore_pod())
    until(lambda: in_database(site, "mariadb CREDENTIALS -e 'select 1'"), "the new database")
    in_database(site, "mariadb CREDENTIALS", input=dump)
    site.kubectl("wait", "--for=condition=Ready", "pod/restore", "--timeout=240s")
    unpack = "base64 -d | tar -C /state -xz"
    site.kubectl("exec", "-i", "restore", "--", "sh", "-ec", unpack, input=state)
    site.kubectl("delete", "pod", "restore")
    site.apply(*ours)
    site.wait_workers(1)

    assert site.uids("slurmctld") != before
    assert site.job_state(held) == "PENDING"
    assert "ReservationName=keep" in site.slurm("scontrol", "show", "reservation")
    assert is_recorded(site, recorded)
    # With a limit it ends before the reservation begins.
    later = site.exec("gpu-0", *SCRIPT, "--time=1", "--wrap=true").strip()
    assert int(later) > int(held)
    until(lambda: is_recorded(site, later), "the record of a job after the restore")
