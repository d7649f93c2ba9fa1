# SPDX-License-Identifier: Apache-2.0
"""A module that calls itself pure imports no event loop, no client and no clock.

import-linter holds this for whole folders (`pyproject.toml`); this test holds it for every module whose docstring says
"Pure", wherever the module is.
"""

import ast
import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src/slinky"
MODULES = {"asyncio", "aiohttp", "time", "random", "secrets", "slinky.kube.client", "slinky.slurm.client"}
NAMES = {"KubeClient", "SlurmClient", "Mirror", "Runtime", "Cache", "connect"}


def declares_purity(path: Path) -> bool:
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    return bool(re.search(r"\bPure\b", docstring))


PURE = [path for path in sorted(SOURCES.rglob("*.py")) if declares_purity(path)]


@pytest.mark.parametrize("path", PURE, ids=lambda path: str(path.relative_to(SOURCES)))
def test_a_module_that_calls_itself_pure_is(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert not {alias.name for alias in node.names} & MODULES
        elif isinstance(node, ast.ImportFrom):
            assert node.module not in MODULES
            assert not {alias.name for alias in node.names} & NAMES
        elif isinstance(node, ast.AsyncFunctionDef | ast.Await):
            raise AssertionError(f"line {node.lineno} is asynchronous")


def test_pure_modules_are_found() -> None:
    assert len(PURE) > 30
