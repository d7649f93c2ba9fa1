# SPDX-License-Identifier: Apache-2.0
"""What chart repositories such as Artifact Hub show of a chart: keywords, maintainers, kinds, images and changes.

The part that depends on the code is written to Chart.yaml by `make generate`; the part that depends on a release is
added when the chart is packaged.
"""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from slinky.api import crds

MARKER = "# The rest is made by `python -m charts.generate`.\n"
KEYWORDS = {
    "slurm-operator-crds": ("slurm", "hpc", "operator", "crd"),
    "slurm-operator": ("slurm", "hpc", "operator", "batch", "autoscaling"),
    "slurm": ("slurm", "hpc", "batch", "scheduler", "gpu"),
    "slurm-bridge": ("slurm", "hpc", "scheduler", "gang-scheduling", "gpu"),
}
CAPABILITIES = "Deep Insights"
#: Words of CHANGELOG.md and of Artifact Hub.
KINDS = {"Added": "added", "Changed": "changed", "Deprecated": "deprecated", "Removed": "removed", "Fixed": "fixed",
         "Security": "security"}  # fmt: skip
_SECTION = re.compile(r"^### (\w+)\n(.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^- (.*?)(?=\n- |\n\n|\Z)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
#: Artifact Hub shows a list that a person can read.
MOST_CHANGES = 40
_HEADING = r"^## \[?{version}\]?(?: [^\n]*)?\n(.*?)(?=^## |\Z)"


class _BlockDumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, which people can read."""


_BlockDumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def dump(facts: Mapping[str, Any]) -> str:
    """A part of a Chart.yaml."""
    return yaml.dump(dict(facts), Dumper=_BlockDumper, sort_keys=False, width=1000)


def changes_of(changelog: str, version: str) -> str:
    """The section of a version in a changelog, or of what is not released yet."""
    for name in (re.escape(version), "Unreleased"):
        if section := re.search(_HEADING.format(version=name), changelog, re.MULTILINE | re.DOTALL):
            return section[1]
    return ""


def with_metadata(chart: str, text: str) -> str:
    """A Chart.yaml with keywords, maintainers and annotations."""
    own = text.partition(MARKER)[0]
    facts: dict[str, Any] = {"keywords": list(KEYWORDS[chart]), "maintainers": [{"name": "The maintainers of slinky"}]}
    stated = (yaml.safe_load(own) or {}).get("annotations") or {}
    if chart != "slurm":
        stated = {**stated, **_operator_annotations(chart)}
    head = re.sub(r"^annotations:\n(?:  .*\n)*", "", own, flags=re.MULTILINE)
    annotations = {"artifacthub.io/license": "Apache-2.0", "artifacthub.io/category": "ai-machine-learning", **stated}
    return head + MARKER + dump({**facts, "annotations": annotations})


def _operator_annotations(chart: str) -> dict[str, str]:
    if chart == "slurm-bridge":
        return {}
    kinds = [
        {
            "kind": item["spec"]["names"]["kind"],
            "version": item["spec"]["versions"][0]["name"],
            "name": item["metadata"]["name"],
            "displayName": item["spec"]["names"]["kind"],
            "description": item["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"].splitlines()[0],
        }
        for item in crds.DEFINITIONS
    ]
    text = yaml.safe_dump(kinds, sort_keys=False, width=1000)
    return {
        "artifacthub.io/operator": "true",
        "artifacthub.io/operatorCapabilities": CAPABILITIES,
        "artifacthub.io/crds": text,
    }


def release_annotations(version: str, images: Mapping[str, Any], changes: str, url: str = "") -> dict[str, str]:
    """The annotations of a packaged chart: its images, the changes of its release, whether it is a prerelease."""
    found = {"artifacthub.io/prerelease": "true" if "-" in version else "false"}
    if url:
        links = [{"name": "files and checksums of the release", "url": url}]
        found["artifacthub.io/links"] = yaml.safe_dump(links, sort_keys=False, width=1000)
    if images:
        listed = [
            {"name": name, "image": f"{images['registry']}/{name}@{digest}"}
            for name, digest in sorted(images["digests"].items())
        ]
        found["artifacthub.io/images"] = yaml.safe_dump(listed, sort_keys=False, width=1000)
    entries = [
        {"kind": KINDS[kind], "description": _LINK.sub(r"\1", " ".join(entry.split()))}
        for kind, body in _SECTION.findall(changes)
        if kind in KINDS
        for entry in _ENTRY.findall(body)
    ]
    if entries:
        found["artifacthub.io/changes"] = yaml.safe_dump(entries[:MOST_CHANGES], sort_keys=False, width=1000)
    security = any(entry["kind"] == "security" for entry in entries)
    return {**found, "artifacthub.io/containsSecurityUpdates": "true" if security else "false"}
