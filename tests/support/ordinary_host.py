# SPDX-License-Identifier: Apache-2.0
"""A machine as most readers have it, in QEMU: Debian stable with systemd, cgroup version 2 only, and a clone.

Its root is a folder of this machine, which virtiofsd shares, so that results are read as files. The prepared parts of
the lab are on a disk of its own, because nodes need hard links and overlays. The machine has no way to the internet.
It starts, runs scripts one after another in a login session, as a person would, and switches itself off.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from slinky.lab.machine.sandbox import run_in, stream
from slinky.lab.machine.virtual_machine import choose_accelerator
from slinky.lab.prepare import debian, wheels
from slinky.lab.prepare.artifact_cache import Artifact, ArtifactCache
from slinky.lab.prepare.inventory import ArtifactInventory
from slinky.lab.prepare.virtual import KERNEL
from slinky.lab.progress import Progress

MEMORY_MIB = 6144
DISK_SIZE = "40G"
#: Where the guest has the disk, the clone, and the scripts with what they print.
DISK, CLONE, SCRIPTS = "/srv/slinky", "/root/slinky", "/root/scripts"
WHAT = "an ordinary Debian with systemd"
PACKAGES = ("dbus", "debootstrap", "git", "iproute2", "kmod", "libpam-systemd", "make", "mount", "procps", "python3",
            "python3-venv", "systemd-sysv", "udev")  # fmt: skip
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")

_FILES = {
    "etc/hostname": "ordinary\n",
    "etc/hosts": "127.0.0.1 localhost ordinary\n",
    "etc/fstab": f"/dev/vda {DISK} ext4 noatime 0 0\n",
    "etc/systemd/network/10-card.network": "[Match]\nName=en* eth*\n[Network]\nAddress=10.0.2.15/24\n",
    "etc/systemd/system/scripts.service": f"""\
[Unit]
Description=What a person would type
After=multi-user.target
RequiresMountsFor={DISK}
[Service]
Type=oneshot
User=root
PAMName=login
WorkingDirectory={CLONE}
Environment=HOME=/root SLINKY_CACHE={DISK}/cache SLINKY_STATE={DISK}/labs
ExecStart=/bin/bash {SCRIPTS}/run
ExecStopPost=/usr/bin/systemctl --force poweroff
""",
    f"{SCRIPTS[1:]}/run": f"""\
cd {SCRIPTS}
for script in *.sh; do
    begin=$SECONDS
    (cd {CLONE} && PATH=$PWD/.venv/bin:$PATH exec bash -euxo pipefail "{SCRIPTS}/$script") >"${{script%.sh}}.txt" 2>&1
    echo "$? $((SECONDS - begin))" >"${{script%.sh}}.end"
done
sync
""",
}
_BOOT = """
/usr/libexec/virtiofsd --socket-path=/host/root.socket --shared-dir=/host/tree --cache=always --sandbox=none \\
    --no-announce-submounts --xattr --inode-file-handles=never --log-level=warn --rlimit-nofile="$(ulimit -Hn)" &
while [ ! -S /host/root.socket ]; do sleep 0.1; done
"$@"
"""


@dataclass(frozen=True)
class ScriptResult:
    """What a script printed, its exit code and how long it took."""

    output: str
    code: int
    seconds: int


@dataclass(frozen=True)
class OrdinaryHost:
    """A machine in a folder."""

    folder: Path
    inventory: ArtifactInventory
    progress: Progress

    @property
    def tree(self) -> Path:
        """Its root file system."""
        return self.folder / "tree"

    def build(self, checkout: Path) -> None:
        """Install the machine, clone a checkout on it, and give it the prepared parts of labs and our image."""
        store = self.inventory.store
        system = store.ensure(host_tree(store, self.inventory.vm_artifacts["vm-tree"]), self.progress)
        stream(["cp", "-a", str(system / "tree"), str(self.tree)])
        stream(["git", "clone", "--quiet", str(checkout), str(self.tree / CLONE[1:])])
        _make_setup(self.tree)
        image = self.inventory.slinky(self.progress)
        pinned = wheels.dependencies()
        own = wheels.own(store.path(pinned))
        self._write_disk([*self.inventory.artifacts.values(), pinned, own, image])

    def _write_disk(self, artifacts: Iterable[Artifact]) -> None:
        store = self.inventory.store
        # Hard links, so on the file system of the cache.
        with _scratch_folder(store) as seed:
            for artifact in artifacts:
                target = seed / "cache" / artifact.name
                target.mkdir(parents=True, exist_ok=True)
                stream(["cp", "-al", str(store.require(artifact)), str(target)])
            make = ["mke2fs", "-q", "-t", "ext4", "-E", "lazy_itable_init=1,nodiscard", "-m", "0", "-d", "/seed"]
            binds = {"/seed": seed, "/host": self.folder}
            run_in(self._tools, [*make, "/host/disk.img", DISK_SIZE], binds=binds)

    @property
    def _tools(self) -> Path:
        return self.inventory.store.require(self.inventory.vm_artifacts["vm-tree"]) / "tree"

    def run(self, scripts: Mapping[str, str], seconds: int) -> dict[str, ScriptResult]:
        """Start the machine, run the scripts in their order, and wait until it has switched itself off."""
        folder = self.tree / SCRIPTS[1:]
        for name, text in scripts.items():
            (folder / f"{name}.sh").write_text(text)
        accelerator = choose_accelerator(self._tools)
        command = ["timeout", str(seconds), *qemu_command(accelerator)]
        run_in(self._tools, ["sh", "-ec", _BOOT, "sh", *command], binds={"/host": self.folder})
        return {name: self._result(folder / name) for name in scripts}

    def _result(self, path: Path) -> ScriptResult:
        end = path.with_suffix(".end")
        output = path.with_suffix(".txt")
        text = output.read_text(errors="replace") if output.exists() else (self.folder / "console.log").read_text()
        if not end.exists():
            return ScriptResult(f"{text}\nthe machine ended before the script", -1, 0)
        code, seconds = end.read_text().split()
        return ScriptResult(text, int(code), int(seconds))


def qemu_command(accelerator: str) -> list[str]:
    """The command that runs the machine, in the namespaces that have the folder as /host."""
    processor = {
        "kvm": ["-accel", "kvm", "-cpu", "host"],
        "tcg": ["-accel", "tcg,thread=multi,tb-size=1024", "-cpu", "max"],
    }
    kernel = "console=ttyS0 loglevel=4 rootfstype=virtiofs root=root rw panic=-1 mitigations=off systemd.show_status=no"
    return [
        "qemu-system-x86_64", *processor[accelerator], "-smp", "2", "-m", str(MEMORY_MIB),
        "-object", f"memory-backend-memfd,id=memory,size={MEMORY_MIB}M,share=on",
        "-machine", "q35,memory-backend=memory", "-kernel", f"/{KERNEL}", "-append", kernel, "-nodefaults",
        "-no-user-config", "-display", "none", "-monitor", "none", "-serial", "file:/host/console.log", "-no-reboot",
        "-drive", "file=/host/disk.img,if=virtio,format=raw,cache=unsafe,discard=unmap",
        "-chardev", "socket,id=root,path=/host/root.socket",
        "-device", "vhost-user-fs-pci,chardev=root,tag=root,queue-size=1024",
        "-netdev", "user,id=card,restrict=on", "-device", "virtio-net-pci,netdev=card", "-device", "virtio-rng-pci",
    ]  # fmt: skip


def host_tree(store: ArtifactCache, vm_tree: Artifact) -> Artifact:
    """The root file system of the machine, with the kernel modules of the lab's own virtual machines."""
    origin = debian.base(debian.EARLIER_SUITE)

    def build(folder: Path, progress: Progress) -> dict[str, str]:
        tree = folder / "tree"
        stream(["cp", "-a", str(store.ensure(origin, progress) / "tree"), str(tree)])
        debian.install(tree, PACKAGES, progress, WHAT)
        (tree / "usr/sbin/policy-rc.d").unlink()
        stream(["cp", "-a", str(store.require(vm_tree) / "tree/usr/lib/modules"), str(tree / "usr/lib")])
        for name, text in _FILES.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(text)
        (tree / DISK[1:]).mkdir()
        enable = "systemctl -q enable systemd-networkd && systemctl -q add-wants multi-user.target scripts.service"
        timers = "systemctl -q mask apt-daily.timer apt-daily-upgrade.timer systemd-networkd-wait-online.service"
        run_in(tree, ["sh", "-ec", f"{enable} && {timers} && passwd -d root"])
        return debian.versions(tree, ("systemd", "python3"))

    inputs = (origin.key, vm_tree.key, *PACKAGES, *_FILES, *_FILES.values())
    return Artifact("ordinary-host", WHAT, inputs, build, gigabytes=2)


def _make_setup(tree: Path) -> None:
    """Install the packages of the clone as `make setup` does, with this machine's network."""
    settings = {name: value for name, value in os.environ.items() if name.startswith("PIP_INDEX")}
    binds = {}
    if CERTIFICATES.is_file():
        settings |= {"PIP_CERT": "/run/certificates", "SSL_CERT_FILE": "/run/certificates"}
        binds["/run/certificates"] = CERTIFICATES
    run_in(tree, ["make", "-C", CLONE, "setup"], env=settings, binds=binds)


@contextmanager
def _scratch_folder(store: ArtifactCache) -> Iterator[Path]:
    folder = store.folder / f"ordinary-host-{os.getpid()}"
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def require_clean(checkout: Path) -> None:
    """Fail if the clone would lack changes of the checkout."""
    argv = ["git", "-C", str(checkout), "status", "--porcelain"]
    changes = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert not changes, f"commit these changes first, the machine has a clone:\n{changes}"
