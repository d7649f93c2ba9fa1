# SPDX-License-Identifier: Apache-2.0
"""The Debian trees: a minimal base, and the machine tree on it that carries etcd, containerd, runc and buildah.

Both use the suite that has Slurm 26.05 and containerd 2. The mirror is that of the host's package configuration, or
`SLINKY_DEBIAN_MIRROR`. Signatures are always checked, and so is the age of the mirror's index (Valid-Until), because an
old signed index can hold back security updates. A frozen mirror has an old index: who builds from one turns the check
off by name, with `SLINKY_DEBIAN_VALID_UNTIL=unchecked` or with `Acquire::Check-Valid-Until` in apt's own configuration.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from slinky.lab.errors import LabError
from slinky.lab.machine.sandbox import run_in, stream
from slinky.lab.prepare.artifact_cache import Artifact, ArtifactCache
from slinky.lab.progress import Progress

SUITE = "forky"
#: The suite of an earlier Slurm (24.11), from which upgrades are tested.
EARLIER_SUITE = "trixie"

# buildah requires netavark even when it uses the host's network.
MACHINE_PACKAGES = (
    "buildah", "conntrack", "containerd", "containernetworking-plugins", "etcd-server", "iproute2", "kmod",
    "netavark", "nftables", "procps", "runc",
)  # fmt: skip

APT_SETTINGS, CHECK = "etc/apt/apt.conf.d/90slinky", "Acquire::Check-Valid-Until"
VALIDITY, UNCHECKED = "SLINKY_DEBIAN_VALID_UNTIL", "unchecked"


def settings(*, check_validity: bool) -> dict[str, str]:
    """Files of every tree: daemons are not started at installation, of the documentation only the licences are kept."""
    accept_old = "" if check_validity else f'{CHECK} "false";\n'
    return {
        "usr/sbin/policy-rc.d": "#!/bin/sh\nexit 101\n",
        "etc/dpkg/dpkg.cfg.d/slinky": "".join(
            f"path-exclude=/usr/share/{name}/*\n" for name in ("doc", "man", "locale", "info")
        )
        + "path-include=/usr/share/doc/*/copyright\n",
        APT_SETTINGS: f'{accept_old}APT::Install-Recommends "false";\n',
    }


def checks_validity(environment: Mapping[str, str], apt_configuration: str) -> bool:
    """Whether an index that is too old is refused. `apt_configuration` is the output of `apt-config dump`."""
    if VALIDITY in environment:
        return environment[VALIDITY] != UNCHECKED
    return not re.search(rf'(?mi)^{CHECK} "(false|no|0|off|without|disable)";', apt_configuration)


#: The variant of libfaketime for programs with threads.
FAKETIME_LIBRARY = "libfaketimeMT.so.1"

BASE = "a minimal Debian"
MACHINE = "the tree that nodes run in"


def base(suite: str = SUITE, architecture: str = "") -> Artifact:
    """The minimal tree on which every image is based; of this machine's architecture unless another is named."""
    other = (f"--arch={architecture}",) if architecture else ()

    def build(folder: Path, progress: Progress) -> dict[str, str]:
        tree = folder / "tree"
        files = settings(check_validity=checks_validity(os.environ, _apt_configuration()))
        # An older debootstrap does not know the suite; the script of sid works for every newer suite.
        script = "/usr/share/debootstrap/scripts/sid"
        stream(
            [
                "debootstrap",
                "--variant=minbase",
                "--include=ca-certificates",
                *other,
                suite,
                str(tree),
                mirror(),
                script,
            ],
            on_line=lambda line: progress.step(BASE, line.removeprefix("I: ")[:60]),
        )
        for name, text in files.items():
            file = tree / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755 if text.startswith("#!") else 0o644)
        # debootstrap does not look at Valid-Until; apt does.
        run_in(tree, ["apt-get", "-q", "update"], on_line=lambda line: progress.step(BASE, line[:60]))
        slim(tree)
        return {"suite": suite}

    # Not a part of the key: a cache can be carried to a machine whose apt has another configuration.
    inputs = settings(check_validity=False)
    return Artifact("debian", BASE, (suite, *inputs, *inputs.values(), *other), build, gigabytes=1)


def _apt_configuration() -> str:
    try:
        return subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""


def machine(store: ArtifactCache) -> Artifact:
    """The tree of nodes, in which images are built too."""
    origin = base()

    def build(folder: Path, progress: Progress) -> dict[str, str]:
        tree = folder / "tree"
        stream(["cp", "-a", str(store.require(origin) / "tree"), str(tree)])
        install(tree, MACHINE_PACKAGES, progress, MACHINE)
        return versions(tree, ("containerd", "runc", "etcd-server", "containernetworking-plugins"))

    inputs = (origin.key, *MACHINE_PACKAGES)
    return Artifact("machine", MACHINE, inputs, build, gigabytes=2, digested=("tree/usr/bin/etcd",))


def prometheus(store: ArtifactCache) -> Artifact:
    """Programs of Prometheus, which tests run on the host: `prometheus` and `promtool`."""
    return programs(store, "prometheus", "Prometheus", ("prometheus", "promtool"))


def image_registry(store: ArtifactCache) -> Artifact:
    """A registry of images and charts, which tests run on the host: `docker-registry`."""
    return programs(store, "registry", "an image registry", ("docker-registry",))


def cosign(store: ArtifactCache) -> Artifact:
    """The program that signs releases: `cosign`."""
    return programs(store, "cosign", "cosign", ("cosign",))


def faketime(store: ArtifactCache) -> Artifact:
    """The library that gives a process another clock, with which benchmarks let days pass in minutes."""
    return _package_files(
        store, "faketime", "libfaketime", (f"usr/lib/*/faketime/{FAKETIME_LIBRARY}",), ("libfaketime",)
    )


def programs(
    store: ArtifactCache, name: str, what: str, names: tuple[str, ...], packages: tuple[str, ...] = ()
) -> Artifact:
    """Programs as Debian builds them, from these packages or each from the package of its name."""
    return _package_files(store, name, what, tuple(f"usr/bin/{program}" for program in names), packages or names)


def _package_files(
    store: ArtifactCache, name: str, what: str, patterns: tuple[str, ...], packages: tuple[str, ...]
) -> Artifact:
    """Files of packages, one for each pattern."""
    origin = base()
    wanted = tuple(Path(pattern).name for pattern in patterns)

    def build(folder: Path, progress: Progress) -> dict[str, str]:
        tree = folder / "tree"
        stream(["cp", "-a", str(store.require(origin) / "tree"), str(tree)])
        unpack = 'for package in *.deb; do dpkg-deb -x "$package" .; done'
        script = f"apt-get -q update && cd /srv && apt-get -q download {' '.join(packages)} && {unpack}"
        run_in(tree, ["sh", "-c", script], on_line=lambda line: progress.step(what, line[:60]))
        files = [path.name.split("_") for path in (tree / "srv").glob("*.deb")]
        for pattern in patterns:
            found = next((tree / "srv").glob(pattern))
            shutil.copy2(found, folder / found.name)
        shutil.rmtree(tree)
        return {package: version for package, version, *_ in files}

    return Artifact(name, what, (origin.key, *wanted), build, gigabytes=1, digested=wanted)


def install(tree: Path, packages: tuple[str, ...], progress: Progress, task: str) -> None:
    """Install packages inside a tree."""

    def show(line: str) -> None:
        progress.step(task, line[:60])

    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run_in(tree, ["apt-get", "-q", "update"], env=quiet, on_line=show)
    run_in(tree, ["apt-get", "-q", "-y", "-o", "Dpkg::Use-Pty=0", "install", *packages], env=quiet, on_line=show)
    slim(tree)


def versions(tree: Path, packages: tuple[str, ...]) -> dict[str, str]:
    """The installed versions of packages."""
    lines: list[str] = []
    run_in(tree, ["dpkg-query", "-W", "-f", "${Package} ${Version}\\n", *packages], on_line=lines.append)
    return dict(line.split(" ", 1) for line in lines)


def mirror() -> str:
    """The Debian mirror that this machine uses."""
    if chosen := os.environ.get("SLINKY_DEBIAN_MIRROR"):
        return chosen
    listed = subprocess.run(
        ["apt-get", "indextargets", "Created-By: Packages", "--format", "$(REPO_URI)"],
        capture_output=True,
        text=True,
        check=False,
    )
    for uri in listed.stdout.splitlines():
        if uri.rstrip("/").endswith("/debian"):
            return uri.rstrip("/")
    raise LabError("no Debian mirror is configured on this machine", "set SLINKY_DEBIAN_MIRROR to the URL of one")


def slim(tree: Path) -> None:
    """Remove what package managers leave behind."""
    for name in ("var/cache/apt", "var/lib/apt/lists"):
        shutil.rmtree(tree / name, ignore_errors=True)
        (tree / name / "partial").mkdir(parents=True)
