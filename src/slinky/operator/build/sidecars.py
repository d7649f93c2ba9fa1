# SPDX-License-Identifier: Apache-2.0
"""Containers that run beside a daemon. Their scripts are constants and contain no text from a spec. Pure."""

from slinky.api.names import metadata, wellknown
from slinky.operator.build.pod_parts import JsonObject, mount

LOG_VOLUME = "slurm-logfile"
POD_INFO_VOLUME = "podinfo"
#: Where the reconfigure container finds the annotation with the generation to load.
POD_INFO = "/etc/podinfo"

# A pipe of an earlier container is kept, because the daemon may have it open. `|| :` continues when the reader ends.
# Images of others have no slinky-log.
_TAIL = """
trap 'exit 0' TERM
[ -p "$LOGFILE" ] || { rm -f "$LOGFILE"; mkfifo -m 0777 "$LOGFILE"; }
print() { if command -v slinky-log >/dev/null; then exec slinky-log "$DAEMON"; else exec cat; fi; }
while :; do print <"$LOGFILE" & wait $! || :; sleep 1 & wait $!; done
"""

# The operator names the generation to load in an annotation of the pod, but no generation that needs a restart, so that
# the slurmctld that is about to be replaced does not load it. Files and annotation arrive in any order. The kubelet's
# own files begin with two dots and are not part of the checksum. `scontrol reconfigure` is repeated until it succeeds.
_RECONFIGURE = """
trap 'exit 0' TERM
state() { find -L /etc/slurm -maxdepth 1 -type f ! -name '..*' -exec sha256sum {} + | sort | sha256sum; }
asked() { cat /etc/podinfo/generation 2>/dev/null; }
loaded=$(state)
while :; do
    sleep 2 & wait $!
    generation=$(asked)
    now=$(state)$generation
    [ "$now" = "$loaded" ] || [ -z "$generation" ] && continue
    grep -q "slinky_generation=$generation\\b" /etc/slurm/slurm.conf || continue
    echo "loading generation $generation"
    until scontrol reconfigure; do sleep 2 & wait $!; done
    loaded=$now
done
"""

# A slurmctld that does not reach slurmdbd at its first start exits, and one that does not reach it later is not
# registered there. Without saved state the container waits as long as necessary. With saved state it waits half a
# minute, because a cluster can run without slurmdbd.
_AWAIT = """
until timeout 3 bash -c ': </dev/tcp/"$ACCOUNTING_HOST"/"$ACCOUNTING_PORT"' 2>/dev/null; do
    [ -e "$STATE/last_tres" ] && [ "$SECONDS" -ge 30 ] && break
    echo "waiting for slurmdbd at $ACCOUNTING_HOST:$ACCOUNTING_PORT"
    sleep 1
done
"""


def _shell(script: str) -> list[str]:
    return ["/bin/sh", "-c", script.strip()]


def log_environment(cluster: str) -> list[JsonObject]:
    """Return what our images need to know for their log lines."""
    return [{"name": "SLINKY_CLUSTER", "value": cluster}]


def logfile(image: str, daemon: str, cluster: str) -> JsonObject:
    """Return the container that prints a daemon's log file, as JSON lines unless the spec asks for plain ones."""
    return {
        "name": "logfile",
        "image": image,
        "command": _shell(_TAIL),
        "env": [
            {"name": "LOGFILE", "value": f"{wellknown.LOGS}/{daemon}.log"},
            {"name": "DAEMON", "value": daemon},
            *log_environment(cluster),
        ],
        "restartPolicy": "Always",
        "volumeMounts": [mount(LOG_VOLUME, wellknown.LOGS)],
    }


def await_accounting(image: str, host: str, port: int, state: JsonObject) -> JsonObject:
    """Return the init container that waits until slurmdbd accepts connections."""
    return {
        "name": "await-accounting",
        "image": image,
        "command": ["/bin/bash", "-c", _AWAIT.strip()],
        "env": [
            {"name": "ACCOUNTING_HOST", "value": host},
            {"name": "ACCOUNTING_PORT", "value": str(port)},
            {"name": "STATE", "value": state["mountPath"]},
        ],
        "volumeMounts": [state],
    }


def reconfigure(image: str, *mounts: JsonObject) -> JsonObject:
    """Return the container that runs `scontrol reconfigure` when the files of the named generation have arrived."""
    return {
        "name": "reconfigure",
        "image": image,
        "command": _shell(_RECONFIGURE),
        "restartPolicy": "Always",
        "volumeMounts": list(mounts),
    }


def pod_info_volume() -> JsonObject:
    """Return the volume with the generation that the pod is to load."""
    field = {"fieldPath": f"metadata.annotations['{metadata.CONFIG_GENERATION}']"}
    return {"name": POD_INFO_VOLUME, "downwardAPI": {"items": [{"path": "generation", "fieldRef": field}]}}
