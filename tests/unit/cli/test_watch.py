# SPDX-License-Identifier: Apache-2.0
"""`--watch`: what is drawn, and when nothing is."""

import io

import pytest

from slinky.cli.cluster.output import OutputFormat
from slinky.cli.cluster.watch import CLEAR_LINE, HOME, WatchScreen, clip


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_stream_gets_each_text_once(capsys: pytest.CaptureFixture[str]) -> None:
    screen = WatchScreen(OutputFormat.TEXT)
    for text in ("a", "a", "b", "b"):
        screen.show(text)
        screen.confirm()
    assert capsys.readouterr().out == "a\n\nb\n"
    assert screen.draws == 2


@pytest.mark.parametrize(
    ("output", "printed"), [(OutputFormat.YAML, "a\n---\nb\n"), (OutputFormat.JSON, "a\nb\n")], ids=str
)
def test_documents_stay_separable(output: OutputFormat, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    screen = WatchScreen(output)
    screen.show("a")
    screen.show("b")
    assert capsys.readouterr().out == printed


def test_an_outage_is_reported_once_with_its_age(capsys: pytest.CaptureFixture[str]) -> None:
    now = iter([0.0, *map(float, range(1000, 1100))])
    screen = WatchScreen(OutputFormat.TEXT, clock=lambda: next(now))
    screen.show("a")
    screen.report_outage("refused\x1b")
    screen.report_outage("refused")
    screen.show("a")
    printed = capsys.readouterr()
    assert printed.out == "a\n"
    assert printed.err.count("no answer for") == 1
    assert "refused\\x1b" in printed.err


def test_a_terminal_is_redrawn_in_place_and_shows_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    screen = WatchScreen(OutputFormat.TEXT)
    screen.show("a")
    first = terminal.getvalue()
    screen.show("a")
    assert terminal.getvalue() == first
    assert HOME in first
    assert f"a{CLEAR_LINE}\n" in first
    screen.report_outage("refused")
    assert "no answer for 0 s" in terminal.getvalue().removeprefix(first)
    screen.confirm()
    assert terminal.getvalue().count("Ctrl-C ends") == 2


def test_a_long_text_says_how_much_is_left_out() -> None:
    lines = [str(number) for number in range(10)]
    assert clip(lines, 10) == lines
    assert clip(lines, 4) == ["0", "1", "2", "(7 more lines)"]
    assert clip(lines, -1) == ["0", "(9 more lines)"]
