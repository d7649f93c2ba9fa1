# SPDX-License-Identifier: Apache-2.0
"""The table of measured parameters: it is that of the last run, and every parameter is one of a preset."""

import json
import re

import pytest
from bench.preset_cluster import LIMIT, RESULTS
from bench.presets import MEASUREMENTS, PAGE, Measurement, Row, render
from tests.support.doc_blocks import ROOT

PRESETS = {file.stem: file.read_text() for file in (ROOT / "examples/operator/presets").glob("*.yaml")}


def test_the_page_has_the_results_of_the_last_run() -> None:
    rows = json.loads(RESULTS.read_text())
    assert [row["parameter"] for row in rows] == [item.name for item in MEASUREMENTS]
    assert render(rows) in PAGE.read_text()


@pytest.mark.parametrize("item", MEASUREMENTS, ids=lambda item: item.name)
def test_a_measured_parameter_is_one_of_the_presets_that_it_names(item: Measurement) -> None:
    for name in re.split(r", | \(", item.presets.partition(" (")[0]):
        text = PRESETS[name.lower().replace(" ", "-")]
        for parameter in re.findall(r"`(\w+)", item.name):
            assert parameter in text, f"{parameter} is not in {name}"


def test_a_measurement_that_reached_its_limit_says_so() -> None:
    row: Row = {
        "parameter": "p",
        "presets": "large",
        "measured": "seconds until it starts",
        "default": LIMIT,
        "preset": 2.5,
    }
    assert "| more than 120 | 2.5 |" in render([row])
    assert "| 120 | 2.5 |" in render([{**row, "measured": "runs"}])
