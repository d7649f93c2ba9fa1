# SPDX-License-Identifier: Apache-2.0
"""What chart repositories show, and the README of a chart."""

import yaml
from charts import metadata, readme
from charts.package import CHARTS, HERE
from charts.readme import ChartValue, read_values

CHANGELOG = """# Changelog

## Unreleased

### Added

- Not released.

## 1.2.3 - 2026-01-02

### Added

Operator:
- One thing, which is
  described on two lines ([docs](docs/x.md)).
- Another.

### Security
- A hole is closed.

## 1.2.2 - 2026-01-01
### Fixed
- Old.
"""


def test_the_annotations_of_a_release_are_its_images_and_changes() -> None:
    images = {"registry": "registry.example/slinky", "digests": {"slinky": "sha256:1"}}
    found = metadata.release_annotations("1.2.3", images, metadata.changes_of(CHANGELOG, "1.2.3"))
    assert yaml.safe_load(found["artifacthub.io/images"]) == [
        {"name": "slinky", "image": "registry.example/slinky/slinky@sha256:1"}
    ]
    assert yaml.safe_load(found["artifacthub.io/changes"]) == [
        {"kind": "added", "description": "One thing, which is described on two lines (docs)."},
        {"kind": "added", "description": "Another."},
        {"kind": "security", "description": "A hole is closed."},
    ]
    assert found["artifacthub.io/containsSecurityUpdates"] == "true"
    assert found["artifacthub.io/prerelease"] == "false"


def test_a_version_without_a_section_has_the_changes_that_are_not_released() -> None:
    found = metadata.release_annotations("2.0.0-rc.1", {}, metadata.changes_of(CHANGELOG, "2.0.0-rc.1"))
    assert [entry["description"] for entry in yaml.safe_load(found["artifacthub.io/changes"])] == ["Not released."]
    assert found["artifacthub.io/prerelease"] == "true"
    assert "artifacthub.io/images" not in found


def test_every_chart_has_the_metadata_of_a_repository() -> None:
    for chart in CHARTS:
        facts = yaml.safe_load((HERE / chart / "Chart.yaml").read_text())
        assert facts["keywords"]
        assert facts["maintainers"]
        assert facts["annotations"]["artifacthub.io/license"] == "Apache-2.0"
        kinds = yaml.safe_load(facts["annotations"].get("artifacthub.io/crds", "[]"))
        assert len(kinds) == (6 if "operator" in chart else 0)


def test_metadata_is_written_once() -> None:
    text = (HERE / "slurm" / "Chart.yaml").read_text()
    assert metadata.with_metadata("slurm", text) == text


def test_values_are_listed_with_their_comments() -> None:
    text = """
# The first
# value.
a: {b: 1}
c:
  # Inner.
  d: []
  e: |
    many
    lines
# A section.
f:
  g: "x | y"
"""
    assert read_values(text) == [
        ChartValue("a", '{"b": 1}', "The first value."),
        ChartValue("c.d", "[]", "Inner."),
        ChartValue("c.e", '"many\\nlines\\n"', ""),
        ChartValue("f", "", "A section."),
        ChartValue("f.g", '"x | y"', ""),
    ]


def test_every_value_is_in_the_readme() -> None:
    for chart in CHARTS:
        text = readme.render(chart)
        for value in read_values((HERE / chart / "values.yaml").read_text()):
            assert f"| `{value.path}` |" in text
