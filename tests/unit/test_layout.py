# SPDX-License-Identifier: Apache-2.0
"""The layout that newcomers rely on: small folders, and class names that are defined once."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src/slinky"
PACKAGES = sorted(file.parent for file in SOURCES.rglob("__init__.py"))
LARGEST = 14
#: A library with one noun per module, all of them guessable.
FLAT = {SOURCES / "kube"}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: str(package.relative_to(SOURCES.parent)))
def test_a_folder_has_at_most_fourteen_modules(package: Path) -> None:
    modules = [file.name for file in package.glob("*.py") if file.name != "__init__.py"]
    assert len(modules) <= LARGEST or package in FLAT


def test_a_class_name_is_defined_once() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for file in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(file.relative_to(SOURCES)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
