# SPDX-License-Identifier: Apache-2.0
"""Add-ons of the cluster: DNS, storage, devices, and the controllers of other projects.

Add-ons run as processes of the control machine with the administrator's kubeconfig; their webhooks are called by
address. The table `SERVICES` lists them; `start` starts all of them and waits until they serve.
"""

import base64
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from slinky.lab.errors import LabError
from slinky.lab.kubernetes import control_plane
from slinky.lab.kubernetes.node import VOLUMES
from slinky.lab.lab import Lab
from slinky.lab.machine.machine import until

Manifest = dict[str, Any]
HOLLOW = {"kwok.x-k8s.io/node": "fake"}
KWOK_PORT = 10247


@dataclass(frozen=True)
class AddonProcess:
    """A process of the control machine: its command, and the local URL that reports its readiness."""

    command: Callable[[Lab], list[str]]
    ready: str


@dataclass(frozen=True)
class WebhookController:
    """A controller with webhooks: its API group for configuration, its ports, and the label of its pods."""

    group: str
    webhook_port: int
    health_port: int
    pod_label: str


PROJECTS = {
    "jobset": WebhookController("config.jobset.x-k8s.io/v1alpha1", 9443, 9081, "jobset.sigs.k8s.io/jobset-name"),
    "lws": WebhookController("config.lws.x-k8s.io/v1alpha1", 9444, 9082, "leaderworkerset.sigs.k8s.io/name"),
}


def _project_command(name: str, lab: Lab) -> list[str]:
    return [
        _program(lab, name),
        f"--kubeconfig={lab.kubeconfig}",
        f"--config={lab.plane.configs / f'{name}.yaml'}",
        "--zap-devel=false",
        "--zap-log-level=info",
    ]


SERVICES = {
    "coredns": AddonProcess(
        lambda lab: [_program(lab, "coredns"), "-conf", str(lab.plane.configs / "Corefile")],
        "http://127.0.0.1:8181/ready",
    ),
    "lab-storage": AddonProcess(
        lambda lab: [
            _program(lab, "lab-storage"),
            f"--kubeconfig={lab.kubeconfig}",
            f"--node-root={lab.folder}/{{node}}/volumes",
        ],
        "",
    ),
    "podgroup": AddonProcess(
        lambda lab: [
            _program(lab, "podgroup"),
            f"--kubeconfig={lab.kubeconfig}",
            "--metricsAddr=0",
            "--probeAddr=127.0.0.1:9083",
            "--qps=200",
            "--burst=400",
            "--workers=4",
        ],
        "http://127.0.0.1:9083/readyz",
    ),
    **{
        name: AddonProcess(partial(_project_command, name), f"http://127.0.0.1:{project.health_port}/readyz")
        for name, project in PROJECTS.items()
    },
}


def start(lab: Lab) -> None:
    """Start every add-on and return once all of them serve."""
    configs = lab.plane.configs
    (configs / "Corefile").write_text(control_plane.corefile(lab.plane))
    certificates = configs / "webhooks"
    certificates.mkdir()
    for source, target in (("webhooks.crt", "tls.crt"), ("webhooks.key", "tls.key")):
        (certificates / target).write_bytes((lab.plane.pki / source).read_bytes())
    for name, project in PROJECTS.items():
        (configs / f"{name}.yaml").write_text(yaml.safe_dump(configuration(project, lab.network.control, certificates)))
    apply(lab, [*control_plane.dns_manifests(lab.plane), storage_class(), device_class()])
    # kubectl reads the files itself: they are megabytes, which take a YAML parser in Python many seconds.
    files = [f"--filename={file}" for file in sorted(_manifests(lab).glob("*-crds.yaml"))]
    crds = lab.kubectl("apply", "--server-side", "--output=name", *files).split()
    lab.kubectl("wait", "--for=condition=Established", "--timeout=60s", *crds)
    for name, service in SERVICES.items():
        lab.control.start(name, service.command(lab))
    for name, service in SERVICES.items():
        if service.ready:
            _wait_serving(lab, name, service.ready)
    authority = (lab.plane.pki / "ca.crt").read_bytes()
    for name, project in PROJECTS.items():
        url = f"https://{lab.network.control}:{project.webhook_port}"
        hooks = _documents(_manifests(lab) / f"{name}-webhooks.yaml")
        apply(lab, [by_address(name, project, hook, url, authority) for hook in hooks])


def configuration(project: WebhookController, address: str, certificates: Path) -> Manifest:
    """The file of a controller that serves its own webhooks with certificates of ours."""
    return {
        "apiVersion": project.group,
        "kind": "Configuration",
        "webhook": {"host": address, "port": project.webhook_port, "certDir": str(certificates)},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{project.health_port}"},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
    }


def by_address(name: str, project: WebhookController, manifest: Manifest, url: str, authority: bytes) -> Manifest:
    """A webhook configuration that calls a process instead of a Service, and only for the project's own pods."""
    hooks = []
    for hook in manifest["webhooks"]:
        path = hook["clientConfig"]["service"]["path"]
        called = {"url": url + path, "caBundle": base64.b64encode(authority).decode()}
        rewritten = {**hook, "clientConfig": called}
        if path.endswith("-v1-pod"):
            rewritten["objectSelector"] = {"matchExpressions": [{"key": project.pod_label, "operator": "Exists"}]}
        hooks.append(rewritten)
    metadata = {"name": f"{name}-{manifest['metadata']['name']}"}
    return {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": metadata, "webhooks": hooks}


def storage_class() -> Manifest:
    """The default storage class: a folder on the node of the first pod."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local", "annotations": {"storageclass.kubernetes.io/is-default-class": "true",
                                                      "slinky.slurm.net/folder": VOLUMES}},
        "provisioner": "slinky.slurm.net/local",
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
    }  # fmt: skip


def device_class() -> Manifest:
    """The device class of the fake GPUs, which pods may also request as `example.com/gpu`."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu.example.com"},
        "spec": {
            "extendedResourceName": "example.com/gpu",
            "selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}],
        },
    }


def apply(lab: Lab, manifests: Iterable[Manifest]) -> None:
    """Server-side apply of many objects in one call."""
    items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
    lab.kubectl("apply", "--server-side", "--field-manager=slinky-lab", "-f", "-", input=json.dumps(items))


def add_hollow_nodes(lab: Lab, count: int) -> None:
    """Add nodes without a kubelet, for tests of scale; kwok simulates them and their pods."""
    if not lab.control.running("kwok"):
        file = lab.plane.configs / "kwok.yaml"
        file.write_text(yaml.safe_dump(_kwok(lab)) + "---\n" + (_manifests(lab) / "kwok-stages.yaml").read_text())
        lab.control.start("kwok", [_program(lab, "kwok"), f"--kubeconfig={lab.kubeconfig}", f"--config={file}"])
        _wait_serving(lab, "kwok", f"http://127.0.0.1:{KWOK_PORT}/healthz")
    apply(lab, (hollow_node(number) for number in range(count)))
    names = {hollow_node(number)["metadata"]["name"] for number in range(count)}
    lab.wait_ready(names, seconds=60 + count / 20)


def hollow_node(number: int) -> Manifest:
    """One node with the size of a GPU server; the taint keeps ordinary pods away."""
    size = {"cpu": "64", "memory": "512Gi", "pods": "110", "example.com/hollow-gpu": "8"}
    name = f"hollow-{number:05}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": HOLLOW,
            "labels": {"kubernetes.io/hostname": name, "type": "hollow"},
        },
        "spec": {"taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]},
        "status": {"capacity": size, "allocatable": size},
    }


def _kwok(lab: Lab) -> Manifest:
    address = f"{lab.network.control}"
    return {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {
            "cidr": "10.64.0.0/16",
            "nodeIP": address,
            "nodePort": KWOK_PORT,
            "serverAddress": f"0.0.0.0:{KWOK_PORT}",
            "manageNodesWithAnnotationSelector": ",".join(f"{key}={value}" for key, value in HOLLOW.items()),
            "nodeLeaseDurationSeconds": 40,
            "nodeLeaseParallelism": 16,
            "podPlayStageParallelism": 16,
            "nodePlayStageParallelism": 16,
        },
    }


def _wait_serving(lab: Lab, name: str, url: str) -> None:
    def serving() -> bool:
        lab.control.require(name)
        asked = ["curl", "-sf", "-o", "/dev/null", "--max-time", "2", url]
        return lab.control.run(asked, check=False).returncode == 0

    until(serving, f"{name} to serve", 180, lambda: lab.control.tail(name))


def _program(lab: Lab, name: str) -> str:
    return str(lab.plane.binaries / name)


def _manifests(lab: Lab) -> Path:
    return lab.plane.binaries.parent / "manifests"


def _documents(file: Path) -> list[Manifest]:
    try:
        return [document for document in yaml.safe_load_all(file.read_text()) if document]
    except yaml.YAMLError as problem:
        raise LabError(f"{file} is not YAML: {problem}") from problem
