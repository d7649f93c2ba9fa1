# SPDX-License-Identifier: Apache-2.0
"""All artifacts of `slinky lab prepare`, in build order."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from slinky.lab.paths import cache
from slinky.lab.prepare import debian, golang, tools, virtual, wheels
from slinky.lab.prepare.artifact_cache import Artifact, ArtifactCache
from slinky.lab.prepare.emulation import Architecture
from slinky.lab.prepare.images import ARCHIVE, ImageBuilder
from slinky.lab.progress import Progress

#: Images of single daemons, for the pods that the operator creates; LOGIN images also run sshd.
DAEMONS = ("slurmctld", "slurmdbd", "slurmrestd")
LOGIN = ("slurmd", "login")
#: Images that a site runs, beside slinky; the others are layers of them or belong to the lab.
SLURM = (*DAEMONS, *LOGIN, "completer")
#: The release of Slurm from which upgrades are tested, and the end of the names of its images.
EARLIER_SLURM = "24.11"
EARLIER = "-earlier"
#: Images that few tests need, with their parents: a site's own image of slurmd, and a directory of users.
EXTRA_IMAGES = {"slurmd-extended": "image-slurmd", "slapd": "image-base"}


@dataclass(frozen=True)
class ImageVariant:
    """The images of Slurm from the same recipes on another Debian: an earlier suite, or another architecture."""

    builder: ImageBuilder
    suffix: str
    origin: Artifact
    platform: str = ""
    slurm: str = "slurm"

    def name(self, artifact: str) -> str:
        """The name of an artifact of this variant."""
        return f"{artifact}{self.suffix}"

    def image(self, recipe: str, parent: Artifact | None, **extra: Artifact) -> Artifact:
        """An image of this variant."""
        return self.builder.image(self.name(recipe), parent, extra, recipe_name=recipe, platform=self.platform)

    def artifacts(self, further: tuple[str, ...] = ()) -> dict[str, Artifact]:
        """Every layer and daemon, in build order; `further` images are based on that of all Slurm programs."""
        base_tar = self.builder.base_tar(self.origin, self.name("base-tar"))
        base = self.image("base", None, **{"tree.tar": base_tar})
        slurm = self.builder.image(self.name("slurm"), base, recipe_name=self.slurm, platform=self.platform)
        daemon = self.image("daemon", slurm)
        login_base = self.image("login-base", daemon)
        parents = dict.fromkeys(further, slurm) | dict.fromkeys(DAEMONS, daemon) | dict.fromkeys(LOGIN, login_base)
        images = (base, slurm, daemon, login_base, *(self.image(name, parent) for name, parent in parents.items()))
        return {
            self.name("debian"): self.origin,
            self.name("base-tar"): base_tar,
            **{image.name: image for image in images},
        }


@dataclass(frozen=True)
class ArtifactInventory:
    """The artifacts of one Kubernetes version."""

    store: ArtifactCache
    release: golang.KubernetesRelease

    @classmethod
    def of(cls, minor: str = "1.36") -> "ArtifactInventory":
        """The inventory in the usual cache."""
        return cls(ArtifactCache(cache()), golang.release(minor))

    @cached_property
    def artifacts(self) -> dict[str, Artifact]:
        """Artifacts by name; each may use only those before it."""
        store = self.store
        machine = debian.machine(store)
        builder = ImageBuilder(store, machine)
        programs = golang.programs(store, self.release)
        base_tar = builder.base_tar(debian.base())
        base = builder.image("base", extra={"tree.tar": base_tar})
        slurm = builder.image("slurm", base)
        lab_slurm = builder.image("lab-slurm", slurm)
        daemon = builder.image("daemon", slurm)
        login_base = builder.image("login-base", daemon)
        images = {
            "pause": builder.image("pause", extra={"bin/pause": programs}),
            "busybox": builder.image("busybox", base),
            "slurm": slurm,
            "mariadb": builder.image("mariadb", base),
            "completer": builder.image("completer", slurm),
            **{name: builder.image(name, daemon) for name in DAEMONS},
            **{name: builder.image(name, login_base) for name in LOGIN},
        }
        return {
            "debian": debian.base(),
            "machine": machine,
            "programs": programs,
            "helm": golang.helm(store),
            "prometheus": debian.prometheus(store),
            "base-tar": base_tar,
            "image-base": base,
            "image-slurm": slurm,
            "image-daemon": daemon,
            "image-login-base": login_base,
            **{f"image-{name}": image for name, image in images.items()},
            "image-lab-slurm": lab_slurm,
            "tree-lab-slurm": builder.tree(lab_slurm, "lab-slurm"),
            "seed": builder.seed(images),
        }

    @cached_property
    def vm_artifacts(self) -> dict[str, Artifact]:
        """What nodes in virtual machines need beside the other artifacts."""
        tree = virtual.tree(self.store, self.artifacts["machine"])
        return {"vm-tree": tree, "vm-disk": virtual.disk(self.store, tree, self.artifacts["seed"])}

    def api_server(self, minor: str) -> Artifact:
        """What has the API server of a minor version in `bin`: the lab's own programs, or those of another release."""
        if minor == self.release.minor:
            return self.artifacts["programs"]
        return golang.api_server(self.store, golang.other_release(minor))

    @cached_property
    def earlier_artifacts(self) -> dict[str, Artifact]:
        """The images of an earlier Slurm, from the same recipes; `load_image` imports them into a lab."""
        origin = debian.base(debian.EARLIER_SUITE)
        return ImageVariant(self.builder, EARLIER, origin, slurm=f"slurm{EARLIER}").artifacts()

    def foreign_images(self, architecture: Architecture, progress: Progress) -> dict[str, Artifact]:
        """The images that a site runs, built for another architecture, whose programs this machine can run."""
        origin = debian.base(architecture=architecture.name)
        variant = ImageVariant(self.builder, f"-{architecture.name}", origin, architecture.platform)
        artifacts = variant.artifacts(("completer",))
        machine = self.artifacts["machine"]
        self.store.ensure_all([self.artifacts["debian"], machine, *artifacts.values()], progress)
        wheels_ = self._wheels(progress, architecture.machine)
        slinky = variant.image("slinky", artifacts[variant.name("image-base")], wheels=wheels_)
        self.store.ensure(slinky, progress)
        return {"slinky": slinky, **{name: artifacts[variant.name(f"image-{name}")] for name in SLURM}}

    def earlier_images(self) -> list[Path]:
        """The archives of the images of an earlier Slurm."""
        names = (f"image-{name}{EARLIER}" for name in (*DAEMONS, *LOGIN))
        return [self.store.require(self.earlier_artifacts[name]) / ARCHIVE for name in names]

    def extra_image(self, name: str, progress: Progress) -> Path:
        """The archive of an image of `EXTRA_IMAGES`; built on demand, since few tests need it."""
        builder = ImageBuilder(self.store, self.artifacts["machine"])
        return self.store.ensure(builder.image(name, self.artifacts[EXTRA_IMAGES[name]]), progress) / ARCHIVE

    def prepare(
        self, progress: Progress, *, vms: bool = False, earlier: bool = False, api_servers: Sequence[str] = ()
    ) -> None:
        """Build every artifact that is missing, of the same choice as `selected`."""
        tools.require_root("preparing the lab")
        tools.require_tools(progress)
        self.store.ensure_all(self.selected(vms=vms, earlier=earlier, api_servers=api_servers).values(), progress)

    def gigabytes_to_build(self, *, vms: bool = False, earlier: bool = False, api_servers: Sequence[str] = ()) -> float:
        """The disk space that a complete preparation still needs."""
        artifacts = self.selected(vms=vms, earlier=earlier, api_servers=api_servers).values()
        return sum(artifact.gigabytes for artifact in self.store.missing(artifacts))

    def selected(self, *, vms: bool, earlier: bool = False, api_servers: Sequence[str] = ()) -> dict[str, Artifact]:
        """The artifacts of a lab.

        Only if wanted: those of nodes in virtual machines, images of an earlier Slurm, API servers of other minors.
        """
        servers = [self.api_server(minor) for minor in api_servers if minor != self.release.minor]
        return (
            self.artifacts
            | (self.vm_artifacts if vms else {})
            | (self.earlier_artifacts if earlier else {})
            | {server.name: server for server in servers}
        )

    def every_artifact(self) -> dict[str, Artifact]:
        """Every artifact that some choice selects."""
        return self.selected(vms=True, earlier=True, api_servers=tuple(golang.OTHER_RELEASES))

    def slinky_image(self, progress: Progress) -> Path:
        """The archive of the slinky image."""
        return self.store.require(self.slinky(progress)) / ARCHIVE

    def slinky(self, progress: Progress) -> Artifact:
        """The slinky image, built. It is not part of `prepare` because every code change makes a new one."""
        own = self._wheels(progress)
        image = self.builder.image("slinky", self.artifacts["image-base"], extra={"wheels": own})
        self.store.ensure(image, progress)
        return image

    def _wheels(self, progress: Progress, machine: str = "") -> Artifact:
        own = wheels.own(self.store.ensure(wheels.dependencies(machine), progress))
        self.store.ensure(own, progress)
        return own

    @property
    def builder(self) -> ImageBuilder:
        """Builds and pushes images with the buildah of the machine tree."""
        return ImageBuilder(self.store, self.artifacts["machine"])

    def slurm_images(self, progress: Progress) -> dict[str, Artifact]:
        """The images that contain Slurm, by name, built without the other parts of a lab."""
        layers = ("debian", "machine", "base-tar", *(f"image-{n}" for n in ("base", "slurm", "daemon", "login-base")))
        images = {name: self.artifacts[f"image-{name}"] for name in SLURM}
        self.store.ensure_all([*(self.artifacts[name] for name in layers), *images.values()], progress)
        return images

    def image_registry(self, progress: Progress) -> Path:
        """A registry server, which only tests of installation need."""
        return self.store.ensure(debian.image_registry(self.store), progress) / "docker-registry"

    def cosign(self, progress: Progress) -> Path:
        """The program that signs and verifies releases, which only releasers and tests need."""
        return self.store.ensure(debian.cosign(self.store), progress) / "cosign"

    def faketime(self, progress: Progress) -> Path:
        """The library that gives a process another clock, which only benchmarks need."""
        return self.store.ensure(debian.faketime(self.store), progress) / debian.FAKETIME_LIBRARY

    def paths(self, *, vms: bool = False) -> dict[str, str]:
        """The path of every artifact of a lab."""
        return {name: str(self.store.require(artifact)) for name, artifact in self.selected(vms=vms).items()}
