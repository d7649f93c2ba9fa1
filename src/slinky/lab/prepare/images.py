# SPDX-License-Identifier: Apache-2.0
"""Container images, built by buildah from the folders in `images/` without any registry.

Each image is an artifact keyed by its folder and its parent, so that it is rebuilt only when one of them changes. It is
built on exactly that parent: buildah's store holds the images of several checkouts, so a parent is named by its key. A
parent that the store lacks, because the cache was imported, is read from its archive.

The images that nodes need are unpacked once into a containerd store, the seed. A node starts with hard links to it,
which takes a fraction of a second instead of the tens of seconds of an import.
"""

import resource
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slinky.lab.machine.sandbox import run_in, stream
from slinky.lab.prepare import debian
from slinky.lab.prepare.artifact_cache import Artifact, ArtifactCache, key_of, tree_digest
from slinky.lab.progress import Progress

#: Not a registry: these images exist only on this machine.
REGISTRY = "localhost/slinky"
TAG = "lab"
ARCHIVE = "image.tar"


def reference(name: str) -> str:
    """The name of one of our images in a pod spec."""
    return f"{REGISTRY}/{name}:{TAG}"


def keyed_reference(artifact: str, key: str) -> str:
    """The name of an image in buildah's store, which no other content can have."""
    return f"{REGISTRY}/{artifact.removeprefix('image-')}:{key}"


def sources() -> Path:
    """The folder of image recipes: beside the code when installed, at the top of a checkout otherwise."""
    shipped = Path(__file__).parent.parent / "images"
    return shipped if shipped.is_dir() else Path(__file__).parents[4] / "images"


@dataclass(frozen=True)
class ImageBuilder:
    """Builds images inside the machine tree, which contains buildah."""

    store: ArtifactCache
    machine: Artifact

    def image(
        self,
        name: str,
        parent: Artifact | None = None,
        extra: Mapping[str, Artifact] | None = None,
        recipe_name: str = "",
        platform: str = "",
    ) -> Artifact:
        """One image; `extra` adds files or folders of other artifacts to the build context, by their path.

        The recipe is the folder of the same name unless `recipe_name` names another one. The platform is that of this
        machine unless another one is named; then the machine must be able to run its programs.
        """
        recipe = sources() / (recipe_name or name)
        extra = extra or {}
        what = f"image {name}"
        inputs = (
            tree_digest(recipe),
            parent.key if parent else "",
            *(f"{p} {a.key}" for p, a in extra.items()),
            *((platform,) if platform else ()),
        )

        def build(folder: Path, progress: Progress) -> dict[str, str]:
            context = folder / "context"
            shutil.copytree(recipe, context)
            for path, artifact in extra.items():
                stream(["cp", "-a", str(self.store.require(artifact) / path), str(context)])
            limits = [f"--ulimit={name}={_limit(number)}" for name, number in _LIMITS.items()]
            argv = ["buildah", "build", "--layers", "--pull-never", "--network=host", *limits]
            if platform:
                argv += ["--platform", platform]
            if parent:
                self.load(parent, folder, progress, what)
                argv += ["--build-arg", f"PARENT={keyed_reference(parent.name, parent.key)}"]
            tags = ["-t", reference(name), "-t", keyed_reference(f"image-{name}", key_of(inputs))]
            self.run([*argv, *tags, "/context"], folder, progress, what)
            archive = f"oci-archive:/context/{ARCHIVE}:{reference(name)}"
            push = ["buildah", "push", "-q", "--disable-compression", reference(name), archive]
            self.run(push, folder, progress, what)
            (context / ARCHIVE).rename(folder / ARCHIVE)
            shutil.rmtree(context)
            return {"image": reference(name)}

        return Artifact(f"image-{name}", what, inputs, build, gigabytes=0.6, digested=(ARCHIVE,))

    def load(self, image: Artifact, folder: Path, progress: Progress, task: str) -> None:
        """Read an image from its archive unless buildah's store has it."""
        binds = {"/image": self.store.require(image)}
        self.run(["sh", "-ec", _LOAD, "sh", keyed_reference(image.name, image.key)], folder, progress, task, binds)

    def base_tar(self, origin: Artifact, name: str = "base-tar") -> Artifact:
        """The Debian tree as one file, which the base image adds."""

        def build(folder: Path, progress: Progress) -> dict[str, str]:
            tree = self.store.require(origin) / "tree"
            stream(
                [
                    "tar",
                    "-C",
                    str(tree),
                    "--one-file-system",
                    "--numeric-owner",
                    "-cf",
                    str(folder / "tree.tar"),
                    ".",
                ]
            )
            return {}

        return Artifact(name, "the base layer", (origin.key,), build, gigabytes=1, digested=("tree.tar",))

    def tree(self, image: Artifact, name: str) -> Artifact:
        """The files of an image as a root file system of a machine."""
        what = f"the tree of image {name}"

        def build(folder: Path, progress: Progress) -> dict[str, str]:
            (folder / "context").mkdir()
            self.load(image, folder, progress, what)
            script = 'c=$(buildah from --pull-never "$1") && cp -a "$(buildah mount $c)" /context/tree && buildah rm $c'
            self.run(["sh", "-ec", script, "sh", keyed_reference(image.name, image.key)], folder, progress, what)
            (folder / "context" / "tree").rename(folder / "tree")
            (folder / "context").rmdir()
            return debian.versions(folder / "tree", ("slurmctld", "mariadb-server"))

        return Artifact(f"tree-{name}", what, (image.key,), build, gigabytes=1)

    def seed(self, images: Mapping[str, Artifact]) -> Artifact:
        """A containerd store that holds these images, unpacked."""
        what = "the image store of nodes"

        def build(folder: Path, progress: Progress) -> dict[str, str]:
            containerd = folder / "containerd"
            containerd.mkdir()
            binds = {"/var/lib/containerd": containerd}
            archives = []
            for name, image in images.items():
                binds[f"/images/{name}"] = self.store.require(image)
                archives.append(f"/images/{name}/{ARCHIVE}")
            run_in(self.store.require(self.machine) / "tree", ["sh", "-ec", _SEED, "sh", *archives], binds=binds,
                   on_line=lambda line: progress.step(what, line[:60]))  # fmt: skip
            return {name: reference(name) for name in images}

        inputs = (self.machine.key, _SEED, *(image.key for image in images.values()))
        return Artifact("seed", what, inputs, build, gigabytes=2)

    def run(
        self,
        argv: Sequence[str],
        folder: Path,
        progress: Progress,
        task: str,
        binds: Mapping[str, Path] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Run a command in the machine tree with buildah's store and the folder `context` of a scratch folder."""
        layers = self.store.folder / "buildah"
        layers.mkdir(parents=True, exist_ok=True)
        run_in(
            self.store.require(self.machine) / "tree",
            argv,
            binds={"/var/lib/containers": layers, "/context": folder / "context", **(binds or {})},
            env={"STORAGE_DRIVER": "overlay", "BUILDAH_ISOLATION": "chroot", **(env or {})},
            on_line=lambda line: progress.step(task, line[:60]),
        )


# buildah raises these limits to values that root without CAP_SYS_RESOURCE may not set.
_LIMITS = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}


def _limit(number: int) -> str:
    hard = resource.getrlimit(number)[1]
    return f"{hard}:{hard}"


_LOAD = """
buildah inspect --type image "$1" >/dev/null 2>&1 && exit
id=$(buildah pull -q oci-archive:/image/image.tar)
buildah tag "$id" "$1"
"""

_SEED = """
containerd --log-level warn &
for i in $(seq 200); do ctr version >/dev/null 2>&1 && break; sleep 0.05; done
for archive in "$@"; do echo "$archive"; ctr -n k8s.io images import --local "$archive"; done
kill $!; wait $! || true
"""
