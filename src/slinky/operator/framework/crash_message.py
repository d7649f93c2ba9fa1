# SPDX-License-Identifier: Apache-2.0
"""Why a daemon ended, in its own words. Pure.

The kubelet keeps the end of a failed container's output; a daemon of Slurm says there what it could not accept.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from slinky.kube.timestamps import unix_seconds
from slinky.kube.views import Unstructured

#: Complaints that every start has, whatever the configuration.
NOISE = ("MailProg", "glob parsing", '"Include" failed', "###", "specified more than once")
#: Errors before the last one that usually explain it.
BEFORE = 3

_HEAD = re.compile(r"^(?:\[[^]]*\] )?(?:\w+: )?(?=error: |fatal: )")
_KEY = re.compile(r"unrecognized key: (\w+)")


class Crash(NamedTuple):
    """The last end of a container that keeps ending."""

    when: float
    words: str


def crash(pod: Unstructured, container: str) -> Crash | None:
    """How a container fails that is started again and again; None while it runs, or ended as it should."""
    found: dict[str, Any] = next(
        (s for s in (pod.status or {}).get("containerStatuses", ()) if s.get("name") == container), {}
    )
    state, last = found.get("state", {}), found.get("lastState", {}).get("terminated")
    ended = state.get("terminated") or (last if "waiting" in state else None)
    if not ended or not ended.get("exitCode"):
        return None
    said = words(ended.get("message") or "") or f"exit code {ended['exitCode']}"
    return Crash(unix_seconds(ended.get("finishedAt")), said)


def words(output: str) -> str:
    """What matters in a daemon's output: its fatal error and what led to it."""
    lines = [_HEAD.sub("", line.strip()) for line in output.splitlines()]
    errors = [line for line in lines if line.startswith(("error: ", "fatal: ")) and not any(n in line for n in NOISE)]
    fatal = next((place for place, line in enumerate(errors) if line.startswith("fatal: ")), len(errors) - 1)
    said = dict.fromkeys(line.partition(": ")[2] for line in errors[max(0, fatal - BEFORE) : fatal + 1])
    return "; ".join(said)


def placed(said: str, files: Mapping[str, str]) -> str:
    """The words, with file and line where Slurm names a key only."""
    found = _KEY.search(said)
    if found is None:
        return said
    for name, text in files.items():
        for number, line in enumerate(text.splitlines(), 1):
            if re.search(rf"(?:^|\s){re.escape(found[1])}\s*=", line, re.IGNORECASE):
                return f"{said} ({name} line {number})"
    return said
