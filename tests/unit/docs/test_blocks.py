# SPDX-License-Identifier: Apache-2.0
"""Every block of the documentation is in the table of blocks, and every command of ours in it can be parsed."""

import ast
import re

import pytest
import yaml
from tests.support.doc_blocks import ROOT, Block, all_blocks, inline_commands, page_blocks, slinky_commands
from tests.support.doc_order import ORDER
from tests.support.doc_table import BLOCKS, Apply, BridgeConfig, CoveredBy, Merge, Run, Shown, Values

from slinky.bridge import config
from slinky.cli.compat_flags import CompatFlags
from slinky.cli.main import SlinkyGroup

ALL = all_blocks()
SHELL = [block for block in ALL.values() if block.is_shell]
FILES = re.compile(r"(?<![\w./])((?:examples|charts|images)/[\w./-]+)")
TARGETS = re.compile(r"(?:^|&& )make ([a-z-]+)", re.MULTILINE)


def test_every_block_is_in_the_table() -> None:
    assert set(ALL) - set(BLOCKS) == set(), "say in tests/support/doc_table.py how the block is tested"
    assert set(BLOCKS) - set(ALL) == set(), "these blocks do not exist any more"


@pytest.mark.parametrize("key", BLOCKS)
def test_a_treatment_fits_its_block(key: str) -> None:
    match BLOCKS[key]:
        case Run():
            assert ALL[key].is_shell
        case Apply() | Merge() | Values() | BridgeConfig():
            assert ALL[key].language == "yaml"
        case CoveredBy(test):
            assert is_test(test)
        case Shown(why):
            assert len(why.split()) > 3


def is_test(citation: str) -> bool:
    path, _, name = citation.partition("::")
    tree = ast.parse((ROOT / path).read_text()) if (ROOT / path).is_file() else ast.Module([], [])
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name for node in tree.body)


def test_what_is_run_has_an_order() -> None:
    assert sorted(ORDER) == sorted(key for key, treatment in BLOCKS.items() if isinstance(treatment, Run))


# --- commands


def parse(arguments: list[str], complete: bool = True) -> None:
    """Parse a command line of slinky without running it; `complete` also asks for every required argument."""
    words = list(arguments)
    command, name = SlinkyGroup.load(words.pop(0)), arguments[0]
    assert name in SlinkyGroup.table, name
    while hasattr(command, "commands") and words:
        command = command.commands[words.pop(0)]
    context = command.context_class(command, info_name=name, **command.context_settings)
    if isinstance(command, CompatFlags) and "--help" not in words:
        command.parse_args(context, words)  # the flags of slurm-operator, too
        return
    given, rest, _ = command.make_parser(context).parse_args(words)
    assert not rest or context.allow_extra_args or context.ignore_unknown_options, rest
    if complete:
        missing = [
            parameter.name for parameter in command.params if parameter.required and not given.get(parameter.name)
        ]
        assert missing == []


@pytest.mark.parametrize("block", SHELL, ids=lambda block: block.key)
def test_commands_of_slinky_exist(block: Block) -> None:
    for arguments in slinky_commands(block.commands()):
        parse(arguments)


@pytest.mark.parametrize(("page", "arguments"), inline_commands(), ids=str)
def test_commands_that_prose_names_exist(page: str, arguments: list[str]) -> None:
    parse(arguments, complete=False)


@pytest.mark.parametrize(
    "arguments",
    [["lab", "up", "--node", "3"], ["explainn"], ["lab", "uo"], ["queue", "--nothing"], ["lab", "restart", "x"]],
)
def test_a_wrong_command_is_found(arguments: list[str]) -> None:
    with pytest.raises(Exception):  # noqa: B017 - a missing key, or an error of the parser
        parse(arguments)


@pytest.mark.parametrize("block", SHELL, ids=lambda block: block.key)
def test_targets_and_files_exist(block: Block) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in TARGETS.findall(block.commands()):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for path in FILES.findall(block.commands()):
        assert (ROOT / path).exists(), path


# --- manifests


@pytest.mark.parametrize("block", [b for b in ALL.values() if not b.is_shell], ids=lambda block: block.key)
def test_yaml_is_well_formed(block: Block) -> None:
    assert list(yaml.safe_load_all(block.text))


@pytest.mark.parametrize("key", [key for key, treatment in BLOCKS.items() if isinstance(treatment, BridgeConfig)])
def test_the_bridge_accepts_its_configuration(key: str) -> None:
    _, unknown = config.parse(ALL[key].text)
    assert unknown == ()


# --- the collector


def test_blocks_have_keys_by_page_and_heading() -> None:
    session, settings = "```\n$ slinky queue\nJOBID\n```\n", "```\nslurm.conf\n```\n"
    text = f"# A page\n```sh\nmake test\n```\n## One, two\n{session}```yaml\na: 1\n```\n{settings}"
    found = list(page_blocks("docs/x.md", text))
    assert [block.key for block in found] == ["docs/x.md#a-page", "docs/x.md#one-two", "docs/x.md#one-two:2"]
    assert [block.commands() for block in found[:2]] == ["make test", "slinky queue"]


def test_commands_are_found_inside_shell() -> None:
    text = "export A=$(slinky lab kubeconfig --path)\n.venv/bin/slinky lab up --nodes 3 && slinky lab down # gone\n"
    assert slinky_commands(text) == [["lab", "kubeconfig", "--path"], ["lab", "up", "--nodes", "3"], ["lab", "down"]]
