# SPDX-License-Identifier: Apache-2.0
"""Coverage-guided fuzzing of every parser of text from outside, with atheris; `make fuzz` gives each a minute.

    python -m tests.fuzz --list
    python -m tests.fuzz hostlist -max_total_time=60

The targets are the parsers of `tests/unit/test_hostile_inputs.py`. For any input, a parser must return a value or raise
one of its own errors.
"""

import contextlib
import sys

import atheris

with atheris.instrument_imports(include=["slinky"]):
    from tests.unit.test_hostile_inputs import PARSERS


def main() -> None:
    """Fuzz the parser that the first argument names; the others are libFuzzer's."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--list"
    if name == "--list":
        print("\n".join(sorted(PARSERS)))
        return
    if name not in PARSERS:
        sys.exit(f"there is no target {name!r}; --list shows them")
    parser = PARSERS[name]

    def run(data: bytes) -> None:
        with contextlib.suppress(*parser.errors):
            parser.parse(data.decode("utf-8", "replace"))

    atheris.Setup([sys.argv[0], *sys.argv[2:]], run)
    atheris.Fuzz()


main()
