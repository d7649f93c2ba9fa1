# SPDX-License-Identifier: Apache-2.0
"""Resource quantities with exact arithmetic.

A quantity is an integer number of billionths, as in Kubernetes, so sums are exact. Text is parsed and formatted by the
rules of the API server: a value finer than a billionth is rounded away from zero, a huge value is capped, and the
family of the suffix is preserved.
"""

import functools
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Family = Literal["decimal", "binary", "exponent"]

NANO = 10**9
_CAP = (2**63 - 1) * NANO
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL_NAME = {power: name for name, power in _DECIMAL.items()}
_BINARY_NAME = {power: name for name, power in _BINARY.items()}
# An exponent of more than four digits would only cost computing time.
_PATTERN = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:([KMGTPE]i)|([eE])([+-]?\d{1,4})|([numkMGTPE]?))", re.ASCII)


@dataclass(frozen=True, order=True)
class Quantity:
    """An amount; compared and added by value, independent of its notation."""

    nano: int

    @classmethod
    def parse(cls, text: str | int | float) -> "Quantity":
        """Parse a quantity; `ValueError` if the text is not one."""
        return cls(_parse(str(text))[0])

    @classmethod
    def of(cls, amount: int) -> "Quantity":
        """A quantity of an integer amount."""
        return cls(amount * NANO)

    def whole(self) -> int:
        """The quantity rounded up to an integer."""
        return -(-self.nano // NANO)

    def mebi(self) -> int:
        """The quantity in mebibytes, rounded up; Slurm counts memory in mebibytes."""
        return -(-self.nano // (NANO * 2**20))

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano + other.nano)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano - other.nano)

    def __mul__(self, factor: int) -> "Quantity":
        return Quantity(self.nano * factor)

    def __bool__(self) -> bool:
        return self.nano != 0

    def __str__(self) -> str:
        return self.format()

    def format(self, family: Family = "decimal") -> str:
        """The canonical text; a binary suffix only if it is exact."""
        if family == "binary" and abs(self.nano) >= 1024 * NANO and self.nano % NANO == 0:
            number, power = _factor_out(self.nano // NANO, 1024, max(_BINARY_NAME))
            return f"{number}{_BINARY_NAME.get(power, '')}"
        number, power = _factor_out(self.nano, 1000, (18 + 9) // 3)
        exponent = power * 3 - 9 if self.nano else 0
        if family == "exponent":
            return f"{number}e{exponent}" if exponent else str(number)
        return f"{number}{_DECIMAL_NAME[exponent]}"


def canonical(text: str | int) -> str:
    """`text` in the canonical form of the API server, which stores most quantities in this form."""
    nano, family = _parse(str(text))
    return Quantity(nano).format(family)


@functools.lru_cache(maxsize=4096)  # a cluster has few different quantities, which are parsed again and again
def _parse(text: str) -> tuple[int, Family]:
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:60]!r} is not a quantity")
    sign, digits, binary, marker, exponent, decimal = match.groups()
    family: Family = "binary" if binary else "exponent" if marker else "decimal"
    scale = (
        Fraction(1024) ** _BINARY[binary]
        if binary
        else Fraction(10) ** (int(exponent) if marker else _DECIMAL[decimal])
    )
    exact = Fraction(f"0{digits}" if digits.startswith(".") else digits.rstrip(".")) * scale * NANO
    nano = min(_CAP, -(-exact.numerator // exact.denominator))
    return (-nano if sign == "-" else nano), family


def _factor_out(number: int, base: int, most: int) -> tuple[int, int]:
    """`number` divided by `base` as often as possible (at most `most` times), and the number of divisions."""
    power = 0
    while number and number % base == 0 and power < most:
        number, power = number // base, power + 1
    return number, power
