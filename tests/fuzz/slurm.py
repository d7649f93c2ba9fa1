# SPDX-License-Identifier: Apache-2.0
"""Coverage-guided fuzzing of all that reads text from outside: `python tests/fuzz/slurm.py`, with atheris.

Each reader must end in a value or in its own error type, for any input.
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

TEXT: tuple[Callable[[str], object], ...] = (
    lambda text: expand(text, limit=10_000),
    parse,
    parse_fragment,
    parse_devices,
    topology.parse_topologies,
    read_claims,
)
EXPECTED = (SlurmError, HostlistError, ConfError, TokenError)


def one(data: bytes) -> None:
    """Show one input to every reader."""
    remaining_bytes(data)
    for kind in (JobsResponse, NodesResponse, StatesResponse):
        with contextlib.suppress(*EXPECTED):
            parse_response(RawResponse(200, "application/json", data), kind)
    text = data.decode("utf-8", "replace")
    for reader in TEXT:
        with contextlib.suppress(*EXPECTED):
            reader(text)


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
