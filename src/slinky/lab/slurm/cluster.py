# SPDX-License-Identifier: Apache-2.0
"""Slurm beside Kubernetes: MariaDB, slurmdbd, slurmctld, slurmrestd and any number of slurmd on one machine.

Several slurmd share the machine on different ports. External nodes have no slurmd. The configuration of the daemons
is in `conf`.
"""

import logging
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL

import jwt

from slinky.lab.errors import LabError
from slinky.lab.kubernetes.pki import private
from slinky.lab.machine.machine import Machine, until
from slinky.lab.machine.rootfs import Mount, RootFilesystem, kernel_mounts
from slinky.lab.slurm.conf import HOSTNAME, REST, configuration

log = logging.getLogger(__name__)

SLURM_UID, REST_UID = 64030, 2010
#: Seconds after which a slurmd that has not registered is started again.
REGISTER_SECONDS = 60.0
DAEMONS = ("mariadbd", "slurmdbd", "slurmctld", "slurmrestd")
_MARIADBD = [
    "mariadbd", "--no-defaults", "--user=mysql", "--datadir=/var/lib/mysql", "--skip-networking",
    "--socket=/run/mysqld/mysqld.sock", "--pid-file=/run/mysqld/mysqld.pid", "--innodb-buffer-pool-size=256M",
    "--innodb-log-file-size=64M", "--innodb-lock-wait-timeout=900", "--max-allowed-packet=64M",
    # slurmdbd refuses a MariaDB 11 that has snapshot isolation on.
    "--innodb-flush-log-at-trx-commit=2", "--innodb-snapshot-isolation=OFF",
]  # fmt: skip


@dataclass(frozen=True)
class LabSlurm:
    """The Slurm machine of a lab."""

    machine: Machine
    address: str
    nodes: int

    @property
    def url(self) -> str:
        """The URL of slurmrestd."""
        return f"http://{self.address}:{REST}"

    @property
    def jwt_key(self) -> bytes:
        """The key that signs tokens."""
        return (self.machine.folder / "keys" / "jwt_hs256.key").read_bytes()

    def token(self, user: str = "slurm", lifespan: int = 3600) -> str:
        """A token for slurmrestd."""
        now = int(time.time())
        return jwt.encode({"iat": now, "exp": now + lifespan, "sun": user}, self.jwt_key, algorithm="HS256")

    def root(self, tree: Path) -> RootFilesystem:
        """The root file system of the machine; its changes are stored in the lab's folder."""
        return RootFilesystem(
            tree=str(tree),
            point=str(self.machine.folder / "root"),
            upper=str(self.machine.folder / "changes"),
            mounts=(*kernel_mounts(), Mount("bind", "/etc/slurm", str(self._configuration_folder()))),
            files={"/etc/hosts": f"127.0.0.1 localhost\n{self.address} {HOSTNAME}\n"},
            hostname=HOSTNAME,
        )

    def _configuration_folder(self) -> Path:
        folder = self.machine.folder / "keys"
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in configuration(self.address, self.nodes).items():
            (folder / name).write_text(text)
        for name, size in (("slurm.key", 1024), ("jwt_hs256.key", 32)):
            if not (folder / name).exists():
                private(folder / name, secrets.token_bytes(size))
        for name in ("slurm.key", "jwt_hs256.key", "slurmdbd.conf"):
            (folder / name).chmod(0o600)
            os.chown(folder / name, SLURM_UID, SLURM_UID)
        return folder

    def exec(self, *argv: str, user: str | None = None, input: str | None = None, timeout: float = 60) -> str:
        """Run a command on the machine, as root or as one of its users, and return its output."""
        prefix = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"] if user else []
        home = {"HOME": f"/home/{user}"} if user else {}
        command = [*prefix, *argv]
        if user:
            command = ["env", f"--chdir=/home/{user}", *command]
        return self.machine.run(command, env=home, input=input, timeout=timeout).stdout

    def start(self, name: str) -> None:
        """Start one daemon and wait until it answers."""
        argv, env, uid = self._command(name)
        self.machine.start(name, argv, env, uid)
        checks = {
            "mariadbd": ["mariadb-admin", "--socket=/run/mysqld/mysqld.sock", "ping"],
            "slurmdbd": ["sacctmgr", "-n", "show", "cluster"],
            "slurmctld": ["sh", "-c", "scontrol ping | grep -q UP"],
            "slurmrestd": ["curl", "-s", "-o", "/dev/null", f"{self.url}/openapi/v3"],
        }
        if check := checks.get(name):
            until(lambda: self._answers(name, check), f"{name} to answer", 180, lambda: self.machine.tail(name))

    def stop(self, name: str, signal: int = SIGKILL) -> None:
        """End one daemon."""
        self.machine.stop(name, signal, seconds=60)

    def _answers(self, name: str, check: Sequence[str]) -> bool:
        self.machine.require(name)
        return self.machine.run(check, check=False).returncode == 0

    def _command(self, name: str) -> tuple[list[str], Mapping[str, str], int]:
        if name == "mariadbd":
            return _MARIADBD, {}, 0
        if name == "slurmdbd":
            library = {"LD_LIBRARY_PATH": "/opt/slinky/libmariadb", "RUNTIME_DIRECTORY": "/run/slurmdbd"}
            return ["slurmdbd", "-D"], library, 0
        if name == "slurmctld":
            # With -i: a young cluster that was killed lacks a state file and would refuse to start.
            return ["slurmctld", "-D", "-i"], {"RUNTIME_DIRECTORY": "/run/slurmctld"}, 0
        if name == "slurmrestd":
            # It refuses to run as root or SlurmUser.
            argv = ["slurmrestd", "-a", "rest_auth/jwt", "-t", "4", f"{self.address}:{REST}"]
            return argv, {"SLURM_JWT": "daemon", "SLURMRESTD_JSON": "compact"}, REST_UID
        if name.startswith("slurmd-"):
            return ["slurmd", "-D", "-N", name.removeprefix("slurmd-")], {}, 0
        raise LabError(f"no Slurm daemon is called {name}", f"choose one of: {', '.join(self.daemons)}")

    @property
    def daemons(self) -> list[str]:
        """The names of all daemons."""
        return [*DAEMONS, *(f"slurmd-c{number}" for number in range(1, self.nodes + 1))]

    def up(self) -> None:
        """Start everything in order: database, slurmdbd, slurmctld, slurmrestd, slurmd."""
        self.exec("sh", "-ec", _FOLDERS)
        self.start("mariadbd")
        self.exec("mariadb", "--socket=/run/mysqld/mysqld.sock", input=_GRANT)
        self.start("slurmdbd")
        self.start("slurmctld")
        self.exec("sh", "-ec", _ACCOUNTS)
        self.start("slurmrestd")
        for name in self.daemons[len(DAEMONS) :]:
            self.start(name)
        if self.nodes:
            self.wait_idle()

    def wait_idle(self) -> None:
        """Return once every slurmd has registered.

        A slurmd that has ended, or has not registered after a minute, is started again, as a service manager would.
        """
        hosts = {name.removeprefix("slurmd-"): name for name in self.daemons[len(DAEMONS) :]}
        next_restart = time.monotonic() + REGISTER_SECONDS

        def idle() -> bool:
            nonlocal next_restart
            lines = self.exec("sinfo", "-h", "-N", "-o", "%N %T", "-p", "work").splitlines()
            late = set(hosts) - {line.split()[0] for line in lines if line.endswith(" idle")}
            is_late = time.monotonic() >= next_restart
            for name in (hosts[host] for host in sorted(late)):
                if is_late or not self.machine.running(name):
                    log.warning("%s is started again:\n%s", name, self.machine.tail(name))
                    self.machine.restart(name)
            if is_late:
                next_restart += REGISTER_SECONDS
            return not late

        def why() -> str:
            logs = (f"{name}:\n{self.machine.tail(name)}" for name in (*hosts.values(), "slurmctld"))
            return "\n".join((self.exec("sinfo", "-N", "-l"), *logs))

        until(idle, f"{','.join(hosts)} to be idle", 300, why)

    def add_external_nodes(self, count: int, prefix: str = "k", gpus: int = 0, cpus: int = 16) -> list[str]:
        """Create nodes without slurmd, which only external jobs use, and return their names."""
        gres = f"Gres=gpu:h100:{gpus} " if gpus else ""
        # A literal address: an unresolvable name stalls slurmctld for ten seconds per node.
        shape = (
            f"NodeName={prefix}[001-{count:03}] NodeAddr=127.0.0.1 CPUs={cpus} Boards=1 SocketsPerBoard=2 "
            f"CoresPerSocket={cpus // 2} ThreadsPerCore=1 RealMemory=64000 State=EXTERNAL Feature=ext {gres}"
            "Topology=default:leaf2"
        )
        self.exec("scontrol", "create", *shape.split())
        return [f"{prefix}{number:03}" for number in range(1, count + 1)]

    def remove_nodes(self, hosts: str) -> None:
        """Delete dynamic and external nodes, by hostlist."""
        self.exec("scontrol", "delete", f"NodeName={hosts}")

    def sbatch(self, script: str, *options: str, user: str = "alice") -> str:
        """Run a batch job to its end and return its output."""
        command = ["sbatch", "--wait", "--parsable", "--output=job-%j.out", *options]
        job = self.exec(*command, user=user, input=f"#!/bin/sh\n{script}\n", timeout=120).strip()
        return self.exec("cat", f"job-{job}.out", user=user)


_FOLDERS = """
mkdir -p /run/slurm /run/slurmctld /run/slurmdbd /run/mysqld /run/lock /var/lib/slurm/ctld
chown slurm:slurm /run/slurmctld /run/slurmdbd /var/lib/slurm /var/lib/slurm/ctld
chown mysql:mysql /run/mysqld
"""

_GRANT = (
    "create user if not exists slurm@localhost identified by 'lab'; grant all on slurm_acct_db.* to slurm@localhost;"
)

_ACCOUNTS = """
exec >/dev/null
sacctmgr -i add account lab Description=lab Organization=lab
sacctmgr -i add user alice,bob account=lab
sacctmgr -i add user slurm account=lab AdminLevel=Administrator
sacctmgr -i add qos high Priority=100 Preempt=normal
sacctmgr -i modify user alice set qos+=high
"""
