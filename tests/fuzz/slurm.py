# SPDX-License-Identifier: Apache-2.0
"""Coverage-guided fuzzing of every parser of text from outside: `python tests/fuzz/slurm.py`, with atheris.

For any input, each parser must return a value or raise its own error type.
"""

import contextlib
import sys
from collections.abc import Callable

import atheris

with atheris.instrument_imports():
    from slinky.slurm import HostlistError, SlurmError, TokenError, expand
    from slinky.slurm.conf import ConfError, parse, parse_devices, parse_fragment, topology
    from slinky.slurm.model.responses import JobsResponse, NodesResponse, StatesResponse
    from slinky.slurm.tokens import read_claims
    from slinky.slurm.transport.decode import RawResponse, parse_response
    from slinky.slurm.transport.response_guard import remaining_bytes

TEXT_PARSERS: tuple[Callable[[str], object], ...] = (
    lambda text: expand(text, limit=10_000),
    parse,
    parse_fragment,
    parse_devices,
    topology.parse_topologies,
    read_claims,
)
EXPECTED_ERRORS = (SlurmError, HostlistError, ConfError, TokenError)


def run_parsers(data: bytes) -> None:
    """Pass one input to every parser."""
    remaining_bytes(data)
    for kind in (JobsResponse, NodesResponse, StatesResponse):
        with contextlib.suppress(*EXPECTED_ERRORS):
            parse_response(RawResponse(200, "application/json", data), kind)
    text = data.decode("utf-8", "replace")
    for parser in TEXT_PARSERS:
        with contextlib.suppress(*EXPECTED_ERRORS):
            parser(text)


if __name__ == "__main__":
    atheris.Setup(sys.argv, run_parsers)
    atheris.Fuzz()
