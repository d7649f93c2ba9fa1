# SPDX-License-Identifier: Apache-2.0
"""Every parameter of the presets is explained on their page."""

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/operator/presets.md").read_text()
PRESETS = sorted((ROOT / "examples/operator/presets").glob("*.yaml"))


def test_there_is_a_preset_for_every_kind_of_site_of_the_page() -> None:
    assert {path.stem for path in PRESETS} == {"teaching", "throughput", "gpu-training", "large"}
    for path in PRESETS:
        assert f"examples/operator/presets/{path.name}" in PAGE


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_the_page_explains_every_parameter(path: Path) -> None:
    values = yaml.safe_load(path.read_text())
    settings = values["controller"]["extraConfMap"]
    options = [option.partition("=")[0] for option in settings["SchedulerParameters"].split(",")]
    partitions = [name for partition in values["partitions"].values() for name in partition["configMap"]]
    unexplained = {name for name in (*settings, *options, *partitions) if f"`{name}" not in PAGE}
    assert unexplained == set()
