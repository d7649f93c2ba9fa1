# SPDX-License-Identifier: Apache-2.0
"""Extracts the error message of a daemon that crashed. Pure.

The kubelet keeps the end of a failed container's output; a Slurm daemon prints there what it rejected.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from slinky.kube.timestamps import unix_seconds
from slinky.kube.views import ContainerTerminated, Pod

#: Errors that a daemon prints at every start, whatever the configuration.
NOISE = ("MailProg", "glob parsing", '"Include" failed', "###", "specified more than once")
#: Number of errors before the fatal one that are kept, because they usually explain it.
ERRORS_BEFORE_FATAL = 3

_PREFIX = re.compile(r"^(?:\[[^]]*\] )?(?:\w+: )?(?=error: |fatal: )")
#: A line of slinky-log, which always ends with the message; the level is missing if the beginning is.
_JSON_LINE = re.compile(r'(?:"level":"(?P<level>\w+)".*)?"message":(?P<message>"(?:[^"\\]|\\.)*")\}\s*$')
_UNKNOWN_KEY = re.compile(r"unrecognized key: (\w+)")


class Crash(NamedTuple):
    """The last exit of a container that keeps exiting with an error, in seconds since 1970."""

    time: float
    message: str


def find_crash(pod: Pod, container: str) -> Crash | None:
    """Return the last crash of a container that is restarted again and again; None while it runs."""
    status = next((status for status in pod.status.container_statuses if status.name == container), None)
    if status is None:
        return None
    terminated = status.state.terminated or (status.last_state.terminated if status.state.waiting else None)
    if terminated is None or not terminated.exit_code:
        return None
    return Crash(unix_seconds(terminated.finished_at), describe_exit(terminated))


def describe_exit(terminated: ContainerTerminated) -> str:
    """Return what a container printed last, or its exit code if it printed nothing."""
    output = plain_output(terminated.message).strip()
    if text := summarize_output(output) or output.rpartition("\n")[2].strip():
        return text
    return f"exit code {terminated.exit_code}" + (f" ({terminated.reason})" if terminated.reason else "")


def plain_output(output: str) -> str:
    """Return the output of a daemon with its JSON lines as `level: message`.

    The kubelet cuts the beginning of long output, so that the first line may be a part of an object.
    """
    return "\n".join(map(_plain_line, output.split("\n")))


def _plain_line(line: str) -> str:
    match = _JSON_LINE.search(line)
    if match is None:
        return line
    try:
        message = msgspec.json.decode(match["message"], type=str)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return line
    return f"{match['level']}: {message}" if match["level"] not in {None, "info"} else message


def summarize_output(output: str) -> str:
    """Return the fatal error in a daemon's output, with the errors just before it."""
    lines = [_PREFIX.sub("", line.strip()) for line in plain_output(output).splitlines()]
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
