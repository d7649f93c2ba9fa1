# SPDX-License-Identifier: Apache-2.0
"""Bounds of every number that the bridge takes from labels, annotations and specs, and the parser that applies them.

Users write these values, so a value may have any length and any character. `int` alone is not enough: it accepts the
digits of every script, underscores and blanks, and it raises an error for text of more than 4,300 digits.
"""

INT32_MAX = 2**31 - 1
#: The largest job id, which has 32 bits in Slurm.
JOB_ID_MAX = 2**32 - 2
#: Slurm's limit on the nodes of a cluster, and thus on the nodes of a job and the pods on a node.
NODES_MAX = 65_533
#: Slurm stores the CPUs of a task in 16 bits, and the highest values have a special meaning.
CPUS_MAX = 2**16 - 3
#: The memory of a node in MiB: one exbibyte. Slurm uses the highest bit of its 64 as a flag.
MEBIBYTES_MAX = 2**40
#: Slurm's limit on the components of one heterogeneous job.
COMPONENTS_MAX = 128
#: The end of the year 9999, in seconds since 1970.
LAST_SECOND = 253_402_300_799
#: The longest value of an option, in characters.
VALUE_MAX = 1024
#: The longest number in characters: 64 bits with a sign.
_DIGITS_MAX = 20


def parse_integer(text: str, low: int, high: int) -> int | None:
    """The integer in `text`, which has only ASCII digits and an optional sign; None if it is not within the bounds."""
    digits = text.removeprefix("-").removeprefix("+") if text[:1] in {"-", "+"} else text
    if not (digits.isascii() and digits.isdigit() and len(text) <= _DIGITS_MAX):
        return None
    value = int(text)
    return value if low <= value <= high else None


def is_job_id(text: str) -> bool:
    """Whether `text` is a job id as Slurm writes it."""
    return not text.startswith(("0", "+")) and parse_integer(text, 1, JOB_ID_MAX) is not None
