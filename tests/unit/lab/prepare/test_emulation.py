# SPDX-License-Identifier: Apache-2.0
"""Which programs the kernel hands to QEMU."""

import sys
from pathlib import Path

import pytest

from slinky.lab.prepare.emulation import ARCHITECTURES, Architecture, is_handled, magic, mask, native, registration

ARM = ARCHITECTURES["arm64"]
#: An entry of binfmt_misc, as the kernel prints it.
ENTRY = f"enabled\ninterpreter /usr/bin/qemu-aarch64-static\nflags: POCF\noffset 0\nmagic {magic(ARM)}\nmask {mask()}\n"


def matches(program: bytes, architecture: Architecture) -> bool:
    bits = bytes.fromhex(mask())
    wanted = bytes.fromhex(magic(architecture))
    return all((a ^ b) & bit == 0 for a, b, bit in zip(program, wanted, bits, strict=False))


def test_the_programs_of_this_machine_are_recognized_as_such() -> None:
    program = Path(sys.executable).resolve().read_bytes()[:20]
    assert [name for name, item in ARCHITECTURES.items() if matches(program, item)] == [native().name]


def test_the_registration_is_one_line_of_escaped_bytes() -> None:
    line = registration("slinky-arm64", ARM, Path("/cache/qemu-aarch64"))
    fields = line.split(":")
    assert fields[:4] == ["", "slinky-arm64", "M", ""]
    assert fields[4].startswith("\\x7f\\x45\\x4c\\x46\\x02\\x01")
    assert len(fields[4]) == len(fields[5]) == 80
    assert fields[6:] == ["/cache/qemu-aarch64", "PCF"]


@pytest.mark.parametrize(
    ("entry", "handled"),
    [
        (ENTRY, True),
        (ENTRY.replace("enabled", "disabled"), False),
        # Without F the interpreter is searched in the root file system of the image, which does not have it.
        (ENTRY.replace("POCF", "POC"), False),
        (ENTRY.replace(magic(ARM), magic(ARCHITECTURES["amd64"])), False),
        ("", False),
    ],
)
def test_a_registration_of_the_distribution_is_used_if_it_works_in_images(entry: str, handled: bool) -> None:
    assert is_handled(entry, ARM) is handled
