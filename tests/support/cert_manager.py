# SPDX-License-Identifier: Apache-2.0
"""The real cert-manager, out of the cluster: its controllers and its injector of CA bundles, built on demand.

`python -m tests.support.cert_manager` builds it.
"""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from slinky.lab.kubernetes.bare_plane import WITH_US, BarePlane
from slinky.lab.prepare import golang
from slinky.lab.prepare.artifact_cache import Artifact, ArtifactCache
from slinky.lab.prepare.inventory import ArtifactInventory
from slinky.lab.progress import Progress

MODULE, VERSION = "github.com/cert-manager/cert-manager", "v1.21.2"
PROGRAM = Path(__file__).parent / "cert_manager_go" / "main.go"
GO_MOD = f"module slinky.slurm.net/cert-manager\ngo 1.26\nrequire {MODULE} {VERSION}\n"


def artifact(store: ArtifactCache) -> Artifact:
    """The program `cert-manager`, and the definitions of its kinds in `crds.yaml`."""
    what = f"cert-manager {VERSION}"

    def build(folder: Path, progress: Progress) -> dict[str, str]:
        module = folder / "module"
        module.mkdir()
        shutil.copy2(PROGRAM, module)
        (module / "go.mod").write_text(GO_MOD)
        go = golang.go(store, progress, module)
        go.build(["."], folder, [])
        definitions = sorted((go.folder(MODULE) / "deploy/crds").glob("*.yaml"))
        (folder / "crds.yaml").write_text("\n---\n".join(file.read_text() for file in definitions))
        shutil.rmtree(module)
        return {"cert-manager": VERSION}

    inputs = (GO_MOD, PROGRAM.read_text())
    return Artifact("cert-manager", what, inputs, build, 3, ("cert-manager", "crds.yaml"), seconds=200)


@contextlib.contextmanager
def running(plane: BarePlane, log: Path) -> Iterator[None]:
    """Run cert-manager on a control plane, with its kinds installed."""
    store = ArtifactInventory.of().store
    folder = store.require(artifact(store))
    command = [str(plane.kubectl), f"--kubeconfig={plane.kubeconfig}"]
    for words in (("apply", "--server-side", "-f", str(folder / "crds.yaml")), ("create", "namespace", "cert-manager")):
        subprocess.run([*command, *words], check=True, capture_output=True)
    subprocess.run([*command, "wait", "--for=condition=Established", "crd", "--all"], check=True, capture_output=True)
    with log.open("wb") as output:
        program = [*WITH_US, str(folder / "cert-manager"), str(plane.kubeconfig)]
        process = subprocess.Popen(program, stdout=output, stderr=output)
        try:
            yield
            assert process.poll() is None, log.read_text()[-3000:]
        finally:
            process.kill()
            process.wait()


if __name__ == "__main__":
    cache = ArtifactInventory.of().store
    print(cache.ensure(artifact(cache), Progress()))
