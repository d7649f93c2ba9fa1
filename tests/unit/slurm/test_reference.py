# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from slinky.slurm import __all__ as public
from slinky.slurm.reference import page

PAGE = Path("docs/slurm-client.md")


def test_the_page_has_the_tables_of_the_code() -> None:
    assert page() in PAGE.read_text()


def test_every_example_of_the_page_is_one_that_runs() -> None:
    text = PAGE.read_text()
    for example in Path("examples/slurm-client").glob("*.py"):
        assert f"examples/slurm-client/{example.name}" in text


def test_public_names_are_listed_once() -> None:
    assert len(public) == len(set(public))
