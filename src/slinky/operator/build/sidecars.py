# SPDX-License-Identifier: Apache-2.0
"""Containers that run beside a daemon. Their scripts are constants and contain no text from a spec. Pure."""

from slinky.api.names import wellknown
from slinky.operator.build.pod_parts import JsonObject, mount

LOG_VOLUME = "slurm-logfile"

# A pipe of an earlier container is kept, because the daemon may have it open. `|| :` continues when `cat` ends.
_TAIL = """
trap 'exit 0' TERM
[ -p "$LOGFILE" ] || { rm -f "$LOGFILE"; mkfifo -m 0777 "$LOGFILE"; }
while :; do cat "$LOGFILE" & wait $! || :; sleep 1 & wait $!; done
"""

# The kubelet's own files begin with two dots and are not part of the checksum. `scontrol reconfigure` is repeated until
# it succeeds.
_RECONFIGURE = """
trap 'exit 0' TERM
sum() { find -L "$1" -maxdepth 1 -type f ! -name '..*' -exec sha256sum {} + | sort | sha256sum; }
seen=$(sum /etc/slurm)
while :; do
    sleep 5 & wait $!
    now=$(sum /etc/slurm)
    [ "$now" = "$seen" ] && continue
    until scontrol reconfigure; do sleep 2 & wait $!; done
    seen=$now
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


def logfile(image: str, daemon: str) -> JsonObject:
    """Return the container that prints a daemon's log file."""
    return {
        "name": "logfile",
        "image": image,
        "command": _shell(_TAIL),
        "env": [{"name": "LOGFILE", "value": f"{wellknown.LOGS}/{daemon}.log"}],
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
    """Return the container that runs `scontrol reconfigure` when the configuration files change."""
    return {
        "name": "reconfigure",
        "image": image,
        "command": _shell(_RECONFIGURE),
        "restartPolicy": "Always",
        "volumeMounts": list(mounts),
    }
