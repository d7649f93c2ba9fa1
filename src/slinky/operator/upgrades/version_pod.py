# SPDX-License-Identifier: Apache-2.0
"""The pod that asks a daemon for its version before an image is used. Pure.

The tag of an image says nothing reliable about what is in it, so the daemon itself is asked (`slurmdbd -V`).
"""

from typing import Any

from slinky.api.fields.templates import PodTemplate
from slinky.api.names.child_names import VERSION_READER
from slinky.kube.resource import Resource
from slinky.kube.types import HasMeta, Key
from slinky.kube.views import PODS, Unstructured
from slinky.operator.build.child_metadata import child_manifest
from slinky.operator.build.pod_parts import JsonObject, digest_value, memory_volume, mount
from slinky.slurm.releases import SlurmVersion, parse_version

#: Seconds that the pod may take once it is scheduled.
POD_DEADLINE = 300
#: Fields of the person's pod template that the pod shares: where it may run, and how it pulls images.
SHARED_FIELDS = (
    "imagePullSecrets",
    "nodeSelector",
    "tolerations",
    "priorityClassName",
    "runtimeClassName",
    "schedulerName",
)
#: The program of each image that prints the version.
PROGRAMS = {"login": "sinfo"}

# slurmdbd and the commands read their configuration before they print their version.
_SCRIPT = """
umask 077
printf '%s\\n' AuthType=auth/slurm DbdHost=localhost StorageType=accounting_storage/mysql LogFile=/dev/null \\
    SlurmUser=65534 >/tmp/slurmdbd.conf
printf '%s\\n' ClusterName=x SlurmctldHost=localhost >/tmp/slurm.conf
export SLURM_CONF=/tmp/slurm.conf PATH="$PATH:/usr/sbin:/usr/local/sbin"
exec "$0" -V >/dev/termination-log 2>&1
"""


def version_pod_key(owner: HasMeta, daemon: str, image: str) -> Key:
    """Return namespace and name of the pod."""
    return Key(owner.metadata.namespace, f"{owner.metadata.name}-version-{digest_value(f'{daemon} {image}')[:8]}")


def version_pod(owners: Resource[Any], owner: HasMeta, daemon: str, image: str, template: PodTemplate) -> JsonObject:
    """Return the pod that prints the version of a daemon in an image."""
    spec = {
        **{field: template.spec[field] for field in SHARED_FIELDS if template.spec.get(field)},
        "restartPolicy": "Never",
        "activeDeadlineSeconds": POD_DEADLINE,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "runAsGroup": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "version",
                "image": image,
                "command": ["/bin/sh", "-c", _SCRIPT.strip(), PROGRAMS.get(daemon, daemon)],
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [mount("tmp", "/tmp")],  # noqa: S108 - a volume of this pod
                "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}},
            }
        ],
        "volumes": [memory_volume("tmp")],
    }
    return child_manifest(owners, owner, VERSION_READER, PODS, version_pod_key(owner, daemon, image), spec=spec)


def version_answer(pod: Unstructured) -> tuple[SlurmVersion | None, str]:
    """Return the version that a finished pod has printed, and what it printed."""
    statuses = (pod.status or {}).get("containerStatuses", ())
    ended: JsonObject = next((s["state"]["terminated"] for s in statuses if s.get("state", {}).get("terminated")), {})
    text = str(ended.get("message") or ended.get("reason") or (pod.status or {}).get("reason") or "nothing")
    return parse_version(text), text.strip()
