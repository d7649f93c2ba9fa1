# SPDX-License-Identifier: Apache-2.0
"""Extracts the error message of a daemon that crashed. Pure.

The kubelet keeps the end of a failed container's output; a Slurm daemon prints there what it rejected.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from slinky.kube.timestamps import unix_seconds
from slinky.kube.views import Unstructured

#: Errors that a daemon prints at every start, whatever the configuration.
NOISE = ("MailProg", "glob parsing", '"Include" failed', "###", "specified more than once")
#: Number of errors before the fatal one that are kept, because they usually explain it.
ERRORS_BEFORE_FATAL = 3

_PREFIX = re.compile(r"^(?:\[[^]]*\] )?(?:\w+: )?(?=error: |fatal: )")
_UNKNOWN_KEY = re.compile(r"unrecognized key: (\w+)")


class Crash(NamedTuple):
    """The last exit of a container that keeps exiting with an error, in seconds since 1970."""

    time: float
    message: str


def find_crash(pod: Unstructured, container: str) -> Crash | None:
    """Return the last crash of a container that is restarted again and again; None while it runs."""
    status: dict[str, Any] = next(
        (s for s in (pod.status or {}).get("containerStatuses", ()) if s.get("name") == container), {}
    )
    state, last = status.get("state", {}), status.get("lastState", {}).get("terminated")
    terminated = state.get("terminated") or (last if "waiting" in state else None)
    if not terminated or not terminated.get("exitCode"):
        return None
    message = summarize_output(terminated.get("message") or "") or f"exit code {terminated['exitCode']}"
    return Crash(unix_seconds(terminated.get("finishedAt")), message)


def summarize_output(output: str) -> str:
    """Return the fatal error in a daemon's output, with the errors just before it."""
    lines = [_PREFIX.sub("", line.strip()) for line in output.splitlines()]
    errors = [line for line in lines if line.startswith(("error: ", "fatal: ")) and not any(n in line for n in NOISE)]
    fatal = next((index for index, line in enumerate(errors) if line.startswith("fatal: ")), len(errors) - 1)
    relevant = errors[max(0, fatal - ERRORS_BEFORE_FATAL) : fatal + 1]
    return "; ".join(dict.fromkeys(line.partition(": ")[2] for line in relevant))


def with_location(message: str, files: Mapping[str, str]) -> str:
    """Return the message with file and line where Slurm names only an unrecognized key."""
    unknown = _UNKNOWN_KEY.search(message)
    if unknown is None:
        return message
    for name, text in files.items():
        for number, line in enumerate(text.splitlines(), 1):
            if re.search(rf"(?:^|\s){re.escape(unknown[1])}\s*=", line, re.IGNORECASE):
                return f"{message} ({name} line {number})"
    return message
