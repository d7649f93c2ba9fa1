# SPDX-License-Identifier: Apache-2.0
"""GPUs, MPI programs across workers, and jobs in OCI containers, with a site's own image of slurmd."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.conftest import MakeLab
from tests.e2e.operator.site import EXTRA_CONF, OperatorSite, cluster, operator_site

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
mkdir -p /tmp/box/rootfs/etc /tmp/box/rootfs/proc /tmp/box/rootfs/dev /tmp/box/rootfs/usr
for name in bin lib lib64 sbin; do ln -sfn usr/$name /tmp/box/rootfs/$name; done
echo marked >/tmp/box/rootfs/etc/mark
printf %s "$1" >/tmp/box/config.json
"""


@pytest.fixture(scope="module")
def site(make_lab: MakeLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorSite]:
    archive = ArtifactInventory.of().extended_slurmd(Progress())
    lab = make_lab(nodes=2, gpus=0)
    lab.load_image(archive)
    specs: dict[str, dict[str, Any]] = {
        "NodeSet": {"slurmd": {"image": reference("slurmd-extended")}, "extraConf": "Gres=gpu:2"},
        "Controller": {"extraConf": f"{EXTRA_CONF}GresTypes=gpu\n"},
    }
    with operator_site(lab, tmp_path_factory.mktemp("jobs")) as site:
        items = [{**item, "data": FILES} if item["kind"] == "ConfigMap" else item for item in cluster()]
        for item in items:
            item.get("spec", {}).update(specs.get(item["kind"], {}))
        site.apply(*items)
        site.wait_workers(2)
        yield site


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
    site.exec("gpu-0", "sh", "-ec", MAKE_BUNDLE, "sh", json.dumps(BUNDLE))
    script = "echo $(cat /etc/mark) on $(hostname)"
    seen = srun(site, "-w", "g-0", "--container=/tmp/box", "/bin/sh", "-c", script).strip()
    assert seen == "marked on box"
