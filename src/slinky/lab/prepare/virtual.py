# SPDX-License-Identifier: Apache-2.0
"""What nodes in virtual machines need: a tree with a kernel, systemd and QEMU, and a disk that holds the images.

The same tree is the root of the guest, which reads it through virtiofs, and the root of the namespaces in which QEMU
runs. Neither an initial RAM disk nor an image of the root file system has to be built.
"""

import shutil
from pathlib import Path

from slinky.lab.machine.sandbox import run_in, stream
from slinky.lab.prepare import debian
from slinky.lab.prepare.artifact_cache import Artifact, ArtifactCache, tree_digest
from slinky.lab.progress import Progress

GUEST = Path(__file__).parent.parent / "guest"
TREE = "the tree of virtual machines"
DISK = "the disk of virtual machines"
DISK_IMAGE = "disk.img"
KERNEL = "boot/vmlinuz"
_KERNEL_PACKAGE = "linux-image-cloud-amd64"
_DISK_SIZE = "24G"
_PACKAGES = ("e2fsprogs", "openssh-client", "openssh-server", "qemu-system-x86", "qemu-utils", "systemd-sysv",
             "virtiofsd")  # fmt: skip

# The kernel is unpacked and not installed: its scripts would build an initial RAM disk, which no guest needs.
_UNPACK_KERNEL = f"""
apt-get -q update
package=$(apt-cache depends {_KERNEL_PACKAGE} | sed -n 's/^ *Depends: \\(linux-image-.*\\)$/\\1/p' | head -n 1)
release=${{package#linux-image-}}
cd "$(mktemp -d)"
apt-get -q -o APT::Sandbox::User=root download "linux-binary-$release" "linux-modules-$release"
for file in *.deb; do dpkg-deb -x "$file" /; done
depmod "$release"
mkdir -p /boot
cp "/usr/lib/modules/$release/vmlinuz" /{KERNEL}
echo "version $release"
"""

#: What systemd starts by itself is left out: a guest has fixed devices, and loading its units takes most of a boot.
_UNUSED_UNITS = (
    "usr/lib/systemd/system-generators/*",
    "usr/lib/systemd/system/*.wants/*",
    "etc/systemd/system/*.wants/*",
)


def tree(store: ArtifactCache, machine: Artifact) -> Artifact:
    """The root file system of nodes in virtual machines."""

    def build(folder: Path, progress: Progress) -> dict[str, str]:
        root = folder / "tree"
        stream(["cp", "-a", str(store.require(machine) / "tree"), str(root)])
        debian.install(root, _PACKAGES, progress, TREE)
        lines: list[str] = []
        run_in(root, ["sh", "-ec", _UNPACK_KERNEL], on_line=lines.append)
        _add_guest_files(root)
        debian.slim(root)
        kernel = next(line.removeprefix("version ") for line in lines if line.startswith("version "))
        return {"kernel": kernel, **debian.versions(root, ("qemu-system-x86", "systemd"))}

    inputs = (machine.key, *_PACKAGES, _UNPACK_KERNEL, *_UNUSED_UNITS, tree_digest(GUEST))
    return Artifact("vm-tree", TREE, inputs, build, gigabytes=2, digested=(f"tree/{KERNEL}",))


def disk(store: ArtifactCache, vm_tree: Artifact, seed: Artifact) -> Artifact:
    """An ext4 file system with the image store of nodes; every node writes to a copy-on-write layer above it."""

    def build(folder: Path, progress: Progress) -> dict[str, str]:
        argv = ["mke2fs", "-q", "-t", "ext4", "-E", "lazy_itable_init=1,nodiscard", "-m", "0", "-d", "/seed"]
        binds = {"/seed": store.require(seed), "/out": folder}
        run_in(store.require(vm_tree) / "tree", [*argv, f"/out/{DISK_IMAGE}", _DISK_SIZE], binds=binds)
        return {"size": _DISK_SIZE}

    return Artifact("vm-disk", DISK, (seed.key, vm_tree.key, _DISK_SIZE), build, gigabytes=4)


def _add_guest_files(root: Path) -> None:
    for pattern in _UNUSED_UNITS:
        for file in root.glob(pattern):
            file.unlink()
    for source in GUEST.iterdir():
        folder = root / ("usr/lib/systemd/system" if source.suffix in (".service", ".target") else "usr/lib/slinky")
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, folder / source.name)
    for name in ("mnt/volumes", "mnt/disk", "var/lib/slinky-volumes", "var/lib/slinky-shared", "var/log/slinky"):
        (root / name).mkdir(parents=True, exist_ok=True)
