# SPDX-License-Identifier: Apache-2.0
"""The throwaway slurmctld that a configuration is tried in: a pod that ends within a minute. Pure.

It runs the same image with the same files, an empty state and keys of its own that no other daemon knows, so that
nothing outside takes notice of it. Only one end means that the files are bad: slurmctld stopped with a fatal error.
"""

from typing import Any

from slinky.api.controller import CONTROLLERS, Controller
from slinky.api.names import metadata, wellknown
from slinky.api.names.child_names import SLURMCTLD, DaemonRole
from slinky.kube.types import Key
from slinky.kube.views import PODS, Unstructured
from slinky.operator.build.child_metadata import framed
from slinky.operator.build.images import Images
from slinky.operator.build.pod_parts import Piece, config_source, memory, mount, projected
from slinky.operator.controller.config_generation import Generation, GenerationState
from slinky.operator.controller.files import Files
from slinky.operator.framework.crash_message import placed, words

TRIAL = DaemonRole("slurmctld-trial", SLURMCTLD.component)
#: Seconds that slurmctld may take to start, and that the whole pod may take once it is scheduled.
STARTS, DEADLINE = 60, 300
#: How the script ends when slurmctld has refused the files; any other failure says nothing about them.
REFUSED = 3
#: What of a person's pod the trial shares: where it may run, and with what rights to pull images.
SHARED = ("imagePullSecrets", "nodeSelector", "tolerations", "priorityClassName", "runtimeClassName", "schedulerName")
#: Kinds of a person's volumes that can be mounted twice without effect.
HARMLESS = frozenset({"configMap", "secret", "projected", "downwardAPI", "emptyDir", "image"})

# What the real daemon shares with others is set aside: its name and place, its state, how it proves itself, and whom it
# reports to. Lines keep their numbers, since slurmctld names them.
_SCRIPT = r"""
umask 077
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
for ((left = STARTS; left > 0; left--)); do
    (ready) 2>/dev/null && exit 0
    kill -0 "$daemon" 2>/dev/null || break
    sleep 1
done
cat /tmp/output
grep -E ' (error|fatal): ' /tmp/output | tail -n 25 | cut -c -300 >/dev/termination-log
((left > 0)) && grep -q ' fatal: ' /tmp/output && exit REFUSED
exit 4
"""

_RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def script() -> str:
    """What the pod runs; nothing a person writes is part of it."""
    return _SCRIPT.strip().replace("STARTS", str(STARTS)).replace("REFUSED", str(REFUSED))


def key(of: Controller, generation: Generation) -> Key:
    """The trial's pod."""
    return Key(of.metadata.namespace, f"{of.metadata.name}-trial-{generation.number}")


def pod(of: Controller, generation: Generation, config_name: str, files: Files, images: Images) -> Piece:
    """The pod that tries a generation."""
    asked = of.spec.template.spec
    theirs = [volume for volume in asked.get("volumes") or () if HARMLESS & volume.keys()]
    spec = {
        **{field: asked[field] for field in SHARED if asked.get(field)},
        "restartPolicy": "Never",
        "activeDeadlineSeconds": DEADLINE,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": wellknown.SLURM_ID,
            "runAsGroup": wellknown.SLURM_ID,
            "fsGroup": wellknown.SLURM_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(of, {volume["name"] for volume in theirs}, images)],
        "volumes": [
            projected("candidate", 0o640, [config_source(config_name), *files.sources()]),
            *(memory(name) for name in ("slurm-etc", "run", "tmp")),
            *theirs,
        ],
    }
    made = framed(CONTROLLERS, of, TRIAL, PODS, key(of, generation), spec=spec)
    made["metadata"]["annotations"][metadata.CONFIG_GENERATION] = generation.mark
    return made


def verdict(found: Unstructured, generation: Generation) -> tuple[GenerationState, str] | None:
    """What a trial showed; None while it goes on."""
    phase = (found.status or {}).get("phase")
    if phase == "Succeeded":
        return GenerationState.GOOD, ""
    if phase != "Failed":
        return None
    statuses = (found.status or {}).get("containerStatuses", ())
    ended: dict[str, Any] = next(
        (s["state"]["terminated"] for s in statuses if s.get("state", {}).get("terminated")), {}
    )
    said = placed(words(ended.get("message", "")), generation.data)
    if ended.get("exitCode") == REFUSED and said:
        return GenerationState.BAD, said
    reason = (found.status or {}).get("reason") or f"exit {ended.get('exitCode', 'unknown')}"
    return GenerationState.UNKNOWN, f"the trial could not be carried out: {reason}"


def _container(of: Controller, volumes: set[str], images: Images) -> Piece:
    asked = of.spec.slurmctld
    mounts = [found for found in asked.get("volumeMounts") or () if found.get("name") in volumes]
    return {
        "name": "slurmctld",
        "image": asked.get("image") or images.of("slurmctld"),
        **({"imagePullPolicy": asked["imagePullPolicy"]} if asked.get("imagePullPolicy") else {}),
        "command": ["/bin/bash", "-c", script()],
        "env": list(asked.get("env") or ()),
        "securityContext": _RESTRICTED,
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
        "volumeMounts": [
            mount("candidate", "/candidate", read_only=True),
            mount("slurm-etc", wellknown.ETC),
            mount("run", "/run"),
            mount("tmp", "/tmp"),  # noqa: S108 - a volume of this pod
            *mounts,
        ],
    }
