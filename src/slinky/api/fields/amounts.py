# SPDX-License-Identifier: Apache-2.0
"""Durations such as `1h30m`, and counts that may be percentages such as `25%`.

Durations use Go's notation, as everywhere in Kubernetes. Only the ServiceMonitor uses the notation of Prometheus
(`1d`, `2w`). A pattern in the schema bounds both, so that every stored value can be parsed.
"""

import re
from typing import Annotated

from msgspec import Meta

#: A duration of zero or more; the number of digits is limited, unlike in Go.
PATTERN = r"^([0-9]{1,9}(\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h)){1,7}$"
PROMETHEUS_PATTERN = r"^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"

Duration = Annotated[str, Meta(pattern=PATTERN, max_length=64)]
PrometheusDuration = Annotated[str, Meta(pattern=PROMETHEUS_PATTERN, max_length=64)]

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """Convert a duration to seconds. Raises `ValueError` if `text` is not a duration."""
    if not re.fullmatch(PATTERN, text):
        raise ValueError(f"{text[:40]!r} is not a duration such as 30m or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


def scaled_value(value: int | str, total: int) -> int:
    """Resolve a number or a percentage of `total`, rounded up; 1 if the text is neither (objects from old versions)."""
    if isinstance(value, int):
        return value
    number = value.removesuffix("%")
    if number == value or not (number.isascii() and number.isdigit()):
        return 1
    return -(-int(number) * total // 100)
