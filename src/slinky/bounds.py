# SPDX-License-Identifier: Apache-2.0
"""Bounds of every number and text that strangers can write: users of Kubernetes, users of Slurm, nodes, daemons. Pure.

The values may have any size and any character, so each is checked where it is parsed. Every bound is defined here with
its description; `docs/bounds.md` is rendered from them: `python -m slinky.bounds docs/bounds.md`.
"""

import sys
from pathlib import Path
from typing import NamedTuple

KIB, MIB = 1024, 1024 * 1024


class Bound(NamedTuple):
    """One row of the page: what is bounded, who can write it, and what happens beyond the bound."""

    value: int
    what: str
    writer: str
    beyond: str


TABLE: dict[str, Bound] = {}
_INTRODUCTION = """# Bounds

<!-- Written by `make generate` from src/slinky/bounds.py. -->

Every number and text that users and other systems can write is bounded where it is parsed, so that one object
cannot take the time or the memory of a process that serves all users. Property tests feed hostile values to every
parser (`tests/unit/test_hostile_inputs.py`); `make hostile` creates hostile objects for running processes.

"""


def _bound(name: str, value: int, what: str, writer: str, beyond: str) -> int:
    TABLE[name] = Bound(value, what, writer, beyond)
    return value


_POD, _AUTHOR, _SLURM = "pod, owner of the pod", "author of a slinky object", "slurmrestd"
_INVALID = "the pod gets no job (`InvalidOption`)"

# --- numbers

#: Slurm's limit on the nodes of a cluster, and thus on the nodes of a job and the pods on a node.
NODES_MAX = _bound("NODES_MAX", 65_533, "nodes of a job, pods on a node, replicas of a NodeSet, ordinals",
                   f"{_POD}, {_AUTHOR}", "refused by the API server or at admission")  # fmt: skip
HOSTLIST_MAX = _bound("HOSTLIST_MAX", NODES_MAX, "host names that one text expands to",
                      f"{_AUTHOR}, {_SLURM}", "the text is refused before it is expanded")  # fmt: skip
#: The longest name of DNS.
HOST_NAME_MAX = _bound("HOST_NAME_MAX", 253, "characters of a host name in a hostlist", f"{_AUTHOR}, {_SLURM}",
                       "the text is refused")  # fmt: skip
INT32_MAX = _bound("INT32_MAX", 2**31 - 1, "priorities, nice, minutes, devices on a node", _POD, _INVALID)
#: The largest job id, which has 32 bits in Slurm.
JOB_ID_MAX = _bound("JOB_ID_MAX", 2**32 - 2, "job ids in labels", _POD, "the label is ignored")
#: Slurm stores the CPUs of a task in 16 bits, and the highest values have a special meaning.
CPUS_MAX = _bound("CPUS_MAX", 2**16 - 3, "CPUs of a pod", _POD, _INVALID)
#: One exbibyte. Slurm uses the highest bit of its 64 as a flag.
MEBIBYTES_MAX = _bound("MEBIBYTES_MAX", 2**40, "memory of a job on one node, in MiB", _POD, _INVALID)
#: Slurm's limit on the components of one heterogeneous job.
COMPONENTS_MAX = _bound("COMPONENTS_MAX", 128, "different requirements in one gang", _POD, _INVALID)
#: The end of the year 9999.
LAST_SECOND = _bound("LAST_SECOND", 253_402_300_799, "times, in seconds since 1970", _POD, _INVALID)
#: 64 bits with a sign.
DIGITS_MAX = _bound("DIGITS_MAX", 20, "characters of a number", "anyone", "the value is not a number")
OWNER_CHAIN_MAX = _bound("OWNER_CHAIN_MAX", 32, "owners above a pod whose options are read", _POD,
                         "further owners are not read")  # fmt: skip
GENERATED_KEYS_MAX = _bound("GENERATED_KEYS_MAX", 16, "keys that one Secret asks the operator to generate",
                            "author of a Secret", "further names are ignored")  # fmt: skip

# --- devices

#: The limits of Kubernetes on the expressions of device selectors.
CEL_COST_MAX = _bound("CEL_COST_MAX", 1_000_000, "cost of one device selector on one device",
                      "author of a ResourceClaim or DeviceClass", "the pod reports the selector")  # fmt: skip
CEL_LENGTH_MAX = _bound("CEL_LENGTH_MAX", 10 * KIB, "characters of a device selector",
                        "author of a ResourceClaim or DeviceClass", "the pod reports the selector")  # fmt: skip
#: Protects the recursive parser and the evaluation.
CEL_NESTING_MAX = _bound("CEL_NESTING_MAX", 50, "levels of parentheses and lists in a device selector",
                         "author of a ResourceClaim or DeviceClass", "the pod reports the selector")  # fmt: skip
#: Linux supports 8,192 CPUs.
CPU_RANGE_MAX = _bound("CPU_RANGE_MAX", 8192, "CPUs that one text or bitmap names, and their numbers",
                       "author of a ResourceClaim, node, slurmrestd", "the text names no CPU")  # fmt: skip
CLAIM_DEVICES_MAX = _bound("CLAIM_DEVICES_MAX", 32, "devices of one claim (limit of Kubernetes)",
                           "author of a ResourceClaim", "the pod reports the claim")  # fmt: skip

# --- texts

VALUE_MAX = _bound("VALUE_MAX", 1024, "characters of a job option", _POD, "refused at admission; " + _INVALID)
#: An error message may quote a whole object.
LOG_TEXT_MAX = _bound("LOG_TEXT_MAX", 8 * KIB, "characters of a field in a log line", "anyone", "the text is cut")
#: Slurm's own names are shorter.
METRIC_LABEL_MAX = _bound("METRIC_LABEL_MAX", 256, "characters of a label value of the exporter", "Slurm user",
                          "the text is cut")  # fmt: skip
PAGE_NAME_MAX = _bound("PAGE_NAME_MAX", 120, "characters of a name on the page", "Slurm user", "the text is cut")
PAGE_TEXT_MAX = _bound("PAGE_TEXT_MAX", 500, "characters of a comment or reason on the page", "Slurm user",
                       "the text is cut")  # fmt: skip
PAGE_QUERY_MAX = _bound("PAGE_QUERY_MAX", 256, "characters of a filter in the address of the page", "visitor",
                        "the text is cut")  # fmt: skip
#: An object of Kubernetes is limited to 1 MiB.
CONFIG_COPY_BYTES_MAX = _bound("CONFIG_COPY_BYTES_MAX", 700_000, "bytes of configuration files in one generation",
                               _AUTHOR, "the ConfigMaps are mounted themselves")  # fmt: skip
YAML_NESTING_MAX = _bound("YAML_NESTING_MAX", 16, "levels of lists and maps in topology.yaml; aliases are refused",
                          _AUTHOR, "the text is refused")  # fmt: skip
COMPLETER_LINE_MAX = _bound("COMPLETER_LINE_MAX", 1024, "characters of an answer of slurm-complete", "slurm-complete",
                            "the job ends as CANCELLED")  # fmt: skip

# --- the page

LIVE_PAGES_MAX = _bound("LIVE_PAGES_MAX", 1000, "open pages with live updates", "visitor",
                        "a further page is answered with 503 and is not live")  # fmt: skip
SESSIONS_MAX = _bound("SESSIONS_MAX", 10_000, "logins of the page", "visitor", "the oldest login ends")
LOGIN_BYTES_MAX = _bound("LOGIN_BYTES_MAX", 32 * KIB, "bytes of a login", "visitor", "answered with 413")

# --- messages

#: The old and the new version of the largest object in etcd, and the review around them.
ADMISSION_BYTES_MAX = _bound("ADMISSION_BYTES_MAX", 8 * MIB, "bytes of a request to a webhook", "API server",
                             "answered with 413")  # fmt: skip
#: etcd refuses objects of more than 1.5 MB, so a line of this size is not a watch event.
WATCH_LINE_BYTES_MAX = _bound("WATCH_LINE_BYTES_MAX", 64 * MIB, "bytes of one event of a watch", "API server",
                              "the watch starts again")  # fmt: skip
#: A full list of 10,000 running jobs is 101 MB compact and 267 MB pretty-printed.
NATIVE_METRICS_MAX = _bound("NATIVE_METRICS_MAX", 1000, "metrics that slurmctld's own endpoint serves", "slurmctld",
                            "the rest is ignored")  # fmt: skip
RESPONSE_BYTES_MAX = _bound("RESPONSE_BYTES_MAX", 512 * MIB, "bytes of one answer", _SLURM, "the call fails")


def parse_integer(text: str, low: int, high: int) -> int | None:
    """The integer in `text`, which has only ASCII digits and an optional sign; None if it is not within the bounds.

    `int` alone is not enough: it accepts the digits of every script, underscores and blanks, and it raises an error for
    text of more than 4,300 digits.
    """
    digits = text[1:] if text[:1] in {"-", "+"} else text
    if not (digits.isascii() and digits.isdigit() and len(text) <= DIGITS_MAX):
        return None
    value = int(text)
    return value if low <= value <= high else None


def is_job_id(text: str) -> bool:
    """Whether `text` is a job id as Slurm writes it."""
    # Called for each pod of a gang at each of its events, so it does less than `parse_integer`.
    return text.isascii() and text.isdigit() and text[0] != "0" and len(text) <= DIGITS_MAX and int(text) <= JOB_ID_MAX


def render_page() -> str:
    """The page of the bounds as Markdown."""
    rows = [
        f"| `{name}` | {bound.value:,} | {bound.what} | {bound.writer} | {bound.beyond} |"
        for name, bound in TABLE.items()
    ]
    head = "| bound | value | what | who writes it | beyond it |\n| --- | --- | --- | --- | --- |\n"
    return _INTRODUCTION + head + "\n".join(rows) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render_page())
