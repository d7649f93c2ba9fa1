# SPDX-License-Identifier: Apache-2.0
"""The documented installation from a registry, on nodes that have no image: until a job and a bridged pod have run.

The registry asks for a login and has a certificate of an authority that nothing trusts at first. The tests depend on
each other, in the order of this file, as the steps of an installation do.
"""

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from charts.package import CHARTS
from release.signing import PUBLIC_KEY, Cosign
from tests.support.image_registry import PASSWORD, ImageRegistry
from tests.support.labs import SessionLabs
from tests.support.waiting import until

from slinky import __version__
from slinky.bridge.names import JOB_LABEL
from slinky.lab.demo.charts import POOL, LabCharts, cluster_values
from slinky.lab.lab import Lab
from slinky.lab.prepare.images import reference
from slinky.lab.prepare.inventory import SLURM, ArtifactInventory
from slinky.lab.progress import Progress

pytestmark = pytest.mark.lab

ROOT = Path(__file__).parents[3]
INSTALL = ROOT / "docs/operator/install.md"
EXAMPLE = "registry.example/slinky"
SECRET = "registry-login"


@dataclass(frozen=True)
class RegistrySite:
    """A lab without images, a registry beside it, and the shell of an administrator."""

    lab: Lab
    registry: ImageRegistry
    folder: Path

    @property
    def images(self) -> Path:
        """What `make images` writes."""
        return self.folder / "images.yaml"

    @property
    def repository(self) -> str:
        """Where the images are pushed to."""
        return f"{self.registry.host}/slinky"

    def environment(self, **more: str) -> dict[str, str]:
        """The variables of the administrator's shell; what the commands of the docs leave to the site is set here."""
        homes = {f"HELM_{name}_HOME": str(self.folder / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        return {
            **os.environ,
            **homes,
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "KUBECONFIG": str(self.lab.kubeconfig),
            "HELM_REGISTRY_CONFIG": str(self.registry.authfile()),
            "SSL_CERT_FILE": str(self.registry.ca),
            "CA": str(self.registry.ca),
            "AUTHFILE": str(self.registry.authfile()),
            "IMAGES": str(self.images),
            "CHARTS": str(self.folder / "charts"),
            "SLINKY_CACHE": str(Path(os.environ.get("SLINKY_CACHE", Path.home() / ".cache/slinky"))),
            **more,
        }

    def adapt(self, script: str) -> str:
        """A script of the docs with the names of this site."""
        names = {
            EXAMPLE: self.repository,
            "build/images.yaml": str(self.images),
            "build/charts": str(self.folder / "charts"),
            "examples/operator/values.yaml": str(self.folder / "cluster.yaml"),
            "schedulerConfig.partition=all": f"schedulerConfig.partition={POOL}",
            "--wait": f"--wait --set imagePullSecrets[0].name={SECRET}",
            "nodeset/slurm-worker-cpu": f"nodeset/slurm-worker-{POOL}",
        }
        for name, own in names.items():
            script = script.replace(name, own)
        return script

    def shell(self, script: str, **more: str) -> "subprocess.CompletedProcess[str]":
        """Run a script of the docs in the checkout."""
        return subprocess.run(
            ["bash", "-euc", self.adapt(script)],
            cwd=ROOT,
            env=self.environment(**more),
            capture_output=True,
            text=True,
            timeout=540,
            check=False,
        )

    def succeed(self, script: str) -> str:
        """Run a script that must succeed."""
        done = self.shell(script)
        assert done.returncode == 0, f"{script}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def condition(self, kind: str, name: str, space: str, condition: str) -> dict[str, Any]:
        """A condition of an object, or an empty one."""
        found = json.loads(self.lab.kubectl("get", kind, name, "-n", space, "-o", "json"))
        every: list[dict[str, Any]] = found.get("status", {}).get("conditions", [])
        return next((item for item in every if item["type"] == condition), {})

    def give_secret(self, space: str, password: str = PASSWORD) -> None:
        """Create or replace the pull secret of a namespace."""
        secret = self.registry.pull_secret(SECRET, password)
        self.lab.kubectl("apply", "-n", space, "-f", "-", input=yaml.safe_dump(secret))


def documented(page: Path, command: str) -> str:
    """The block of a page that contains a command."""
    blocks = page.read_text().split("```sh\n")[1:]
    return next(text for block in blocks if command in (text := block.partition("\n```")[0]))


@pytest.fixture(scope="module")
def site(session_labs: SessionLabs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistrySite]:
    lab = session_labs.make(nodes=2, gpus=0)
    folder = tmp_path_factory.mktemp("registry")
    registry = ImageRegistry(lab.network.host, folder)
    (folder / "bin").mkdir()
    (folder / "bin/kubectl").symlink_to(lab.plane.binaries / "kubectl")
    (folder / "bin/helm").symlink_to(lab.artifact("helm") / "helm")
    secrets = {"imagePullSecrets": [{"name": SECRET}]}
    cluster = cluster_values()
    del cluster["configFiles"]["gres.conf"], cluster["nodesets"]["pool"]["extraConf"]
    cluster["controller"]["extraConf"] = cluster["controller"]["extraConf"].replace("GresTypes=gpu\n", "")
    (folder / "cluster.yaml").write_text(yaml.safe_dump({**cluster, **secrets}))
    for node in LabCharts(lab).nodes:
        _remove_images(lab, node)
    registry.start()
    yield RegistrySite(lab, registry, folder)
    registry.stop()


def _remove_images(lab: Lab, node: str) -> None:
    """Leave only the image that holds namespaces, so that everything else is pulled."""
    machine = lab.node_machine(node)
    rows = [line.split() for line in machine.run(["ctr", "-n", "k8s.io", "images", "ls"]).stdout.splitlines()[1:]]
    kept = {row[2] for row in rows if row[0] == reference("pause")}
    # An image also has the name of its digest; while one name is left, its layers stay.
    unwanted = [row[0] for row in rows if row[2] not in kept]
    machine.run(["ctr", "-n", "k8s.io", "images", "rm", "--sync", *unwanted], timeout=300)


PUSH = documented(INSTALL, "make images")


def test_a_registry_that_is_not_trusted_is_refused_with_the_next_step(site: RegistrySite) -> None:
    done = site.shell(PUSH, CA="")
    assert done.returncode
    assert "certificate signed by unknown authority" in done.stderr
    assert "next: pass the certificate of its authority: CA=" in done.stderr


def test_a_wrong_login_is_refused_with_the_next_step(site: RegistrySite) -> None:
    done = site.shell(PUSH, AUTHFILE=str(site.registry.authfile("wrong")))
    assert done.returncode
    assert "next: log in with `podman login`" in done.stderr
    assert not site.images.exists()


def test_an_interrupted_push_is_repeated(site: RegistrySite) -> None:
    output = site.folder / "interrupted"
    with output.open("wb") as file:
        argv = ["bash", "-euc", site.adapt(PUSH)]
        push = subprocess.Popen(argv, cwd=ROOT, env=site.environment(), stderr=file, process_group=0)
    try:
        until(lambda: _pushed(site) or None, "the first image")
        site.registry.stop()
        assert push.wait(timeout=500)
    finally:
        if push.poll() is None:
            os.killpg(push.pid, signal.SIGKILL)
    assert "did not take the images" in output.read_text()
    assert not site.images.exists()
    site.registry.start()
    site.succeed(PUSH)
    values = yaml.safe_load(site.images.read_text())["global"]
    assert values["registry"] == site.repository
    assert set(values["digests"]) == {"slinky", *SLURM}


def _pushed(site: RegistrySite) -> list[str]:
    return [line for line in site.registry.requests() if '"PUT /v2/slinky/' in line and "/manifests/" in line]


def test_the_documented_commands_lead_to_a_cluster(site: RegistrySite) -> None:
    site.succeed(documented(INSTALL, "make charts"))
    for space in ("slinky", "slurm"):
        site.lab.kubectl("create", "namespace", space)
        site.give_secret(space)
    for node in LabCharts(site.lab).nodes:
        site.registry.trust(site.lab, node)
    # The pull secret of the cluster is wrong at first: its objects report what the registry answers.
    site.give_secret("slurm", "wrong")
    *install, wait = documented(INSTALL, "helm install slurm oci://").splitlines()
    site.succeed("\n".join(install))

    def refused() -> bool:
        degraded = site.condition("controller", "slurm", "slurm", "Degraded")
        assert degraded.get("status") == "True", degraded
        assert "unauthorized" in degraded["message"] or "401" in degraded["message"], degraded
        return True

    until(refused, "the answer of the registry in the condition")
    site.give_secret("slurm")
    site.succeed(wait)


def test_the_images_and_charts_are_signed(site: RegistrySite) -> None:
    cosign = ArtifactInventory.of().cosign(Progress(quiet=True))
    site.succeed(f"cd {site.folder} && COSIGN_PASSWORD=sesame {cosign} generate-key-pair")
    key = site.folder / "cosign.key"
    refused = site.shell("make sign", COSIGN_KEY=str(key), COSIGN_PASSWORD="wrong")
    assert refused.returncode
    assert "next: set COSIGN_PASSWORD" in refused.stderr
    done = site.shell("make sign", COSIGN_KEY=str(key), COSIGN_PASSWORD="sesame")
    assert done.returncode == 0, done.stderr
    signed = [line.removeprefix("signed ") for line in done.stdout.splitlines() if line.startswith("signed ")]
    assert len(signed) == 1 + len(SLURM) + len(CHARTS)
    public = Cosign(cosign, key.with_name(PUBLIC_KEY), site.registry.ca, site.registry.authfile())
    for name in signed:
        public.verify_image(name)


def test_a_job_runs(site: RegistrySite) -> None:
    charts = LabCharts(site.lab)
    until(lambda: charts.idle_hosts() or None, "an idle host")
    assert charts.slurm("srun", "-N1", "echo", "hello").strip() == "hello"
    number = charts.slurm("sbatch", "--parsable", "--wait", "--output=/dev/null", "--wrap=true").strip()
    assert "JobState=COMPLETED" in charts.slurm("scontrol", "show", "job", number)


def test_a_bridged_job_runs(site: RegistrySite) -> None:
    site.succeed(documented(INSTALL, "helm install slurm-bridge oci://"))
    site.lab.kubectl("create", "namespace", "bridged")
    site.give_secret("bridged")
    container = {
        "name": "main",
        "image": f"{site.repository}/slinky:{__version__}",
        "command": ["python", "-c", "print('hello')"],
        "resources": {"requests": {"cpu": "1", "memory": "64Mi"}},
    }
    pod = {
        "schedulerName": "slurm-bridge-scheduler",
        "restartPolicy": "Never",
        "imagePullSecrets": [{"name": SECRET}],
        "containers": [container],
    }
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "hello"}, "spec": {"template": {"spec": pod}}}
    site.lab.kubectl("apply", "-n", "bridged", "-f", "-", input=yaml.safe_dump(job))
    site.lab.kubectl("wait", "-n", "bridged", "job/hello", "--for=condition=Complete", "--timeout=240s")
    assert site.lab.kubectl("logs", "-n", "bridged", "job/hello").strip() == "hello"
    pod_metadata = site.lab.kubectl("get", "pods", "-n", "bridged", "-o", "jsonpath={.items[0].metadata}")
    assert JOB_LABEL in pod_metadata


def test_the_tests_of_every_chart_succeed(site: RegistrySite) -> None:
    for release, space in (("slurm-operator", "slinky"), ("slurm", "slurm"), ("slurm-bridge", "slurm")):
        assert "Phase:          Succeeded" in site.succeed(f"helm test {release} -n {space}")


def test_kubelets_have_pulled_every_image(site: RegistrySite) -> None:
    pulled = [line for line in site.registry.requests() if "containerd/" in line and '"GET /v2/slinky/' in line]
    for name in ("slinky", "slurmctld", "slurmd", "slurmrestd"):
        assert any(f"/v2/slinky/{name}/blobs/" in line for line in pulled), name
    assert any('" 401 ' in line for line in pulled), "the registry asks for a login"


def test_a_node_that_does_not_trust_the_registry_says_so(site: RegistrySite) -> None:
    node = LabCharts(site.lab).nodes[0]
    site.lab.node_machine(node).run(["rm", "-r", f"/etc/containerd/certs.d/{site.registry.host}"])
    pod = {"metadata": {"name": "distrust"}, "spec": {"nodeName": node, "containers": [
        {"name": "main", "image": f"{site.repository}/login:{__version__}"}]}}  # fmt: skip
    manifest = yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", **pod})
    site.lab.kubectl("apply", "-n", "bridged", "-f", "-", input=manifest)

    def told() -> bool:
        path = "jsonpath={.status.containerStatuses[0].state.waiting.message}"
        message = site.lab.kubectl("get", "pod", "distrust", "-n", "bridged", "-o", path)
        assert "certificate signed by unknown authority" in message, shlex.quote(message)
        return True

    until(told, "the error of the kubelet")
