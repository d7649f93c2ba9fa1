# SPDX-License-Identifier: Apache-2.0
"""Resource quantities, exactly.

A quantity is a whole number of billionths, as in Kubernetes itself, so sums never drift; text is read and
written by the API server's rules: finer than a billionth rounds away from zero, huge values are capped, and
the suffix family of the input is kept.
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
# Exponents of more than four digits only serve to keep a computer busy.
_SHAPE = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:([KMGTPE]i)|([eE])([+-]?\d{1,4})|([numkMGTPE]?))", re.ASCII)


@dataclass(frozen=True, order=True)
class Quantity:
    """An amount; compares and adds by value, whatever way it was written."""

    nano: int

    @classmethod
    def parse(cls, text: str | int | float) -> "Quantity":
        """Read a quantity; `ValueError` if it is none."""
        return cls(_read(str(text))[0])

    @classmethod
    def of(cls, amount: int) -> "Quantity":
        """A whole amount."""
        return cls(amount * NANO)

    def whole(self) -> int:
        """The least whole number that is not smaller."""
        return -(-self.nano // NANO)

    def milli(self) -> int:
        """The least number of thousandths that is not smaller."""
        return -(-self.nano // (NANO // 1000))

    def mebi(self) -> int:
        """The least number of mebibytes that is not smaller, as Slurm counts memory."""
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
        """The canonical text; binary suffixes only where they lose nothing."""
        if family == "binary" and abs(self.nano) >= 1024 * NANO and self.nano % NANO == 0:
            number, power = _divided(self.nano // NANO, 1024, max(_BINARY_NAME))
            return f"{number}{_BINARY_NAME.get(power, '')}"
        number, power = _divided(self.nano, 1000, (18 + 9) // 3)
        exponent = power * 3 - 9 if self.nano else 0
        if family == "exponent":
            return f"{number}e{exponent}" if exponent else str(number)
        return f"{number}{_DECIMAL_NAME[exponent]}"


def canonical(text: str | int) -> str:
    """`text` in the API server's canonical form; it keeps some texts as they came, all others become this."""
    nano, family = _read(str(text))
    return Quantity(nano).format(family)


@functools.lru_cache(maxsize=4096)  # a cluster has few different ones, and they are read again and again
def _read(text: str) -> tuple[int, Family]:
    found = _SHAPE.fullmatch(text)
    if found is None:
        raise ValueError(f"not a quantity: {text[:60]!r}")
    sign, digits, binary, marker, exponent, decimal = found.groups()
    family: Family = "binary" if binary else "exponent" if marker else "decimal"
    scale = (
        Fraction(1024) ** _BINARY[binary]
        if binary
        else Fraction(10) ** (int(exponent) if marker else _DECIMAL[decimal])
    )
    exact = Fraction(f"0{digits}" if digits.startswith(".") else digits.rstrip(".")) * scale * NANO
    nano = min(_CAP, -(-exact.numerator // exact.denominator))
    return (-nano if sign == "-" else nano), family


def _divided(number: int, base: int, most: int) -> tuple[int, int]:
    """`number` without its factors of `base`, and how many there were."""
    power = 0
    while number and number % base == 0 and power < most:
        number, power = number // base, power + 1
    return number, power
