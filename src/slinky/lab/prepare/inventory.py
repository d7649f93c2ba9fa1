# SPDX-License-Identifier: Apache-2.0
"""All artifacts of `slinky lab prepare`, in build order."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from slinky.lab.paths import cache
from slinky.lab.prepare import debian, golang, tools, virtual, wheels
from slinky.lab.prepare.artifact_cache import Artifact, ArtifactCache
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

    @cached_property
    def earlier_artifacts(self) -> dict[str, Artifact]:
        """The images of an earlier Slurm, from the same recipes; `load_image` imports them into a lab."""
        builder = ImageBuilder(self.store, self.artifacts["machine"])
        origin = debian.base(debian.EARLIER_SUITE)
        base_tar = builder.base_tar(origin, f"base-tar{EARLIER}")

        def image(recipe: str, parent: Artifact) -> Artifact:
            return builder.image(f"{recipe}{EARLIER}", parent, recipe_name=recipe)

        base = builder.image(f"base{EARLIER}", extra={"tree.tar": base_tar}, recipe_name="base")
        slurm = builder.image(f"slurm{EARLIER}", base)
        daemon = image("daemon", slurm)
        login_base = image("login-base", daemon)
        layers = (base, slurm, daemon, login_base)
        daemons = (*(image(name, daemon) for name in DAEMONS), *(image(name, login_base) for name in LOGIN))
        return {
            f"debian{EARLIER}": origin,
            f"base-tar{EARLIER}": base_tar,
            **{item.name: item for item in (*layers, *daemons)},
        }

    def earlier_images(self) -> list[Path]:
        """The archives of the images of an earlier Slurm."""
        names = (f"image-{name}{EARLIER}" for name in (*DAEMONS, *LOGIN))
        return [self.store.require(self.earlier_artifacts[name]) / ARCHIVE for name in names]

    def extended_slurmd(self, progress: Progress) -> Path:
        """The archive of an example of a site's own image of slurmd; built on demand, since few tests need it."""
        builder = ImageBuilder(self.store, self.artifacts["machine"])
        return self.store.ensure(builder.image("slurmd-extended", self.artifacts["image-slurmd"]), progress) / ARCHIVE

    def prepare(self, progress: Progress, *, vms: bool = False, earlier: bool = False) -> None:
        """Build every artifact that is missing; those of virtual machines and of an earlier Slurm only if wanted."""
        tools.require_root("preparing the lab")
        tools.require_tools(progress)
        self.store.ensure_all(self.selected(vms=vms, earlier=earlier).values(), progress)

    def gigabytes_to_build(self, *, vms: bool = False, earlier: bool = False) -> float:
        """The disk space that a complete preparation still needs."""
        artifacts = self.selected(vms=vms, earlier=earlier).values()
        return sum(artifact.gigabytes for artifact in self.store.missing(artifacts))

    def selected(self, *, vms: bool, earlier: bool = False) -> dict[str, Artifact]:
        """The artifacts of a lab, with or without nodes in virtual machines and images of an earlier Slurm."""
        return self.artifacts | (self.vm_artifacts if vms else {}) | (self.earlier_artifacts if earlier else {})

    def slinky_image(self, progress: Progress) -> Path:
        """The archive of the slinky image."""
        return self.store.require(self.slinky(progress)) / ARCHIVE

    def slinky(self, progress: Progress) -> Artifact:
        """The slinky image, built. It is not part of `prepare` because every code change makes a new one."""
        pinned = self.store.ensure(wheels.dependencies(), progress)
        own = wheels.own(pinned)
        self.store.ensure(own, progress)
        image = self.builder.image("slinky", self.artifacts["image-base"], extra={"wheels": own})
        self.store.ensure(image, progress)
        return image

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

    def paths(self, *, vms: bool = False) -> dict[str, str]:
        """The path of every artifact of a lab."""
        return {name: str(self.store.require(artifact)) for name, artifact in self.selected(vms=vms).items()}
