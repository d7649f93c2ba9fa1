# SPDX-License-Identifier: Apache-2.0
"""The report of a failed test on real nodes includes the state of the cluster at that moment."""

from collections.abc import Generator
from typing import Any

import pytest
from tests.support.shared_stage import FAILED

#: Commands whose last lines are shown.
COMMANDS = (
    ("get", "nodes", "-o", "wide"),
    ("get", "controllers,accountings,restapis,nodesets,loginsets", "-A"),
    ("get", "pods", "-A", "-o", "wide"),
    ("get", "events", "-A", "--sort-by=.lastTimestamp"),
)
LINES = 40


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if not report.failed:
        return report
    item.stash[FAILED] = True
    values = list(getattr(item, "funcargs", {}).values())
    lab = next((lab for value in values if (lab := _lab_of(value))), None)
    if lab is not None:
        for command in COMMANDS:
            lines = lab.kubectl(*command, check=False).splitlines()
            report.sections.append((" ".join(("kubectl", *command)), "\n".join(lines[-LINES:])))
    for value in values:
        if diagnose := getattr(value, "diagnose", None):
            report.sections.append((type(value).__name__, diagnose()))
    return report


def _lab_of(value: Any) -> Any:
    """The lab that a fixture is or has."""
    lab = getattr(value, "lab", value)
    return lab if hasattr(lab, "kubectl") and hasattr(lab, "plane") else None
