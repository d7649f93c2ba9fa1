# SPDX-License-Identifier: Apache-2.0
"""A whole site as an administrator makes one, and a person who works on it over ssh."""

import json
import shlex
import subprocess
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.e2e.operator.site import until

from slinky.lab.demo.chart_site import OPERATOR_SPACE, RELEASE, SPACE, Site, image
from slinky.lab.lab import Lab
from slinky.lab.prepare.images import reference

EXAMPLES = Path(__file__).parents[3] / "examples/operator"
#: A password that a shell, a configuration file or SQL would stumble over.
PASSWORD = "it's a $(secret) #1"
NEW_PASSWORD = "another; one"
USER, UID = "alice", 2001
LOGIN = f"{RELEASE}-login-main"
#: Keys of the Slurm beside the lab, as files of its machine.
OUTSIDE = {"slurm.key": "slurm.key", "jwt.key": "jwt_hs256.key"}
CPU = f"{RELEASE}-worker-cpu"
KEYS_FILE = f"/etc/ssh/people/{USER}"


def key_pair() -> tuple[str, str]:
    """A private and a public key, as ssh writes them."""
    key = Ed25519PrivateKey.generate()
    form = serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, *form).decode()
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return private, public.decode()


def operator_values(**operator: Any) -> dict[str, Any]:
    """Two replicas of each part, as the chart has it; metrics guarded, and our images where none is named."""
    part = {"image": image("slinky")}
    ours = {"metricsSecure": True, "extraArgs": [f"--image={reference('{daemon}')}"]}
    return {"operator": {**part, **ours, **operator}, "webhook": part}


def known() -> dict[str, Any]:
    """A container that knows alice and admits her key: a local account, as small sites have them."""
    account = f"id {USER} || useradd --uid {UID} --create-home --shell /bin/bash {USER}"
    return {
        "lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", account]}}},
        "volumeMounts": [{"name": "people", "mountPath": KEYS_FILE, "subPath": USER, "readOnly": True}],
    }


def cluster_values(public: str, *, workers: int = 2, slurmd: str = "slurmd", **more: Any) -> dict[str, Any]:
    """Everything a site has: accounting, REST, workers with ssh, a burst partition without workers, a login host."""
    conf = {
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "ReturnToService": 2,
        "ProctrackType": "proctrack/linuxproc",
        "PrologFlags": "Contain",
        "JobAcctGatherType": "jobacct_gather/none",
        "SchedulerParameters": ["batch_sched_delay=0", "bf_interval=5", "sched_interval=5"],
    }
    people: dict[str, Any] = {
        "volumes": [{"name": "people", "configMap": {"name": "people"}}],
        "terminationGracePeriodSeconds": 5,
    }
    sshd = f"AuthorizedKeysFile {KEYS_FILE}"
    workers_of = {
        "slurmd": {"image": image(slurmd), **known()},
        "podSpec": people,
        "ssh": {"enabled": True, "extraSshdConfig": sshd},
        "oversubscribeNode": True,
    }
    return {
        # The nodes of a lab may have cgroups of version 1, which slurmd in an ordinary pod cannot use.
        "configFiles": {"cgroup.conf": "CgroupPlugin=disabled"},
        "controller": {
            "slurmctld": {"image": image("slurmctld")},
            "extraConfMap": conf,
            "metrics": {"enabled": True},
            "persistence": {"resources": {"requests": {"storage": "1Gi"}}},
        },
        "restapi": {"slurmrestd": {"image": image("slurmrestd")}, **more.pop("restapi", {})},
        "accounting": {"enabled": True, "slurmdbd": {"image": image("slurmdbd")}},
        "nodesets": {
            "cpu": {
                **workers_of,
                "replicas": workers,
                "partition": {"enabled": True, "configMap": {"Default": "YES", "MaxTime": "UNLIMITED"}},
            },
            # Without a number: it is the autoscaler's to say.
            "burst": {
                **workers_of,
                "replicas": None,
                "partition": {"enabled": True, "configMap": {"MaxTime": "UNLIMITED"}},
            },
        },
        "tokens": {"mine": {"username": "slurm", "lifetime": "20s"}},
        "loginsets": {
            "main": {
                "login": {"image": image("login"), **known()},
                "podSpec": people,
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


def database() -> list[dict[str, Any]]:
    """A MariaDB, as a site would have one already."""
    password = {"secretKeyRef": {"name": "mariadb-password", "key": "password"}}
    container = {
        "name": "mariadb",
        "image": reference("mariadb"),
        "env": [{"name": "MARIADB_PASSWORD", "valueFrom": password}],
    }
    meta = {"name": "mariadb", "namespace": SPACE, "labels": {"app": "mariadb"}}
    ports = {"selector": {"app": "mariadb"}, "ports": [{"port": 3306}]}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "mariadb-password", "namespace": SPACE},
            "stringData": {"password": PASSWORD},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
        },
        {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": ports},
    ]


def strict() -> list[dict[str, Any]]:
    """The operator's namespace, at the strictest level of pod security."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR_SPACE, "labels": labels}}]


def desk(private: str) -> list[dict[str, Any]]:
    """Where alice sits: a pod with an ssh client and her key, and nothing of Slurm configured."""
    mount = {"name": "key", "mountPath": "/key", "readOnly": True}
    container = {
        "name": "desk",
        "image": reference("login"),
        "command": ["sleep", "infinity"],
        "volumeMounts": [mount],
    }
    key = {"name": "key", "secret": {"secretName": "alice", "defaultMode": 0o400}}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "desk"}},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "alice", "namespace": "desk"},
            "stringData": {"id": private},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "desk", "namespace": "desk"},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container], "volumes": [key]},
        },
    ]


def scraper() -> list[dict[str, Any]]:
    """A pod with an account of its own and nothing else."""
    account = {"metadata": {"name": "scraper", "namespace": "desk"}}
    container = {"name": "scraper", "image": reference("slurm"), "command": ["sleep", "infinity"]}
    spec = {"serviceAccountName": "scraper", "terminationGracePeriodSeconds": 1, "containers": [container]}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", **account},
        {"apiVersion": "v1", "kind": "Pod", **account, "spec": spec},
    ]


class Proof:
    """The site, with the few verbs its tests speak in."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.site = Site(lab)
        self.private, self.public = key_pair()

    def kubectl(self, *argv: str, input: str | None = None, check: bool = True) -> str:
        return self.lab.kubectl("-n", SPACE, *argv, input=input, check=check)

    def tell(self) -> str:
        """How Slurm sees it, and what the operator has said last; for a test that failed."""
        parts = [("sinfo", "-N", "-o", "%N %t %E"), ("squeue", "-a"), ("scontrol", "show", "jobs")]
        logs = (
            "logs",
            "-n",
            OPERATOR_SPACE,
            "--tail=60",
            "--prefix",
            "-l",
            "app.kubernetes.io/instance=slurm-operator",
        )
        return "\n".join([*(self.slurm(*argv, check=False) for argv in parts), self.lab.kubectl(*logs, check=False)])

    def apply(self, manifests: list[dict[str, Any]]) -> None:
        self.lab.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(manifests))

    def cluster(self, verb: str, **values: Any) -> None:
        self.site.helm(verb, RELEASE, "slurm", SPACE, cluster_values(self.public, **values))

    def operator(self, verb: str, **values: Any) -> None:
        self.site.helm(verb, "slurm-operator", "slurm-operator", OPERATOR_SPACE, operator_values(**values))

    def ssh(self, *argv: str, to: str = LOGIN, check: bool = True) -> subprocess.CompletedProcess[str]:
        """What alice does from her desk."""
        options = ["-i", "/key/id", "-o", "StrictHostKeyChecking=accept-new", "-o", "BatchMode=yes", "-q"]
        where = f"{to}.{SPACE}.svc.cluster.local"
        # sshd hands a command to the person's own shell, so it is written for one.
        words = ["exec", "-n", "desk", "desk", "--", "ssh", *options, f"{USER}@{where}", shlex.join(argv)]
        done = subprocess.run(
            [self.lab.plane.binaries / "kubectl", f"--kubeconfig={self.lab.kubeconfig}", *words],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert not check or done.returncode == 0, (argv, done.stdout, done.stderr)
        return done

    def fetched(self, url: str, *, token: bool = True) -> str:
        """What the scraper gets: the page, or the status of the refusal."""
        secret = "$(cat /var/run/secrets/kubernetes.io/serviceaccount/token)"
        who = f'-H "Authorization: Bearer {secret}"' if token else ""
        script = f"curl -sk -o /tmp/page -w '%{{http_code}}' {who} {url}"
        shown = f"code=$({script}); [ $code = 200 ] && cat /tmp/page || printf %s $code"
        return self.lab.kubectl("exec", "-n", "desk", "scraper", "--", "sh", "-c", shown)

    def plain(self, space: str, path: Path) -> None:
        """Apply an example in a namespace of its own, with what only this lab needs."""
        manifests = list(yaml.safe_load_all(path.read_text()))
        data = {"cgroup.conf": "CgroupPlugin=disabled\n"}
        manifests.insert(0, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "lab"}, "data": data})
        keys = {name: (self.lab.slurm.machine.folder / "keys" / file).read_bytes() for name, file in OUTSIDE.items()}
        outside = {name: b64encode(value).decode() for name, value in keys.items()}
        manifests.insert(
            0, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "outside-keys"}, "data": outside}
        )
        for one in manifests:
            if one["kind"] == "Controller" and one["spec"].get("external"):
                one["spec"]["externalConfig"]["host"] = self.lab.slurm.address
            elif one["kind"] == "Controller":
                one["spec"] |= {"configFileRefs": [{"name": "lab"}], "extraConf": "ProctrackType=proctrack/linuxproc"}
            elif one["kind"] == "NodeSet":
                one["spec"]["oversubscribeNode"] = True
            elif one["kind"] == "Deployment":
                one["spec"]["template"]["spec"]["containers"][0]["image"] = reference("mariadb")
        self.lab.kubectl("create", "namespace", space)
        self.lab.kubectl("apply", "-n", space, "-f", "-", input=yaml.safe_dump_all(manifests))

    def says(self, *argv: str, **more: Any) -> str:
        return self.ssh(*argv, **more).stdout.strip()

    def waiting_job(self, *options: str) -> str:
        """A job that runs until `release`; its id."""
        script = "while [ ! -e /tmp/go-$SLURM_JOB_ID ]; do sleep 0.2; done"
        words = ("sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null", *options, f"--wrap={script}")
        job = self.says(*words)
        until(lambda: self.state(job) == "RUNNING", f"job {job} to run", 60)
        return job

    def state(self, job: str) -> str:
        return self.slurm("squeue", "-h", "-t", "all", "-j", job, "-o", "%T", check=False).strip()

    def where(self, job: str) -> list[str]:
        """The hosts of a job."""
        nodes = self.slurm("squeue", "-h", "-j", job, "-o", "%N").strip()
        return self.slurm("scontrol", "show", "hostnames", nodes).split()

    def release(self, job: str) -> None:
        """Let a waiting job come to its own end."""
        for host in self.where(job):
            self.on(host, "touch", f"/tmp/go-{job}")

    def ended_well(self, job: str) -> None:
        """The job ran once, to its own end, and accounting knows it."""

        def told() -> list[str]:
            return self.says("sacct", "-nXP", "-j", job, "-o", "state,exitcode,restarts").split()

        until(lambda: told() == ["COMPLETED|0:0|0"], f"job {job} to end well; it is {told()}", 60)

    def slurm(self, *argv: str, check: bool = True) -> str:
        return self.kubectl("exec", f"{RELEASE}-controller-0", "-c", "slurmctld", "--", *argv, check=check)

    def on(self, host: str, *argv: str) -> str:
        return self.kubectl("exec", f"{RELEASE}-worker-{host}", "-c", "slurmd", "--", *argv)

    def workers(self, of: str = "cpu") -> dict[str, dict[str, Any]]:
        """The worker pods of a set, by name."""
        label = f"app.kubernetes.io/instance={RELEASE}-worker-{of}"
        return {
            pod["metadata"]["name"]: pod
            for pod in json.loads(self.kubectl("get", "pods", "-l", label, "-o", "json"))["items"]
        }

    def protected(self, host: str) -> dict[str, Any] | None:
        """The pod of a host, once no eviction can take it from its jobs."""
        pod = self.workers()[f"{RELEASE}-worker-{host}"]
        return pod if pod["metadata"]["labels"].get("nodeset.slinky.slurm.net/pod-protect") == "true" else None

    def sql(self, statement: str, password: str) -> str:
        """Ask the database itself."""
        asked = 'mariadb -h 127.0.0.1 -u slurm -p"$2" -N -e "$1"'
        return self.kubectl("exec", "mariadb", "--", "sh", "-c", asked, "sh", statement, password)

    def status(self, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kubectl("get", kind, name, "-o", "json"))
        return dict(found.get("status") or {})

    def idle(self, *hosts: str) -> bool:
        lines = self.slurm("sinfo", "-h", "-N", "-o", "%N %t", check=False).splitlines()
        return {f"{host} idle" for host in hosts} <= set(lines)

    def until(self, check: Callable[[], Any], what: str, seconds: float = 120) -> Any:
        return until(check, what, seconds)
