# SPDX-License-Identifier: Apache-2.0
"""The table that `make compat` writes into docs/versions.md."""

from collections import Counter

import pytest
from tests.compat import api_servers
from tests.compat.api_servers import BEGIN, END, PAGE, PARTS, CompatPart

ONE = CompatPart("client library", ("tests/integration/kube",))
TWO = CompatPart("operator", ("tests/integration/operator/test_objects.py",))
REPORT = """<testsuites><testsuite>
<testcase classname="tests.integration.kube.test_watch" name="a"/>
<testcase classname="tests.integration.kube.test_watch" name="b"><failure>no</failure></testcase>
<testcase classname="tests.integration.operator.test_objects" name="c"/>
<testcase classname="tests.integration.operator.test_objects.TestX" name="d"/>
</testsuite></testsuites>"""


def test_outcomes_are_counted_by_part() -> None:
    counts = api_servers.outcomes(REPORT, [ONE, TWO])
    assert counts == {"client library": Counter(passed=1, failed=1), "operator": Counter(passed=2)}


@pytest.mark.parametrize(
    ("minor", "missing"),
    [("1.33", {"bridge", "native PodGroup"}), ("1.35", {"native PodGroup"}), ("1.37", set())],
)
def test_a_part_that_a_version_lacks_is_not_tested(minor: str, missing: set[str]) -> None:
    assert {part.title for part in PARTS} - {part.title for part in api_servers.parts_of(minor)} == missing


def test_a_row_says_what_passed_what_failed_and_what_is_missing() -> None:
    counts = {part.title: Counter(passed=3) for part in api_servers.parts_of("1.33")}
    counts["operator"]["failed"] = 1
    line = api_servers.row("1.33", counts)
    assert line.startswith("| 1.33 (1.33.")
    assert "| 3 passed, 1 failed |" in line
    assert "| refused by the chart | not in this Kubernetes |" in line


def test_a_new_row_replaces_that_of_the_same_minor() -> None:
    page = f"before\n{BEGIN}\n{END}\nafter\n"
    for line in ("| 1.37 (1.37.1) | a |", "| 1.35 (1.35.8) | b |", "| 1.37 (1.37.2) | c |"):
        page = api_servers.with_row(page, line)
    assert [line for line in page.splitlines() if line.startswith("| 1.")] == [
        "| 1.35 (1.35.8) | b |",
        "| 1.37 (1.37.2) | c |",
    ]
    assert page.startswith("before\n")
    assert page.endswith("\nafter\n")


def test_the_page_has_a_place_for_the_table() -> None:
    text = PAGE.read_text()
    assert text.count(BEGIN) == text.count(END) == 1
