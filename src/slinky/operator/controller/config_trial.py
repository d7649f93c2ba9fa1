# SPDX-License-Identifier: Apache-2.0
"""The pod that tries a configuration: a temporary slurmctld that ends within a minute. Pure.

It runs the same image with the same files, an empty state, and keys of its own that no other daemon knows, so that no
other daemon is affected. Only a fatal error of slurmctld, or an image without its programs, means that the generation
is bad; any other failure of the pod leaves the result unknown.
"""

from typing import Any, NamedTuple

from slinky.api.controller import CONTROLLERS, Controller
from slinky.api.names import metadata, wellknown
from slinky.api.names.child_names import SLURMCTLD_TRIAL
from slinky.kube.types import Key
from slinky.kube.views import PODS, Unstructured
from slinky.operator.build.child_metadata import child_manifest
from slinky.operator.build.config_files import Files
from slinky.operator.build.pod_parts import (
    RESTRICTED,
    Images,
    JsonObject,
    config_source,
    memory_volume,
    mount,
    pod_run_as,
    projected_volume,
)
from slinky.operator.build.strategic_merge import check_types
from slinky.operator.controller.config_generation import Generation, GenerationState
from slinky.operator.framework.crash_message import summarize_output, with_location
from slinky.slurm.releases import parse_version

#: Seconds that slurmctld may take to start.
START_TIMEOUT = 60
#: Seconds that the pod may take once it is scheduled.
POD_DEADLINE = 300
#: Reasons of a container whose program does not exist in the image, or is for another processor.
CANNOT_START = frozenset({"StartError", "ContainerCannotRun"})
#: Exit code of the script when slurmctld has rejected the files.
EXIT_REJECTED = 3
#: Fields of the person's pod template that the trial pod shares: where it may run, and how it pulls images.
SHARED_FIELDS = (
    "imagePullSecrets",
    "nodeSelector",
    "tolerations",
    "priorityClassName",
    "runtimeClassName",
    "schedulerName",
)
#: Types of the person's volumes that a second pod can mount without side effects.
SHAREABLE_VOLUMES = frozenset({"configMap", "secret", "projected", "downwardAPI", "emptyDir", "image"})

# The script replaces the settings that the real daemon shares with others: name and address, state, authentication,
# and the programs and databases that it calls. Lines keep their numbers, because slurmctld names them in errors.
_SCRIPT = r"""
umask 077
slurmctld -V >/dev/termination-log
cp -L /candidate/* /etc/slurm/
head -c 1024 /dev/urandom >/etc/slurm/slurm.key
head -c 64 /dev/urandom >/etc/slurm/jwt.key
apart='AuthType|CredType|SlurmctldHost|SlurmctldAddr|SlurmctldPort|StateSaveLocation|SlurmctldLogFile|SlurmSchedLogFile'
apart="$apart|SlurmctldPidFile|SlurmctldPrimaryO(n|ff)Prog|(Suspend|Resume|ResumeFail)Program|JobComp[A-Za-z]*"
sed -i -E "s/^($apart|AccountingStorage(Type|ExternalHost))=/#&/I" /etc/slurm/slurm.conf
printf '%s\n' "SlurmctldHost=$HOSTNAME(127.0.0.1)" SlurmctldPort=6817 StateSaveLocation=/tmp/state \
    AuthType=auth/slurm CredType=cred/slurm SlurmctldPidFile=/tmp/pid \
    AccountingStorageType=accounting_storage/none >>/etc/slurm/slurm.conf
mkdir -p /tmp/state /run/slurmctld
RUNTIME_DIRECTORY=/run/slurmctld slurmctld -D -c >/tmp/output 2>&1 &
daemon=$!
ready() {
    exec 3<>/dev/tcp/127.0.0.1/6817 && printf 'GET /readyz HTTP/1.0\r\n\r\n' >&3 && IFS= read -r -t 5 answer <&3 &&
        [[ $answer == HTTP/*\ 20* ]]
}
for ((left = START_TIMEOUT; left > 0; left--)); do
    kill -0 "$daemon" 2>/dev/null || break
    (ready) 2>/dev/null && exit 0
    timeout 5 scontrol ping 2>/dev/null | grep -q ' is UP' && exit 0 # before 25.11 slurmctld has no /readyz
    sleep 1
done
cat /tmp/output
grep -E ' (error|fatal): ' /tmp/output | tail -n 25 | cut -c -300 >>/dev/termination-log
((left > 0)) && grep -q ' fatal: ' /tmp/output && exit EXIT_REJECTED
exit 4
"""


def script() -> str:
    """Return the script of the pod; it contains no text from a spec."""
    return _SCRIPT.strip().replace("START_TIMEOUT", str(START_TIMEOUT)).replace("EXIT_REJECTED", str(EXIT_REJECTED))


def pod_key(controller: Controller, generation: Generation) -> Key:
    """Return namespace and name of the trial pod."""
    return Key(controller.metadata.namespace, f"{controller.metadata.name}-trial-{generation.number}")


def pod(controller: Controller, generation: Generation, config_name: str, files: Files, images: Images) -> JsonObject:
    """Return the pod that tries a generation."""
    template = controller.spec.template.spec
    for part in (controller.spec.slurmctld, template):
        check_types(part)
    volumes = [volume for volume in template.get("volumes") or () if SHAREABLE_VOLUMES & volume.keys()]
    spec = {
        **{field: template[field] for field in SHARED_FIELDS if template.get(field)},
        "restartPolicy": "Never",
        "activeDeadlineSeconds": POD_DEADLINE,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_run_as(wellknown.SLURM_ID),
        "containers": [_container(controller, {volume["name"] for volume in volumes}, images)],
        "volumes": [
            projected_volume("candidate", 0o640, [config_source(config_name), *files.sources()]),
            *(memory_volume(name) for name in ("slurm-etc", "run", "tmp")),
            *volumes,
        ],
    }
    manifest = child_manifest(
        CONTROLLERS, controller, SLURMCTLD_TRIAL, PODS, pod_key(controller, generation), spec=spec
    )
    manifest["metadata"]["annotations"][metadata.CONFIG_GENERATION] = generation.id
    return manifest


class TrialResult(NamedTuple):
    """The result of a trial, its message, and the version of slurmctld if it answered."""

    state: GenerationState
    message: str = ""
    version: str = ""


def trial_result(pod: Unstructured, generation: Generation) -> TrialResult | None:
    """Return the result of a trial; None while the pod runs."""
    phase = (pod.status or {}).get("phase")
    statuses = (pod.status or {}).get("containerStatuses", ())
    terminated: dict[str, Any] = next(
        (s["state"]["terminated"] for s in statuses if s.get("state", {}).get("terminated")), {}
    )
    if phase == "Succeeded":
        version = parse_version(terminated.get("message", ""))
        return TrialResult(GenerationState.GOOD, version=str(version) if version else "")
    if phase != "Failed":
        return None
    message = with_location(summarize_output(terminated.get("message", "")), generation.data)
    if terminated.get("exitCode") == EXIT_REJECTED and message:
        return TrialResult(GenerationState.BAD, message)
    if terminated.get("reason") in CANNOT_START:
        return TrialResult(GenerationState.BAD, f"the image cannot run slurmctld: {terminated.get('message', '')}")
    reason = (pod.status or {}).get("reason") or f"exit {terminated.get('exitCode', 'unknown')}"
    version = parse_version(terminated.get("message", ""))
    return TrialResult(GenerationState.UNKNOWN, f"the trial was not possible: {reason}", str(version or ""))


def _container(controller: Controller, volumes: set[str], images: Images) -> JsonObject:
    slurmctld = controller.spec.slurmctld
    mounts = [entry for entry in slurmctld.get("volumeMounts") or () if str(entry.get("name")) in volumes]
    return {
        "name": "slurmctld",
        "image": slurmctld.get("image") or images.image_for("slurmctld"),
        **({"imagePullPolicy": slurmctld["imagePullPolicy"]} if slurmctld.get("imagePullPolicy") else {}),
        "command": ["/bin/bash", "-c", script()],
        "env": list(slurmctld.get("env") or ()),
        "securityContext": {**RESTRICTED, "readOnlyRootFilesystem": True},
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
        "volumeMounts": [
            mount("candidate", "/candidate", read_only=True),
            mount("slurm-etc", wellknown.ETC),
            mount("run", "/run"),
            mount("tmp", "/tmp"),  # noqa: S108 - a volume of this pod
            *mounts,
        ],
    }
