# SPDX-License-Identifier: Apache-2.0
"""Containers that run beside a daemon. Their scripts are constants: nothing a person writes is ever part of one."""

from slinky.api.names import wellknown
from slinky.operator.build.pod_parts import Piece, mount

LOG_VOLUME = "slurm-logfile"

# A pipe left by an earlier container is kept: the daemon may have it open already. `|| :` survives a reader's end.
_TAIL = """
trap 'exit 0' TERM
[ -p "$LOGFILE" ] || { rm -f "$LOGFILE"; mkfifo -m 0777 "$LOGFILE"; }
while :; do cat "$LOGFILE" & wait $! || :; sleep 1 & wait $!; done
"""

# Files of the kubelet's own begin with two dots and are left out of the sum. One change may need several attempts.
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

# A slurmctld that meets no slurmdbd at its first start dies, and one that meets none later is not registered there.
# Without any state of its own it waits as long as it takes; with it, half a minute: a cluster can do without slurmdbd.
_AWAIT = """
left=30
until (: </dev/tcp/"$ACCOUNTING_HOST"/"$ACCOUNTING_PORT") 2>/dev/null; do
    [ -e "$STATE/last_tres" ] && [ $((left -= 1)) -le 0 ] && break
    echo "waiting for slurmdbd at $ACCOUNTING_HOST:$ACCOUNTING_PORT"
    sleep 1
done
"""


def _shell(script: str) -> list[str]:
    return ["/bin/sh", "-c", script.strip()]


def logfile(image: str, daemon: str) -> Piece:
    """Shows a daemon's log file as its own output."""
    return {
        "name": "logfile",
        "image": image,
        "command": _shell(_TAIL),
        "env": [{"name": "LOGFILE", "value": f"{wellknown.LOGS}/{daemon}.log"}],
        "restartPolicy": "Always",
        "volumeMounts": [mount(LOG_VOLUME, wellknown.LOGS)],
    }


def await_accounting(image: str, host: str, port: int, state: Piece) -> Piece:
    """Lets slurmctld start once slurmdbd accepts connections."""
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


def reconfigure(image: str, *mounts: Piece) -> Piece:
    """Makes every daemon read its configuration again once the files have changed."""
    return {
        "name": "reconfigure",
        "image": image,
        "command": _shell(_RECONFIGURE),
        "restartPolicy": "Always",
        "volumeMounts": list(mounts),
    }
