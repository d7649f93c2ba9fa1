# SPDX-License-Identifier: Apache-2.0
"""Generated pages are current, the tests that they cite exist, and reasons are defined in one table."""

import ast
import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from string import Formatter

import pytest
import yaml
from tests.unit.bridge import failures

from slinky.bridge import config, names, reference
from slinky.bridge.status import job_ends
from slinky.bridge.status.reasons import Reason
from slinky.bridge.workload import annotations

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs" / "bridge"
SOURCES = sorted((ROOT / "src" / "slinky" / "bridge").rglob("*.py"))


@pytest.mark.parametrize("page", reference.PAGES)
def test_the_generated_part_of_a_page_is_current(page: str) -> None:
    text = (DOCS / page).read_text()
    assert text == reference.render_page(page, text)


# --- failures


def test_the_page_of_failures_is_current() -> None:
    assert failures.render_tables() in (DOCS / "failures.md").read_text()


def strings_in(nodes: Iterable[ast.AST]) -> set[str]:
    constants = (node for top in nodes for node in ast.walk(top) if isinstance(node, ast.Constant))
    return {node.value for node in constants if isinstance(node.value, str)}


def cases_of(test: ast.FunctionDef | ast.AsyncFunctionDef, assigned: Mapping[str, ast.AST]) -> set[str]:
    """The strings in the parameters of a test, also in the tables of its module that the parameters name."""
    marks = [mark for mark in test.decorator_list if isinstance(mark, ast.Call)]
    used = (node.id for mark in marks for node in ast.walk(mark) if isinstance(node, ast.Name))
    tables = [assigned[name] for name in used if name in assigned]
    return strings_in([*(argument for mark in marks for argument in (*mark.args[1:], *mark.keywords)), *tables])


def assignments(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), _, ast.AST() as value):
            yield name, value


@functools.cache
def bridge_tests() -> dict[str, frozenset[str]]:
    """The cases of every test of the bridge and of its Kubernetes runtime, by the name of the test."""
    tests: dict[str, frozenset[str]] = {}
    folders = ("unit/bridge", "integration/bridge", "e2e/bridge", "unit/kube")
    for folder in folders:
        for file in (ROOT / "tests" / folder).rglob("test_*.py"):
            body = ast.parse(file.read_text()).body
            assigned = dict(pair for node in body for pair in assignments(node))
            for node in body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    tests[node.name] = tests.get(node.name, frozenset()) | cases_of(node, assigned)
    return tests


def is_test(citation: str) -> bool:
    """Whether a test has this name and, in brackets, this case."""
    name, bracket, case = citation.partition("[")
    cases = bridge_tests().get(name)
    return cases is not None and (not bracket or case.removesuffix("]") in cases)


@pytest.mark.parametrize("failure", failures.all_failures(), ids=lambda failure: failure.event)
def test_every_failure_cites_tests_that_exist(failure: failures.Failure) -> None:
    assert failure.tests
    assert [test for test in failure.tests if not is_test(test)] == []


@pytest.mark.parametrize("citation", ["test_none", "", f"{failures.UNREACHABLE}[none]", f"{failures.UNREACHABLE}[]"])
def test_a_citation_of_no_test_or_no_case_is_found(citation: str) -> None:
    assert is_test(failures.UNREACHABLE)
    assert is_test(f"{failures.UNREACHABLE}[404]")
    assert not is_test(citation)


def test_every_known_failure_is_in_the_table() -> None:
    assert {known for failure in failures.all_failures() for known in failure.known} == failures.known_failures()


# --- reasons


def nodes_of(file: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(file.read_text()))


def test_a_reason_is_a_literal_in_the_table_of_reasons_only() -> None:
    tokens = {reason.token for reason in Reason} | {end.reason for end in (*job_ends.ENDS.values(), job_ends.LOST)}
    tokens -= {names.ENDED}  # also the type of a condition
    literals = {
        (file.name, node.value)
        for file in SOURCES
        if file.name not in {"reasons.py", "job_ends.py"}
        for node in nodes_of(file)
        if isinstance(node, ast.Constant) and node.value in tokens
    }
    assert literals == set()


def test_every_text_of_a_reason_gets_the_details_of_its_sentence() -> None:
    used = set()
    for call in (node for file in SOURCES for node in nodes_of(file) if isinstance(node, ast.Call)):
        match call.func:
            case ast.Attribute(ast.Attribute(ast.Name("Reason"), member), "text"):
                used.add(member)
                placeholders = {name for _, name, _, _ in Formatter().parse(Reason[member].value.sentence) if name}
                assert {keyword.arg for keyword in call.keywords} == placeholders, member
    # Chosen by an error, with the detail `problem`.
    by_error = {"CLAIM_PENDING", "VOLUME_MISSING", "INVALID_OPTION", "JOB_OUTGROWN", "GANG_RESHAPED"}
    assert used | by_error | {"PENDING"} == set(Reason.__members__)


# --- configuration


@pytest.mark.parametrize("name", sorted(config.SETTING_NAMES))
def test_every_setting_has_a_chart_value_and_a_description(name: str) -> None:
    values = yaml.safe_load((ROOT / "charts" / "slurm-bridge" / "values.yaml").read_text())
    schema = json.loads((ROOT / "charts" / "slurm-bridge" / "values.schema.json").read_text())
    assert schema["properties"]["extraConfig"]["properties"][name]["description"]
    for key in reference.CHART_VALUES.get(name, "extraConfig").split("."):
        values = values[key]


@pytest.mark.parametrize("file", sorted((ROOT / "examples" / "bridge").glob("*.yaml")), ids=lambda file: file.name)
def test_examples_use_options_that_exist(file: Path) -> None:
    for document in yaml.safe_load_all(file.read_text()):
        options = document.get("metadata", {}).get("annotations", {})  # values of the chart have none
        annotations.parse_options(options)
        assert not annotations.unknown_options(options)
