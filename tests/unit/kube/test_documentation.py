# SPDX-License-Identifier: Apache-2.0
"""The samples of docs/kube-runtime.md use names that exist."""

import ast
import importlib
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "kube-runtime.md"
SAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def imports(sample: str) -> list[tuple[str, str]]:
    nodes = [node for node in ast.walk(ast.parse(sample)) if isinstance(node, ast.ImportFrom)]
    return [(node.module or "", alias.name) for node in nodes for alias in node.names]


def test_the_page_has_samples() -> None:
    assert len(SAMPLES) >= 6


@pytest.mark.parametrize("sample", SAMPLES, ids=range(len(SAMPLES)))
def test_every_import_of_a_sample_exists(sample: str) -> None:
    missing = [
        f"{module}.{name}" for module, name in imports(sample) if not hasattr(importlib.import_module(module), name)
    ]
    assert not missing


@pytest.mark.parametrize("sample", SAMPLES, ids=range(len(SAMPLES)))
def test_every_sample_runs(sample: str) -> None:
    variables: dict[str, Any] = {"__name__": "sample"}
    exec(compile(sample, str(PAGE), "exec"), variables)  # noqa: S102 -- the samples are part of the repository


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(slinky\.(?:kube|observe)[\w.]*)`", PAGE.read_text()))))
def test_every_name_in_the_text_exists(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        assert hasattr(importlib.import_module(module), attribute)
