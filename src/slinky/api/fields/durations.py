# SPDX-License-Identifier: Apache-2.0
"""Lengths of time as Kubernetes objects carry them: `30m`, `1h30m`, `500ms`.

The notation is Go's; Prometheus has one of its own (`1d`, `2w`), which only the ServiceMonitor uses. Both are bounded
by a pattern in the schema, so that what is stored can be read.
"""

import re
from typing import Annotated

from msgspec import Meta

#: A length of time of zero or more; Go allows more digits than anybody needs.
PATTERN = r"^([0-9]{1,9}(\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h)){1,7}$"
PROMETHEUS_PATTERN = r"^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"

Duration = Annotated[str, Meta(pattern=PATTERN, max_length=64)]
PrometheusDuration = Annotated[str, Meta(pattern=PROMETHEUS_PATTERN, max_length=64)]

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """How many seconds `text` stands for. Raises `ValueError` if it is not a length of time."""
    if not re.fullmatch(PATTERN, text):
        raise ValueError(f"{text[:40]!r} is not a duration such as 30m or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
