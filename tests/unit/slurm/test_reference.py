# SPDX-License-Identifier: Apache-2.0
import ast
import importlib
import re
from pathlib import Path

import pytest

from slinky.slurm import BlockingClient, Mirror, SlurmClient
from slinky.slurm import __all__ as public
from slinky.slurm.accounting import AccountingClient
from slinky.slurm.reference import render_page
from slinky.slurm.transport.endpoints import ENDPOINTS

PAGE = Path("docs/slurm-client.md")
SAMPLES = [
    (page, sample)
    for page in ("docs/slurm-client.md", "README.md")
    for sample in re.findall(r"```python\n(.*?)```", Path(page).read_text(), re.DOTALL)
]
#: Rows of the endpoint table that share a method with another row.
SHARED_METHODS = {"write_reservations": "write_reservation"}


def test_the_reference_tables_of_the_page_are_current() -> None:
    assert render_page(PAGE.read_text()) == PAGE.read_text(), "run `make generate`"


def test_every_example_of_the_page_is_one_that_runs() -> None:
    text = PAGE.read_text()
    for example in Path("examples/slurm-client").glob("*.py"):
        assert f"examples/slurm-client/{example.name}" in text


@pytest.mark.parametrize(("page", "sample"), SAMPLES)
def test_every_sample_parses_and_its_imports_resolve(page: str, sample: str) -> None:
    tree = compile(sample, page, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    for node in imported:
        module = importlib.import_module(node.module or "")
        missing = [alias.name for alias in node.names if not hasattr(module, alias.name)]
        assert not missing, f"{page} imports {missing} from {node.module}"


@pytest.mark.parametrize(("page", "sample"), SAMPLES)
def test_a_sample_imports_every_class_that_it_uses(page: str, sample: str) -> None:
    tree = ast.parse(sample)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    unknown = {name for name in names if name[0].isupper()} - imported - {"None"}
    assert not unknown, f"{page} uses {sorted(unknown)}"


def test_every_attribute_of_the_mirror_that_the_page_names_exists() -> None:
    mirror = Mirror(SlurmClient("http://127.0.0.1:1", "token"))
    missing = [name for name in re.findall(r"mirror\.(\w+)", PAGE.read_text()) if not hasattr(mirror, name)]
    assert not missing


@pytest.mark.parametrize("name", ENDPOINTS)
def test_every_endpoint_is_named_after_its_method(name: str) -> None:
    _, accounting, method = f".{name}".rpartition("accounting.")
    client = AccountingClient if accounting else SlurmClient
    method = method.removeprefix(".")
    assert callable(getattr(client, SHARED_METHODS.get(method, method)))


def test_public_names_are_listed_once() -> None:
    assert len(public) == len(set(public))


def test_the_blocking_client_offers_every_method() -> None:
    with BlockingClient("http://127.0.0.1:1", "token") as client:
        for name in ENDPOINTS:
            owner, _, method = name.rpartition(".")
            assert callable(getattr(client.accounting if owner else client, SHARED_METHODS.get(method, method)))
