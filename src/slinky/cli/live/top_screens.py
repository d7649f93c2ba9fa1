# SPDX-License-Identifier: Apache-2.0
"""Screens over the tables of `slinky top`: an explanation, a confirmation, the reason of a drain."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static


class ExplanationScreen(ModalScreen[None]):
    """A paragraph; any of the usual keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "close", "Close"),
        ("q", "close", "Close"),
        ("e", "close", "Close"),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        """The paragraph, without markup: names in it are those of other people."""
        with VerticalScroll(classes="dialog"):
            yield Static(Text(self.text))
            yield Static(Text("\nEsc closes"))

    def action_close(self) -> None:
        """Close the screen."""
        self.dismiss(None)


class ConfirmationScreen(ModalScreen[bool]):
    """Names an action and asks."""

    BINDINGS: ClassVar[list[BindingType]] = [("y", "answer(True)", "Yes"), ("n,escape,q", "answer(False)", "No")]

    def __init__(self, action: str) -> None:
        super().__init__()
        self.text = action

    def compose(self) -> ComposeResult:
        """The action and the keys."""
        with Vertical(classes="dialog"):
            yield Static(Text(f"{self.text}?"))
            yield Static(Text("\ny carries it out, n does not"))

    def action_answer(self, answer: bool) -> None:
        """Close the screen with an answer."""
        self.dismiss(answer)


class ReasonScreen(ModalScreen[str]):
    """Asks for the reason of a drain; an empty one drains nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "Leave")]

    def __init__(self, host: str) -> None:
        super().__init__()
        self.host = host

    def compose(self) -> ComposeResult:
        """The question and a line for the answer."""
        with Vertical(classes="dialog"):
            yield Static(Text(f"drain {self.host}: reason, which other users see"))
            yield Input(max_length=200)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close the screen with the reason."""
        self.dismiss(event.value.strip())

    def action_leave(self) -> None:
        """Close the screen without a reason."""
        self.dismiss("")
