# SPDX-License-Identifier: Apache-2.0
"""Fills an API server with pods that look like running Slurm workers."""

import asyncio
from typing import Any

from slinky.kube import NAMESPACES, PODS, AlreadyExists, KubeClient

NAMESPACE = "bench"


def worker(number: int) -> dict[str, Any]:
    """About 5 KB as written; the server adds defaults, managedFields and, later, a status."""
    name = f"slurm-worker-gpu-{number}"
    mounts = [
        {"name": part, "mountPath": f"/etc/slurm/{part}"} for part in ("config", "key", "run", "log", "spool", "ssh")
    ]
    probe = {"exec": {"command": ["scontrol", "show", "slurmd"]}, "periodSeconds": 10, "failureThreshold": 6}
    container = {
        "image": "ghcr.io/slinkyproject/slurmd:26.05-ubuntu24.04",
        "args": [
            "-Z",
            "--conf",
            "'Features=gpu Gres=gpu:h100:8'",
            "--conf-server",
            "slurm-controller.slurm:6817",
        ],
        "env": [{"name": f"SLURM_SETTING_{i}", "value": f"value-of-setting-{i}"} for i in range(12)]
        + [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "resources": {
            "requests": {"cpu": "16", "memory": "128Gi", "example.com/gpu": "8"},
            "limits": {"cpu": "32", "memory": "256Gi", "example.com/gpu": "8"},
        },
        "volumeMounts": mounts,
        "readinessProbe": probe,
        "livenessProbe": probe,
        "securityContext": {"privileged": False, "capabilities": {"add": ["BPF", "NET_ADMIN", "SYS_NICE"]}},
    }
    return {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {
                "app.kubernetes.io/name": "slurmd",
                "app.kubernetes.io/instance": "slurm-worker-gpu",
                "app.kubernetes.io/component": "worker",
                "slinky.slurm.net/cluster": "slurm",
                "slinky.slurm.net/nodeset-controller-revision": "slurm-worker-gpu-7c9d8f6b5",
                "nodeset.slinky.slurm.net/pod-index": str(number),
                "nodeset.slinky.slurm.net/pod-name": name,
            },
            "annotations": {
                "kubectl.kubernetes.io/default-container": "slurmd",
                "slinky.slurm.net/node-topology-line": f"default:s{number % 64}",
            },
            "finalizers": ["slinky.slurm.net/protect"],
            "ownerReferences": [
                {
                    "apiVersion": "slinky.slurm.net/v1beta1",
                    "kind": "NodeSet",
                    "name": "slurm-worker-gpu",
                    "uid": "6f3e2a1c-0000-4000-8000-0123456789ab",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "nodeName": f"node-{number % 1000}",
            "hostname": f"gpu-{number}",
            "subdomain": "slurm-workers-slurm",
            "automountServiceAccountToken": False,
            "tolerations": [{"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "containers": [{"name": "slurmd", **container}, {"name": "logfile", "image": "localhost/log:1"}],
            "volumes": [{"name": mount["name"], "emptyDir": {}} for mount in mounts],
        },
    }


def running(number: int) -> dict[str, Any]:
    """What a kubelet would report."""
    when = "2026-11-01T10:00:00Z"
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    return {
        "phase": "Running",
        "podIP": address,
        "hostIP": f"192.168.{number % 1000 >> 8}.{number % 256}",
        "startTime": when,
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": when} for kind in kinds],
        "containerStatuses": [
            {
                "name": name,
                "ready": True,
                "restartCount": 0,
                "image": "ghcr.io/slinkyproject/slurmd:26.05-ubuntu24.04",
                "imageID": f"sha256:{'ab' * 32}",
                "containerID": f"containerd://{number:064x}",
                "started": True,
                "state": {"running": {"startedAt": when}},
            }
            for name in ("slurmd", "logfile")
        ],
    }


async def fill(client: KubeClient, count: int, parallel: int = 24) -> None:
    """Create `count` running pods, unless they are there."""
    try:
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    except AlreadyExists:
        return
    turn = asyncio.Semaphore(parallel)

    async def make(number: int) -> None:
        async with turn:
            made = await client.create(PODS, worker(number))
            await client.patch(PODS, made.key, {"status": running(number)}, subresource="status")

    async with asyncio.TaskGroup() as family:
        for number in range(count):
            family.create_task(make(number))
