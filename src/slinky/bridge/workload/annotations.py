# SPDX-License-Identifier: Apache-2.0
"""The job options that a workload can set by annotations: one table with name, parser, job field and description.

Every value is parsed before it is sent to Slurm, so that an error names the annotation and is reported at once.
Admission rejects names with the prefix of the options that are not in the table; elsewhere they are reported by an
event. Options with the prefix of earlier versions are accepted with a warning.
`docs/bridge/annotations.md` is rendered from the table.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from fractions import Fraction
from typing import Any

from slinky.bounds import (
    CPUS_MAX,
    INT32_MAX,
    LAST_SECOND,
    MEBIBYTES_MAX,
    NODES_MAX,
    VALUE_MAX,
    parse_integer,
)
from slinky.bridge import names
from slinky.bridge.workload.suggestion import did_you_mean
from slinky.kube import Quantity
from slinky.slurm import Number, number


class OptionError(ValueError):
    """An annotation has an unusable value; the message names the annotation and the expected value."""


OptionParser = Callable[[str], Any]

_WORD = re.compile(rf"[^\s\x00-\x1f\x7f]{{1,{VALUE_MAX}}}\Z")
_LINE = re.compile(rf"[^\x00-\x1f\x7f]{{1,{VALUE_MAX}}}\Z")
_DURATION_TERM = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|[smhdw])", re.ASCII)
_DURATION = re.compile(rf"(?:{_DURATION_TERM.pattern})+\Z", re.ASCII)
_UNIT_SECONDS: dict[str, int | Fraction] = {
    "ms": Fraction(1, 1000), "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800,
}  # fmt: skip
_SLURM_TIME = re.compile(r"(?:(\d{1,5})-)?(\d{1,9})(?::(\d{1,2}))?(?::(\d{1,2}))?\Z", re.ASCII)


def parse_word(text: str) -> str:
    """Text without white space."""
    if not _WORD.match(text.strip()):
        raise ValueError("must be one word")
    return text.strip()


def parse_line(text: str) -> str:
    """One line of text."""
    if not _LINE.match(text.strip()):
        raise ValueError("must be one line of text")
    return text.strip()


def integer_parser(low: int, high: int) -> OptionParser:
    """A parser of integers between `low` and `high`."""

    def parse(text: str) -> int:
        value = parse_integer(text.strip(), low, high)
        if value is None:
            raise ValueError(f"must be an integer between {low} and {high}")
        return value

    return parse


def number_parser(low: int, high: int) -> Callable[[str], Number]:
    """A parser of integers in Slurm's representation of numbers that may be unset."""
    parse = integer_parser(low, high)
    return lambda text: number(parse(text))


def parse_cpus(text: str) -> int:
    """A Kubernetes quantity, rounded up to whole CPUs."""
    return _check_range(Quantity.parse(text.strip()).whole(), CPUS_MAX)


def parse_mebibytes(text: str) -> Number:
    """A Kubernetes quantity, rounded up to MiB."""
    return number(_check_range(Quantity.parse(text.strip()).mebi(), MEBIBYTES_MAX))


def _check_range(value: int, highest: int) -> int:
    """Slurm wraps larger values around, or gives them a special meaning."""
    if value < 1:
        raise ValueError("must be greater than zero")
    if value > highest:
        raise ValueError(f"must be at most {highest}")
    return value


def parse_minutes(text: str) -> Number:
    """Minutes: a number, a duration (90s, 15m, 1h30m, 1.5h, 1d, 1w), or Slurm's [days-]hours:minutes[:seconds].

    The result is rounded up.
    """
    duration = text.strip().lower()
    if duration in {"infinite", "unlimited"}:
        return number(float("inf"))
    if _DURATION.match(duration):
        seconds = sum(Fraction(amount) * _UNIT_SECONDS[unit] for amount, unit in _DURATION_TERM.findall(duration))
        return number(_check_range(math.ceil(seconds / 60), INT32_MAX))
    return number(_check_range(_parse_slurm_time(duration), INT32_MAX))


def _parse_slurm_time(text: str) -> int:
    match = _SLURM_TIME.match(text)
    if match is None:
        raise ValueError("must be a duration like 90 (minutes), 1h30m or 1-12:00:00")
    days, first, second, third = match.groups()
    if days is not None:
        hours, minutes, seconds = int(first), int(second or 0), int(third or 0)
        total = int(days) * 86400 + hours * 3600 + minutes * 60 + seconds
    elif second is None:
        total = int(first) * 60
    elif third is None:
        total = int(first) * 60 + int(second)  # minutes:seconds, as in Slurm
    else:
        total = int(first) * 3600 + int(second) * 60 + int(third)
    return -(-total // 60)


def parse_switch(text: str) -> bool:
    """True or false."""
    value = text.strip().lower()
    if value not in {"true", "false"}:
        raise ValueError('must be "true" or "false"')
    return value == "true"


def parse_exclusive(text: str) -> tuple[str, ...]:
    """Only "false" shares nodes. Any other value means whole nodes, as in earlier versions of slurm-bridge."""
    return () if text.strip().lower() == "false" else ("none",)


def parse_timestamp(text: str) -> Number:
    """Seconds since 1970, or a time like 2027-01-31T06:00:00Z."""
    value = text.strip()
    if value.isascii() and value.isdigit():
        return number(integer_parser(1, LAST_SECOND)(value))
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("must be a time like 2027-01-31T06:00:00Z") from None
    return number(_check_range(int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()), LAST_SECOND))


def parse_epoch(text: str) -> int:
    """The same as `parse_timestamp`, as a plain number."""
    return parse_timestamp(text).whole


class Protection(StrEnum):
    """When a rule of the policy must allow an option of an annotation; the values are shown in the documentation."""

    NONE = "no"
    ALWAYS = "yes"
    NEGATIVE = "if negative"
    STRICT = "in mode `strict`"


@dataclass(frozen=True, slots=True)
class Option:
    """One annotation: its name after the prefix, its parser, and the job field that it sets."""

    name: str
    parse: OptionParser
    field: str  # empty: the bridge itself uses the option
    description: str
    example: str
    is_extension: bool = False  # not an option of slurm-bridge 1.3
    #: Slurm lets only operators choose the user, the priority and a negative nice; the bridge submits as an operator.
    protection: Protection = Protection.NONE


TABLE = (
    Option("account", parse_word, "account", "account that is charged", "physics",
           protection=Protection.STRICT),
    Option("constraints", parse_line, "constraints", "features that the nodes must have", "a100&nvlink"),
    Option("cpu-per-task", parse_cpus, "cpus_per_task", "CPUs of each pod; replaces the requests of the pods", "4"),
    Option("exclusive", parse_exclusive, "shared", 'whole nodes, unless the value is "false"', "false"),
    Option("gres", parse_line, "tres_per_node", "devices on each node; replaces the requests of the pods",
           "gres/gpu:a100:2"),
    Option("group-id", parse_word, "group_id", "group that the job runs as", "1000",
           protection=Protection.ALWAYS),
    Option("job-name", parse_line, "name", "name of the job in squeue", "training"),
    Option("licenses", parse_line, "licenses", "licences that the job uses", "matlab:2"),
    Option("max-nodes", integer_parser(1, NODES_MAX), "maximum_nodes", "maximum number of nodes", "8"),
    Option("mem-per-node", parse_mebibytes, "memory_per_node", "memory on each node; replaces the requests of the pods",
           "64Gi"),
    Option("min-nodes", integer_parser(1, NODES_MAX), "minimum_nodes", "minimum number of nodes", "4"),
    Option("partition", parse_word, "partition", "partition", "gpu", protection=Protection.STRICT),
    Option("priority", number_parser(0, INT32_MAX), "priority", "explicit priority", "1000",
           protection=Protection.ALWAYS),
    Option("qos", parse_word, "qos", "quality of service", "high", protection=Protection.STRICT),
    Option("reservation", parse_word, "reservation", "reservation that the job runs in", "course",
           protection=Protection.ALWAYS),
    Option("timelimit", parse_minutes, "time_limit", "time limit: minutes, 1h30m or 1-12:00:00", "2h"),
    Option("user-id", parse_word, "user_id", "user that the job belongs to", "alice",
           protection=Protection.ALWAYS),
    Option("wckey", parse_word, "wckey", "workload characterization key", "genome"),
    Option("begin", parse_timestamp, "begin_time", "earliest start", "2027-01-31T06:00:00Z", is_extension=True),
    Option("comment", parse_line, "comment", "comment that squeue can show", "rerun of 17", is_extension=True),
    Option("contiguous", parse_switch, "contiguous", "adjacent nodes", "true", is_extension=True),
    Option("deadline", parse_epoch, "deadline", "latest end; a job that cannot end by then is not started",
           "2027-01-31T06:00:00Z", is_extension=True),
    Option("dependency", parse_word, "dependency", "jobs that must start or end first", "afterany:1234",
           is_extension=True),
    Option("hold", parse_switch, "hold", "submit the job held; it starts after `scontrol release`", "true",
           is_extension=True),
    Option("nice", integer_parser(-(2**31) + 3, INT32_MAX), "nice", "adjustment that lowers the priority", "100",
           is_extension=True, protection=Protection.NEGATIVE),
    Option("prefer", parse_line, "prefer", "features that the nodes should have", "nvlink", is_extension=True),
    Option("segment", number_parser(1, NODES_MAX), "segment_size", "nodes per segment (topology/block)", "16",
           is_extension=True),
    Option("switches", number_parser(1, NODES_MAX), "required_switches", "maximum number of leaf switches", "1",
           is_extension=True),
    Option("time-min", parse_minutes, "time_minimum", "minimum time limit, if a shorter one lets the job start earlier",
           "30m", is_extension=True),
    Option("gang", parse_switch, "", "on a batch job or JobSet: its pods are one job and start together", "true",
           is_extension=True),
    Option("pods-per-node", integer_parser(1, NODES_MAX), "", "in a gang: number of pods on each node", "4",
           is_extension=True),
)  # fmt: skip

BY_NAME = {option.name: option for option in TABLE}


def option_values(annotations: Mapping[str, str]) -> dict[str, str]:
    """The values of the options that are set, by name. The current prefix has precedence over the old one."""
    values: dict[str, str] = {}
    for prefix in (names.OLD_OPTION, names.OPTION):
        for key, value in annotations.items():
            if key.startswith(prefix) and (name := key.removeprefix(prefix)) in BY_NAME:
                values[name] = value
    return values


def select_options(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations that set options, or that have the prefix of the options."""
    return {
        key: value
        for key, value in annotations.items()
        if key.startswith(names.OPTION)
        or (key.startswith(names.OLD_OPTION) and key.removeprefix(names.OLD_OPTION) in BY_NAME)
    }


def unknown_options(annotations: Mapping[str, str]) -> list[str]:
    """A message for each annotation with the prefix of the options that is not in the table."""
    unknown = (key.removeprefix(names.OPTION) for key in annotations if key.startswith(names.OPTION))
    return [
        f"{names.OPTION}{name} is not a job option{did_you_mean(name, BY_NAME)}"
        for name in sorted(unknown)
        if name not in BY_NAME
    ]


def old_options(annotations: Mapping[str, str]) -> list[str]:
    """A message for each option with the old prefix."""
    old = (key.removeprefix(names.OLD_OPTION) for key in annotations if key.startswith(names.OLD_OPTION))
    return [
        f"{names.OLD_OPTION}{name} "
        + (f"has no effect beside {names.OPTION}{name}" if names.OPTION + name in annotations else "is an old name")
        + f"; use {names.OPTION}{name}"
        for name in sorted(old)
        if name in BY_NAME
    ]


def name_problems(annotations: Mapping[str, str]) -> list[str]:
    """A message for each annotation whose name should be changed."""
    return [*old_options(annotations), *unknown_options(annotations)]


def parse_value(option: Option, text: str) -> Any:
    """The parsed value of an option. Raises `ValueError`."""
    if len(text) > VALUE_MAX:
        raise ValueError(f"has more than {VALUE_MAX} characters")
    return option.parse(text)


def parse_options(annotations: Mapping[str, str]) -> dict[str, Any]:
    """Every option that is set, by its name in the table. Raises `OptionError` for the first unusable value."""
    options: dict[str, Any] = {}
    for name, text in sorted(option_values(annotations).items()):
        try:
            options[name] = parse_value(BY_NAME[name], text)
        except ValueError as error:
            raise OptionError(f"{names.OPTION}{name}: {text[:80]!r} {error}") from None
    return options


def job_fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """The job fields that these options set."""
    return {BY_NAME[name].field: value for name, value in options.items() if BY_NAME[name].field}


def render_table() -> str:
    """The table as Markdown."""
    rows = [
        "| annotation | sets | example | in slurm-bridge 1.3 | a rule must allow it |",
        "| --- | --- | --- | --- | --- |",
    ]
    for option in TABLE:
        known = "no" if option.is_extension else "yes"
        rows.append(f"| `{option.name}` | {option.description} | `{option.example}` | {known} | {option.protection} |")
    return "\n".join(rows) + "\n"
