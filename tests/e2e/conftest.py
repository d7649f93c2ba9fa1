# SPDX-License-Identifier: Apache-2.0
"""When a test on real nodes fails, what the site looked like then is part of the failure."""

from collections.abc import Generator
from typing import Any

import pytest

#: What is asked of the site; the last lines of each answer are shown.
QUESTIONS = (
    ("get", "nodes", "-o", "wide"),
    ("get", "controllers,accountings,restapis,nodesets,loginsets", "-A"),
    ("get", "pods", "-A", "-o", "wide"),
    ("get", "events", "-A", "--sort-by=.lastTimestamp"),
)
LINES = 40


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    lab = next((found for value in getattr(item, "funcargs", {}).values() if (found := _lab_of(value))), None)
    if report.failed and lab is not None:
        for question in QUESTIONS:
            said = lab.kubectl(*question, check=False).splitlines()
            report.sections.append((" ".join(("kubectl", *question)), "\n".join(said[-LINES:])))
        for value in item.funcargs.values():  # type: ignore[attr-defined]
            if tell := getattr(value, "tell", None):
                report.sections.append((type(value).__name__, tell()))
    return report


def _lab_of(value: Any) -> Any:
    found = getattr(value, "lab", value)
    return found if hasattr(found, "kubectl") and hasattr(found, "plane") else None
