# SPDX-License-Identifier: Apache-2.0
"""GPUs, MPI programs across workers, and jobs in OCI containers, with a site's own image of slurmd."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from tests.chart.helm import Helm, program
from tests.conftest import MakeLab
from tests.e2e.operator.site import EXTRA_CONF, OperatorSite, cluster, operator_site
from tests.support.waiting import until

from slinky.lab.prepare.images import reference
from slinky.lab.prepare.inventory import ArtifactInventory
from slinky.lab.progress import Progress

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1200)]

#: Two devices that every machine has; other hosts than these have none.
GRES_CONF = "AutoDetect=off\nNodeName=g-[0-9] Name=gpu File=/dev/full,/dev/random\n"
OCI_CONF = """
EnvExclude="^(SLURM_CONF|SLURM_CONF_SERVER)="
RunTimeEnvExclude="^(SLURM_CONF|SLURM_CONF_SERVER)="
RunTimeQuery="crun --cgroup-manager=disabled --root=/tmp/crun-%U state %n.%u.%j.%s.%t"
RunTimeKill="crun --cgroup-manager=disabled --root=/tmp/crun-%U kill -a %n.%u.%j.%s.%t"
RunTimeDelete="crun --cgroup-manager=disabled --root=/tmp/crun-%U delete --force %n.%u.%j.%s.%t"
RunTimeRun="crun --cgroup-manager=disabled --root=/tmp/crun-%U run --bundle %b %n.%u.%j.%s.%t"
"""
FILES = {"cgroup.conf": "CgroupPlugin=disabled\n", "gres.conf": GRES_CONF, "oci.conf": OCI_CONF}
#: A bundle whose root file system has one file of its own, and the programs of the worker.
BUNDLE = {
    "ociVersion": "1.0.0",
    "process": {"user": {"uid": 0, "gid": 0}, "args": ["/bin/true"], "env": ["PATH=/usr/bin:/bin"], "cwd": "/"},
    "root": {"path": "rootfs"},
    "hostname": "box",
    "mounts": [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
    ],
    "linux": {"namespaces": [{"type": name} for name in ("pid", "ipc", "uts", "mount")]},
}
MAKE_BUNDLE = """
mkdir -p "$1" && cd "$1"
mkdir -p rootfs/etc rootfs/proc rootfs/dev rootfs/usr
for name in bin lib lib64 sbin; do ln -sfn usr/$name rootfs/$name; done
echo marked >rootfs/etc/mark
printf %s "$2" >config.json
"""
#: What a job in such a bundle prints.
IN_BOX = "echo $(cat /etc/mark) on $(hostname) as $(id -u)"
#: A user of the worker from which the jobs are submitted.
USER, UID = "carol", 5003
#: What a bundle needs without root: a user namespace in which the user is root.
ROOTLESS = {
    "namespaces": [{"type": name} for name in ("user", "pid", "ipc", "uts", "mount")],
    "uidMappings": [{"containerID": 0, "hostID": UID, "size": 1}],
    "gidMappings": [{"containerID": 0, "hostID": UID, "size": 1}],
}
#: Where the chart has the prolog and the epilog write the job of each GPU.
MAPPING = "/var/lib/dcgm-exporter/job-mapping"
DCGM = {
    "nodesets": {"gpu": {"slurmd": {"resources": {"requests": {"nvidia.com/gpu": 2}}}}},
    "vendor": {"nvidia": {"dcgm": {"enabled": True}}},
}


@pytest.fixture(scope="module")
def site(make_lab: MakeLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorSite]:
    archive = ArtifactInventory.of().extra_image("slurmd-extended", Progress())
    lab = make_lab(nodes=2, gpus=0)
    lab.load_image(archive)
    scripts, volumes, mounts = dcgm(Helm(program(), tmp_path_factory.mktemp("helm")))
    specs: dict[str, dict[str, Any]] = {
        "NodeSet": {
            "slurmd": {"image": reference("slurmd-extended"), "volumeMounts": mounts},
            "extraConf": "Gres=gpu:2",
        },
        "Controller": {
            "extraConf": f"{EXTRA_CONF}GresTypes=gpu\n",
            **{f"{kind}ScriptRefs": [{"name": f"slurm-{kind}-scripts"}] for kind in ("prolog", "epilog")},
        },
    }
    with operator_site(lab, tmp_path_factory.mktemp("jobs")) as site:
        items = [{**item, "data": FILES} if item["kind"] == "ConfigMap" else item for item in cluster()]
        for item in items:
            item.get("spec", {}).update(specs.get(item["kind"], {}))
            if item["kind"] == "NodeSet":
                item["spec"]["template"]["spec"]["volumes"] = volumes
        site.apply(*scripts, *items)
        site.wait_workers(2)
        yield site


def dcgm(helm: Helm) -> tuple[list[Any], list[Any], list[Any]]:
    """What the chart adds for DCGM: the scripts, and the volumes and mounts of workers with GPUs."""
    objects = helm.render("slurm", DCGM)
    scripts = [
        {**item, "metadata": {"name": item["metadata"]["name"]}}
        for item in objects
        if item["kind"] == "ConfigMap" and item["metadata"]["name"].endswith("log-scripts")
    ]
    worker = next(item["spec"] for item in objects if item["kind"] == "NodeSet")
    return scripts, worker["template"]["spec"]["volumes"], worker["slurmd"]["volumeMounts"]


def srun(site: OperatorSite, *argv: str, check: bool = True) -> str:
    return site.exec("gpu-0", "srun", "--chdir=/tmp", *argv, check=check)


@pytest.mark.parametrize(("options", "devices"), [((), ""), (("--gpus=1",), "0"), (("--gpus=2",), "0,1")])
def test_a_job_sees_the_gpus_that_it_asked_for(site: OperatorSite, options: tuple[str, ...], devices: str) -> None:
    seen = srun(site, "-n1", *options, "sh", "-c", 'echo "gpus:$CUDA_VISIBLE_DEVICES"').strip()
    assert seen == f"gpus:{devices}"


def test_more_gpus_than_a_worker_has_are_refused(site: OperatorSite) -> None:
    assert srun(site, "-N1", "--gres=gpu:3", "echo", "started", check=False) == ""


def test_the_ranks_of_an_mpi_program_find_each_other_across_workers(site: OperatorSite) -> None:
    assert srun(site, "-N2", "-n4", "--mpi=pmi2", "mpi-sum").strip() == "sum 6 of 4 ranks: g-0 g-0 g-1 g-1"


def test_a_job_runs_in_an_oci_container(site: OperatorSite) -> None:
    site.exec("gpu-0", "sh", "-ec", MAKE_BUNDLE, "sh", "/tmp/box", json.dumps(BUNDLE))
    seen = srun(site, "-w", "g-0", "--container=/tmp/box", "/bin/sh", "-c", IN_BOX).strip()
    assert seen == "marked on box as 0"


def test_a_job_of_a_user_runs_in_an_oci_container_without_root(site: OperatorSite) -> None:
    site.exec("gpu-0", "useradd", "--uid", str(UID), "--create-home", USER)
    as_user = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--")
    bundle = json.dumps({**BUNDLE, "linux": ROOTLESS})
    site.exec("gpu-0", *as_user, "sh", "-ec", MAKE_BUNDLE, "sh", "/tmp/own-box", bundle)
    argv = ("srun", "--chdir=/tmp", "-w", "g-0", "--container=/tmp/own-box", "/bin/sh", "-c", IN_BOX)
    assert site.exec("gpu-0", *as_user, *argv).strip() == "marked on box as 0"


def test_the_job_of_each_gpu_is_in_a_file_of_its_node_while_it_runs(site: OperatorSite) -> None:
    machine = site.lab.node_machine(site.pods()["gpu-0"]["spec"]["nodeName"])

    def mapping() -> dict[str, str]:
        """What dcgm-exporter reads on the node: the job of each GPU."""
        command = machine.enter_command(["sh", "-c", f"cd {MAPPING} && grep -H . * || true"])
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        return dict(line.split(":") for line in lines)

    first, second = (site.start_job("g-0", "--gpus=1") for _ in range(2))
    assert mapping() == {"0": first, "1": second}
    site.finish_job(first, "gpu-0")
    until(lambda: mapping() == {"1": second}, "the end of the mapping")
    site.finish_job(second, "gpu-0")
    until(lambda: not mapping(), "the end of the other mapping")
