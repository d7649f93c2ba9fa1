# SPDX-License-Identifier: Apache-2.0
"""The error of a daemon in its output, whether its lines are JSON or plain."""

import json

from hypothesis import given
from hypothesis import strategies as st

from slinky.kube.views import ContainerTerminated
from slinky.operator.framework.crash_message import describe_exit, plain_output, summarize_output

PLAIN = ["error: MailProg missing", "error: cannot open state", 'fatal: "x\\y" is bad']


def line(text: str) -> str:
    level, _, message = text.partition(": ")
    record = {
        "time": "2026-01-01T00:00:00.000Z",
        "level": level,
        "daemon": "slurmctld",
        "node": "n",
        "message": message,
    }
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))


def test_json_lines_are_summarized_like_plain_ones() -> None:
    output = "\n".join(map(line, PLAIN))
    assert plain_output(output).splitlines() == PLAIN
    assert summarize_output(output) == summarize_output("\n".join(PLAIN)) == 'cannot open state; "x\\y" is bad'


def test_a_line_whose_beginning_is_cut_still_has_its_message() -> None:
    assert plain_output(line("error: no disk")[20:]) == "error: no disk"
    assert plain_output(line("error: no disk")[60:]) == "no disk"
    cut = ContainerTerminated(exit_code=1, message=line("info: the last words")[-40:])
    assert describe_exit(cut) == "the last words"


@given(st.text().filter(lambda text: len(text.splitlines()) == 1 and max(text) <= "\ud7ff"))
def test_any_message_survives(message: str) -> None:
    assert plain_output(line(f"error: {message}")) == f"error: {message}"
