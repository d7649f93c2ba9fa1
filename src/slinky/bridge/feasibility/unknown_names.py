# SPDX-License-Identifier: Apache-2.0
"""Names that Slurm rejected: repeats the name that the job has, with the nearest name that Slurm knows. Pure."""

import re
from collections.abc import Callable, Collection

from slinky.bridge.workload.policy import split_list
from slinky.bridge.workload.suggestion import did_you_mean
from slinky.slurm import JobRequest

#: The field of the job request that Slurm rejects, by its error number, and the word for it.
REJECTED_FIELDS = {
    2000: ("partition", "partition"),
    2029: ("constraints", "feature"),
    2045: ("account", "account"),
    2048: ("licenses", "licence"),
    2053: ("reservation", "reservation"),
    2066: ("qos", "QOS"),
    2115: ("tres_per_node", "generic resource"),
}
#: What follows a name in a list: the number of licences or devices, or of nodes with a feature.
_COUNT = re.compile(r"[:*@=].*")


KnownNames = Callable[[str], Collection[str]]
"""The names that Slurm is known to have in a field of a request: `known("partition")`."""


def describe_unknown_name(number: int, request: JobRequest, known: KnownNames) -> str:
    """A sentence about the name in a request that Slurm rejected with this error; empty if there is none."""
    field, word = REJECTED_FIELDS.get(number, ("", ""))
    value = getattr(request, field, None) if field else None
    if not value:
        return ""
    names = [_COUNT.sub("", part.removeprefix("gres/").removeprefix("gres:")) for part in split_list(value)]
    candidates = known(field)
    unknown = next((name for name in names if candidates and name not in candidates), "")
    name = (unknown or ", ".join(names))[:80]
    return f"The job has the {word} {name}{(unknown and did_you_mean(unknown, candidates)) or '.'}"
