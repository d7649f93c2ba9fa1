# SPDX-License-Identifier: Apache-2.0
"""A site that an administrator installs with the charts, and a user who works on it over ssh."""

import shlex
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.e2e.operator.elastic_jobs import DEVICES, OFFER
from tests.e2e.operator.site import SLURM_STATE, SlurmSite
from tests.support.waiting import until

from slinky.api.names import metadata
from slinky.lab.demo.charts import OPERATOR_SPACE, RELEASE, SPACE, LabCharts, image
from slinky.lab.lab import Lab
from slinky.lab.prepare.images import reference
from slinky.lab.progress import Progress

EXAMPLES = Path(__file__).parents[3] / "examples/operator"
#: A password with characters that are special in a shell, a configuration file or SQL.
PASSWORD = r"it's a \n$(secret) #1"
USER, UID = "alice", 2001
LOGIN = f"{RELEASE}-login-main"
#: Keys of the Slurm beside the lab: name in the Secret, file of the machine.
OUTSIDE = {"slurm.key": "slurm.key", "jwt.key": "jwt_hs256.key"}
CPU, BURST = (f"{RELEASE}-worker-{name}" for name in ("cpu", "burst"))
KEYS_FILE = f"/etc/ssh/people/{USER}"
#: The objects of the cluster whose condition Ready is waited for.
KINDS = {"controller": RELEASE, "accounting": RELEASE, "restapi": RELEASE, "nodeset": CPU, "loginset": LOGIN}
#: The namespace of the user's workstation.
WORKSTATION = "workstation"


def key_pair() -> tuple[str, str]:
    """A private and a public key, as ssh writes them."""
    key = Ed25519PrivateKey.generate()
    form = serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, *form).decode()
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return private, public.decode()


def operator_values(**operator: Any) -> dict[str, Any]:
    """Two replicas of each part, which is the chart's default; protected metrics; the lab's images as defaults."""
    part = {"image": image("slinky")}
    values = {"metricsSecure": True, "extraArgs": [f"--image={reference('{daemon}')}"]}
    return {"operator": {**part, **values, **operator}, "webhook": {**part, "externalMetrics": {"enabled": True}}}


def with_user() -> dict[str, Any]:
    """A container with a local account for the user, and with the user's ssh key."""
    account = f"id {USER} || useradd --uid {UID} --create-home --shell /bin/bash {USER}"
    return {
        "lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", account]}}},
        "volumeMounts": [{"name": "people", "mountPath": KEYS_FILE, "subPath": USER, "readOnly": True}],
    }


def cluster_values(public: str, *, workers: int = 2, slurmd: str = "slurmd", **more: Any) -> dict[str, Any]:
    """Accounting, REST, workers with ssh, a partition `burst` without workers, and a login host."""
    conf = {
        "GresTypes": "gpu",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "ReturnToService": 2,
        "ProctrackType": "proctrack/linuxproc",
        "PrologFlags": "Contain",
        "JobAcctGatherType": "jobacct_gather/none",
        "SchedulerParameters": ["batch_sched_delay=0", "bf_interval=5", "sched_interval=5"],
    }
    pod_spec: dict[str, Any] = {
        "volumes": [{"name": "people", "configMap": {"name": "people"}}],
        "terminationGracePeriodSeconds": 5,
    }
    sshd = f"AuthorizedKeysFile {KEYS_FILE}"
    worker_values = {
        "slurmd": {"image": image(slurmd), **with_user()},
        "podSpec": pod_spec,
        "ssh": {"enabled": True, "extraSshdConfig": sshd},
        "oversubscribeNode": True,
    }
    return {
        # The nodes of a lab may have cgroups of version 1, which slurmd in an unprivileged pod cannot use.
        "configFiles": {"cgroup.conf": "CgroupPlugin=disabled", "gres.conf": DEVICES},
        "controller": {
            "slurmctld": {"image": image("slurmctld")},
            "extraConfMap": conf,
            "metrics": {"enabled": True},
            "persistence": {"resources": {"requests": {"storage": "1Gi"}}},
        },
        "restapi": {"slurmrestd": {"image": image("slurmrestd")}, **more.pop("restapi", {})},
        "accounting": {"enabled": True, "slurmdbd": {"image": image("slurmdbd")}},
        "exporter": {"enabled": True, "image": image("slinky")},
        "nodesets": {
            "cpu": {
                **worker_values,
                "replicas": workers,
                "partition": {"enabled": True, "configMap": {"Default": "YES", "MaxTime": "UNLIMITED"}},
            },
            # A HorizontalPodAutoscaler sets the replicas.
            "burst": {
                **worker_values,
                "extraConf": OFFER,
                "autoscaling": {"mode": "External", "maxReplicas": 2, "scaleIn": {"idleFor": "1s"}},
                "partition": {"enabled": True, "configMap": {"MaxTime": "UNLIMITED"}},
            },
        },
        "tokens": {"mine": {"username": "slurm", "lifetime": "20s"}},
        "loginsets": {
            "main": {
                "login": {"image": image("login"), **with_user()},
                "podSpec": pod_spec,
                "extraSshdConfig": sshd,
                "service": {"spec": {"type": "ClusterIP"}},
            }
        },
        "extraObjects": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "people", "namespace": SPACE},
                "data": {USER: f"{public}\n"},
            }
        ],
        **more,
    }


def database(password: str = PASSWORD) -> list[dict[str, Any]]:
    """A MariaDB outside of the chart."""
    reference_to_password = {"secretKeyRef": {"name": "mariadb-password", "key": "password"}}
    container = {
        "name": "mariadb",
        "image": reference("mariadb"),
        "env": [{"name": "MARIADB_PASSWORD", "valueFrom": reference_to_password}],
    }
    meta = {"name": "mariadb", "namespace": SPACE, "labels": {"app": "mariadb"}}
    ports = {"selector": {"app": "mariadb"}, "ports": [{"port": 3306}]}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}},
        password_secret(password),
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
        },
        {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": ports},
    ]


def password_secret(password: str) -> dict[str, Any]:
    """The database password that slurmdbd uses."""
    meta = {"name": "mariadb-password", "namespace": SPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"password": password}}


def operator_namespace() -> dict[str, Any]:
    """The operator's namespace, at the strictest level of pod security."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR_SPACE, "labels": labels}}


def workstation(private_key: str) -> list[dict[str, Any]]:
    """A pod with an ssh client and the user's key, and no configuration of Slurm."""
    mount = {"name": "key", "mountPath": "/key", "readOnly": True}
    container = {
        "name": "workstation",
        "image": reference("login"),
        "command": ["sleep", "infinity"],
        "volumeMounts": [mount],
    }
    key = {"name": "key", "secret": {"secretName": USER, "defaultMode": 0o400}}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": WORKSTATION}},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": USER, "namespace": WORKSTATION},
            "stringData": {"id": private_key},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "workstation", "namespace": WORKSTATION},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container], "volumes": [key]},
        },
    ]


class ChartSite(SlurmSite):
    """The operator and a cluster, both installed by helm."""

    controller_pod = f"{RELEASE}-controller-0"

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab, SPACE)
        self.charts = LabCharts(lab)
        self.private_key, self.public_key = key_pair()
        self.password = PASSWORD
        self.has_cluster = False

    # Installation --------------------------------------------------------------------------------------------------

    def install_operator(self) -> None:
        """Everything but the cluster."""
        with in_background(self.charts.load_slinky, Progress()):
            self.apply_all([operator_namespace(), *database(), *workstation(self.private_key)])
            self.charts.helm("install", "slurm-operator-crds", "slurm-operator-crds", OPERATOR_SPACE)
        self.operator("install")

    def ensure_cluster(self) -> None:
        """Install the cluster unless it is there; return once all of it is ready."""
        if not self.has_cluster:
            self.cluster("install")
            self.wait_ready(KINDS)
            until(lambda: self.ssh_output("id", "-un", check=False) == USER, "the login host")
            self.has_cluster = True

    def cluster(self, verb: str, **values: Any) -> None:
        """Install or upgrade the cluster."""
        self.charts.helm(verb, RELEASE, "slurm", SPACE, cluster_values(self.public_key, **values))

    def remove_cluster(self) -> None:
        self.charts.uninstall(RELEASE, SPACE)
        self.has_cluster = False

    def operator(self, verb: str, **values: Any) -> None:
        """Install or upgrade the operator."""
        self.charts.helm(verb, "slurm-operator", "slurm-operator", OPERATOR_SPACE, operator_values(**values))

    def wait_ready(self, kinds: dict[str, str], namespace: str = SPACE) -> None:
        for kind, name in kinds.items():
            self.lab.kubectl("wait", "-n", namespace, f"{kind}/{name}", "--for=condition=Ready", "--timeout=280s")

    def apply_all(self, manifests: list[dict[str, Any]]) -> None:
        """Apply manifests that name their namespaces."""
        self.lab.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(manifests))

    def install_example(self, namespace: str, path: Path) -> None:
        """Apply an example that joins the Slurm beside the lab, in a namespace of its own."""
        manifests = list(yaml.safe_load_all(path.read_text()))
        keys = {name: (self.lab.slurm.machine.folder / "keys" / file).read_bytes() for name, file in OUTSIDE.items()}
        data = {name: b64encode(value).decode() for name, value in keys.items()}
        for item in manifests:
            if item["kind"] == "Controller":
                item["spec"]["externalConfig"]["host"] = self.lab.slurm.address
            elif item["kind"] == "NodeSet":
                item["spec"]["oversubscribeNode"] = True
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "outside-keys"}, "data": data}
        self.lab.kubectl("create", "namespace", namespace)
        self.lab.kubectl("apply", "-n", namespace, "-f", "-", input=yaml.safe_dump_all([secret, *manifests]))

    # The user ------------------------------------------------------------------------------------------------------

    def ssh(self, *argv: str, to: str = LOGIN, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command over ssh from the workstation."""
        options = ["-i", "/key/id", "-o", "StrictHostKeyChecking=accept-new", "-o", "BatchMode=yes", "-q"]
        address = f"{USER}@{to}.{SPACE}.svc.cluster.local"
        # sshd passes the command to the user's shell, so the arguments are quoted for a shell.
        words = ["exec", "-n", WORKSTATION, "workstation", "--", "ssh", *options, address, shlex.join(argv)]
        done = subprocess.run(
            [self.lab.plane.binaries / "kubectl", f"--kubeconfig={self.lab.kubeconfig}", *words],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert not check or done.returncode == 0, (argv, done.stdout, done.stderr)
        return done

    def ssh_output(self, *argv: str, **options: Any) -> str:
        return self.ssh(*argv, **options).stdout.strip()

    # Jobs ----------------------------------------------------------------------------------------------------------

    def worker_of(self, host: str) -> str:
        return f"{RELEASE}-worker-{host}"

    def submit_job(self, *options: str) -> tuple[str, str]:
        """Submit a job over ssh that runs on one host until `finish_job`; its id and its worker."""
        script = "until [ -e /tmp/go-$SLURM_JOB_ID ]; do sleep 0.2; done"
        words = ("sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null", *options, f"--wrap={script}")
        job = self.ssh_output(*words)
        until(lambda: self.job_state(job) == "RUNNING", f"start of job {job}")
        return job, self.worker_of(self.slurm("squeue", "-h", "-j", job, "-o", "%N").strip())

    def finish_job(self, job: str, pod: str) -> None:
        """Let the job exit, and require that accounting has it as completed in its first run."""
        self.release_job(job, pod)
        self.wait_accounted(job)

    def wait_accounted(self, job: str) -> None:
        """Wait until accounting has the job as completed in its first run."""

        def record() -> list[str]:
            return self.ssh_output("sacct", "-nXP", "-j", job, "-o", "state,exitcode,restarts", check=False).split()

        until(lambda: record() == ["COMPLETED|0:0|0"], f"the record of job {job}")

    def workers(self, node_set: str = "cpu") -> dict[str, dict[str, Any]]:
        return self.pods(**{metadata.APP_INSTANCE: f"{RELEASE}-worker-{node_set}"})

    # Others --------------------------------------------------------------------------------------------------------

    def fetch(self, url: str, account: str = "") -> str:
        """Fetch a page with the token of a service account, or without one: the page, or the status of a refusal."""
        token = self.kubectl("create", "token", account).strip() if account else ""
        header = ("-H", f"Authorization: Bearer {token}") if account else ()
        text = self.slurm("curl", "-sk", "-w", "\n%{http_code}", *header, url)
        page, _, code = text.rpartition("\n")
        return page if code == "200" else code

    def sql(self, statement: str) -> str:
        """Run a statement in the database."""
        script = 'mariadb -h 127.0.0.1 -u slurm -p"$2" -N -e "$1"'
        return self.kubectl("exec", "mariadb", "--", "sh", "-c", script, "sh", statement, self.password)

    def diagnose(self) -> str:
        """The state of Slurm and the last lines of the operator, for a failed test."""
        logs = ("--tail=60", "--prefix", "-l", "app.kubernetes.io/instance=slurm-operator")
        states = [self.slurm(*argv, check=False) for argv in SLURM_STATE]
        return "\n".join([*states, self.lab.kubectl("logs", "-n", OPERATOR_SPACE, *logs, check=False)])


@contextmanager
def in_background(work: Any, *arguments: Any) -> Iterator[Future[Any]]:
    """Call a function in a thread; the end of the block waits for it and raises its error."""
    with ThreadPoolExecutor() as pool:
        future = pool.submit(work, *arguments)
        yield future
        future.result()
