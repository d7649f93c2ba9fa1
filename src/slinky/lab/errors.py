# SPDX-License-Identifier: Apache-2.0
"""Errors of the lab, with a sentence that says what to do next."""


class LabError(Exception):
    """A failure with its next step; the command prints both and exits with 1."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what}\n  next: {self.hint}" if self.hint else self.what
