# SPDX-License-Identifier: Apache-2.0
"""Job options that a workload may set: one table of name, parser, meaning; the documentation is printed from it.

Every value is parsed before Slurm sees it, so a mistake is told in the user's words and at once. A name under our
prefix that is not in the table is refused at admission; where it got in all the same it changes nothing, as ever.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from slinky.bridge import names
from slinky.kube import Quantity
from slinky.slurm import Number, number


class OptionError(ValueError):
    """An annotation that cannot be used; the message names it and says what it should be."""


OptionParser = Callable[[str], Any]

_INT32 = 2**31 - 1
#: Slurm keeps the CPUs of a task in 16 bits, of which the highest values mean something else.
CPUS_MAX = 2**16 - 3
#: The end of the year 9999.
LAST_SECOND = 253_402_300_799

_WORD = re.compile(r"[^\s\x00-\x1f\x7f]{1,1024}\Z")
_LINE = re.compile(r"[^\x00-\x1f\x7f]{1,1024}\Z")
_PIECE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|[smhdw])")
_SPAN = re.compile(rf"(?:{_PIECE.pattern})+\Z")
_SECONDS: dict[str, int | Fraction] = {
    "ms": Fraction(1, 1000), "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800,
}  # fmt: skip
_DAYS = re.compile(r"(?:(\d{1,5})-)?(\d{1,9})(?::(\d{1,2}))?(?::(\d{1,2}))?\Z")


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
    """A whole number within bounds."""

    def parse(text: str) -> int:
        try:
            value = int(text.strip(), 10)
        except ValueError:
            raise ValueError("must be a whole number") from None
        if not low <= value <= high:
            raise ValueError(f"must be between {low} and {high}")
        return value

    return parse


def number_parser(low: int, high: int) -> Callable[[str], Number]:
    """A whole number as Slurm writes those that may be unset."""
    parse = integer_parser(low, high)
    return lambda text: number(parse(text))


def parse_cpus(text: str) -> int:
    """A Kubernetes quantity, rounded up to whole CPUs."""
    return _within(Quantity.parse(text.strip()).whole(), CPUS_MAX)


def parse_mebibytes(text: str) -> Number:
    """A Kubernetes quantity, rounded up to MiB."""
    return number(_within(Quantity.parse(text.strip()).mebi()))


def _within(value: int, most: float = math.inf) -> int:
    """Slurm would wrap around what is too large for its own numbers, or take it for something else."""
    if value < 1:
        raise ValueError("must be more than zero")
    if value > most:
        raise ValueError("is more than Slurm can count")
    return value


def parse_minutes(text: str) -> Number:
    """Minutes: a number, a duration (90s, 15m, 1h30m, 1.5h, 1d, 1w), or Slurm's [days-]hours:minutes[:seconds].

    Always rounded up.
    """
    given = text.strip().lower()
    if given in {"infinite", "unlimited"}:
        return number(float("inf"))
    if _SPAN.match(given):
        seconds = sum(Fraction(amount) * _SECONDS[unit] for amount, unit in _PIECE.findall(given))
        return number(_within(math.ceil(seconds / 60), _INT32))
    return number(_within(_slurm_minutes(given), _INT32))


def _slurm_minutes(text: str) -> int:
    found = _DAYS.match(text)
    if found is None:
        raise ValueError("must be minutes, like 90, 1h30m or 1-12:00:00")
    days, first, second, third = found.groups()
    if days is not None:
        hours, mins, secs = int(first), int(second or 0), int(third or 0)
        total = int(days) * 86400 + hours * 3600 + mins * 60 + secs
    elif second is None:
        total = int(first) * 60
    elif third is None:
        total = int(first) * 60 + int(second)  # minutes:seconds, as in Slurm
    else:
        total = int(first) * 3600 + int(second) * 60 + int(third)
    return -(-total // 60)


def parse_switch(text: str) -> bool:
    """True or false."""
    given = text.strip().lower()
    if given not in {"true", "false"}:
        raise ValueError('must be "true" or "false"')
    return given == "true"


def parse_exclusive(text: str) -> tuple[str, ...]:
    """Only "false" shares nodes; anything else, as ever, means whole nodes."""
    return () if text.strip().lower() == "false" else ("none",)


def parse_timestamp(text: str) -> Number:
    """Seconds since 1970, or a time like 2027-01-31T06:00:00Z."""
    given = text.strip()
    if given.isascii() and given.isdigit():
        return number(_within(int(given), LAST_SECOND))
    try:
        when = datetime.fromisoformat(given)
    except ValueError:
        raise ValueError("must be a time like 2027-01-31T06:00:00Z") from None
    return number(_within(int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()), LAST_SECOND))


def parse_epoch(text: str) -> int:
    """The same as a plain number."""
    return parse_timestamp(text).whole


@dataclass(frozen=True)
class Option:
    """One annotation: its name after the prefix, how it is read, and the field of the job that it sets."""

    name: str
    parse: OptionParser
    field: str
    says: str
    example: str
    ours: bool = False  # not known to other bridges
    identity: bool = False  # says who somebody is: where there is a policy, only for whom it allows that


#: An empty field means that the option is used by the bridge itself.
TABLE = (
    Option("account", parse_word, "account", "the account that pays", "physics"),
    Option("constraints", parse_line, "constraints", "features the nodes must have", "a100&nvlink"),
    Option("cpu-per-task", parse_cpus, "cpus_per_task", "CPUs of each pod, instead of what the pods ask for", "4"),
    Option("exclusive", parse_exclusive, "shared", 'whole nodes unless "false"', "false"),
    Option("gres", parse_line, "tres_per_node", "devices per node, instead of what the pods ask for",
           "gres/gpu:a100:2"),
    Option("group-id", parse_word, "group_id", "the group the job runs as", "1000", identity=True),
    Option("job-name", parse_line, "name", "the name in squeue", "training"),
    Option("licenses", parse_line, "licenses", "licences the job takes", "matlab:2"),
    Option("max-nodes", integer_parser(1, _INT32), "maximum_nodes", "the most nodes", "8"),
    Option("mem-per-node", parse_mebibytes, "memory_per_node", "memory on each node, instead of what the pods ask for",
           "64Gi"),
    Option("min-nodes", integer_parser(1, _INT32), "minimum_nodes", "the fewest nodes", "4"),
    Option("partition", parse_word, "partition", "the partition", "gpu"),
    Option("priority", number_parser(0, _INT32), "priority", "an explicit priority", "1000"),
    Option("qos", parse_word, "qos", "the quality of service", "high"),
    Option("reservation", parse_word, "reservation", "the reservation to run in", "course"),
    Option("timelimit", parse_minutes, "time_limit", "the longest run time: minutes, 1h30m, 1-12:00:00", "2h"),
    Option("user-id", parse_word, "user_id", "the user the job belongs to", "alice", identity=True),
    Option("wckey", parse_word, "wckey", "the workload characterisation key", "genome"),
    Option("begin", parse_timestamp, "begin_time", "not before this time", "2027-01-31T06:00:00Z", ours=True),
    Option("comment", parse_line, "comment", "a remark that squeue can show", "rerun of 17", ours=True),
    Option("contiguous", parse_switch, "contiguous", "nodes beside each other", "true", ours=True),
    Option("deadline", parse_epoch, "deadline", "not at all if it cannot end before this time", "2027-01-31T06:00:00Z",
           ours=True),
    Option("dependency", parse_word, "dependency", "wait for other jobs", "afterany:1234", ours=True),
    Option("hold", parse_switch, "hold", "submit, but wait for a release", "true", ours=True),
    Option("nice", integer_parser(-(2**31) + 3, _INT32), "nice", "yield to others", "100", ours=True),
    Option("prefer", parse_line, "prefer", "features the nodes should have", "nvlink", ours=True),
    Option("segment", number_parser(1, 65533), "segment_size", "nodes per segment (topology/block)", "16", ours=True),
    Option("switches", number_parser(1, 65533), "required_switches", "the most leaf switches", "1", ours=True),
    Option("time-min", parse_minutes, "time_minimum", "accept a shorter limit if that starts sooner", "30m", ours=True),
    Option("gang", parse_switch, "", "on a batch job or JobSet: its pods are one job and start together", "true",
           ours=True),
    Option("pods-per-node", integer_parser(1, 65533), "", "in a gang: so many pods share each node", "4", ours=True),
)  # fmt: skip

BY_NAME = {option.name: option for option in TABLE}


def unknown_options(annotations: Mapping[str, str]) -> list[str]:
    """Names under our prefix that mean nothing: most likely misspelt."""
    given = (key for key in annotations if key.startswith(names.OPTION))
    return sorted(key for key in given if key.removeprefix(names.OPTION) not in BY_NAME)


def parse_options(annotations: Mapping[str, str]) -> dict[str, Any]:
    """Every option that is set, by its name in the table. Raises `OptionError` for the first that cannot be used."""
    found: dict[str, Any] = {}
    for key in sorted(annotations):
        option = BY_NAME.get(key.removeprefix(names.OPTION)) if key.startswith(names.OPTION) else None
        if option is None:
            continue
        try:
            found[option.name] = option.parse(annotations[key])
        except ValueError as error:
            raise OptionError(f"{key}: {annotations[key][:80]!r} {error}") from None
    return found


def job_fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """The job fields that these options set."""
    return {BY_NAME[name].field: value for name, value in options.items() if BY_NAME[name].field}


def render_table() -> str:
    """The table as Markdown."""
    rows = ["| annotation | sets | example | since |", "| --- | --- | --- | --- |"]
    for option in TABLE:
        since = "new here" if option.ours else "always"
        rows.append(f"| `{option.name}` | {option.says} | `{option.example}` | {since} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(render_table(), end="")
