# SPDX-License-Identifier: Apache-2.0
"""The tasks that one record of a pending array stands for, such as `0-9,12,20-30:2%4`. Pure."""

import re
from collections.abc import Iterator
from functools import lru_cache

#: Slurm shortens long lists of tasks with this.
SHORTENED = "..."
#: An array has at most as many tasks as Slurm's largest MaxArraySize.
MAX_TASKS = 4_000_001
_TEXTS_CACHED = 4096
_TASKS = re.compile(r"(?P<first>\d{1,10})(?:-(?P<last>\d{1,10})(?::(?P<step>\d{1,10}))?)?\Z")


def task_ranges(text: str) -> Iterator[range]:
    """The numbers of the tasks; the limit of concurrent tasks (`%4`) does not count."""
    for part in text.partition("%")[0].split(","):
        if match := _TASKS.match(part.strip()):
            first, last = int(match["first"]), int(match["last"] or match["first"])
            yield range(first, last + 1, max(1, int(match["step"] or 1)))


@lru_cache(maxsize=_TEXTS_CACHED)
def count_tasks(text: str) -> int:
    """The number of tasks; too small if Slurm has shortened the text."""
    return min(sum(map(len, task_ranges(text))), MAX_TASKS)
