# SPDX-License-Identifier: Apache-2.0
"""The documentation site shows every page, and its check finds what is wrong with a built site."""

import itertools
from pathlib import Path
from xml.etree import ElementTree

import pytest
from docs.site import check, commands, pictures, stage, troubleshooting

from slinky.bridge.status.job_ends import ENDS
from slinky.bridge.status.reasons import Reason
from slinky.insight.pending_reasons import REASONS
from slinky.operator.framework.failure_causes import FailureCause

PAGES = frozenset({"docs/lab.md", "docs/bridge/index.md", "docs/reference/README.md", "examples/bridge/index.md"})


def test_every_page_is_in_the_navigation_once() -> None:
    listed = stage.pages_in_navigation()
    assert set(stage.repository_pages()) - set(listed) == set(), "add the page to `nav` in docs/site/zensical.toml"
    assert sorted(set(listed)) == sorted(listed)


def test_every_entry_of_the_navigation_is_a_page() -> None:
    examples = {f"{folder}/index.md" for folder in stage.example_folders()}
    assert [
        page for page in stage.pages_in_navigation() if page not in examples and not (stage.ROOT / page).is_file()
    ] == []
    assert examples <= set(stage.pages_in_navigation())


@pytest.mark.parametrize(
    ("page", "text", "expected"),
    [
        ("docs/bridge/nodes.md", "[lab](../lab.md#size)", "[lab](../lab.md#size)"),
        ("docs/bridge/nodes.md", "[kinds](../reference)", "[kinds](../reference/README.md)"),
        ("README.md", "[bridge](docs/bridge)", "[bridge](docs/bridge/index.md)"),
        ("docs/lab.md", "[a pod](../examples/bridge/pod.yaml)", "[a pod](../examples/bridge/index.md#podyaml)"),
        ("docs/lab.md", "[images](../images/slurmd)", "images (`images/slurmd`)"),
        ("README.md", "[LICENSE](LICENSE)", "LICENSE"),
        ("README.md", "[missing](docs/none.md)", "[missing](docs/none.md)"),
        ("README.md", "[heading](#here) [web](https://example.org/a)", "[heading](#here) [web](https://example.org/a)"),
        ("README.md", "```\n[lab](../none)\n```", "```\n[lab](../none)\n```"),
    ],
)
def test_links_lead_to_pages_of_the_site(page: str, text: str, expected: str) -> None:
    assert stage.rewrite_links(page, text, PAGES) == expected


def test_the_page_of_a_folder_shows_its_examples() -> None:
    page = stage.example_page("examples/bridge")
    assert "## pod.yaml\n\n```yaml\n" + (stage.ROOT / "examples/bridge/pod.yaml").read_text().rstrip("\n") in page


def test_the_stage_has_every_page_and_picture(tmp_path: Path) -> None:
    pages = stage.write_stage(tmp_path)
    assert set(pages) >= set(stage.pages_in_navigation())
    assert all((tmp_path / page).is_file() for page in pages)


SOUND = """<head><link rel="stylesheet" href="a/style.css"><link rel="canonical" href="https://example.org/"></head>
<h2 id="here">x</h2><a href="#here">x</a><a href="b.html#there">x</a><a href="a/">x</a><a href="https://example.org">x</a>"""


def write_site(folder: Path, text: str) -> Path:
    (folder / "a").mkdir()
    (folder / "index.html").write_text(text)
    (folder / "b.html").write_text('<h2 id="there">x</h2>')
    (folder / "a" / "index.html").write_text("")
    (folder / "a" / "style.css").write_text("@font-face {src: url(data:font/woff2;base64,AA)}")
    return folder


def test_a_sound_site_has_no_problem(tmp_path: Path) -> None:
    assert check.problems(write_site(tmp_path, SOUND)) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('<script src="https://cdn.example/x.js"></script>', "loads https://cdn.example/x.js from another host"),
        ('<link rel="stylesheet" href="//fonts.example/x.css">', "loads //fonts.example/x.css from another host"),
        ('<img src="http://example.org/x.png">', "loads http://example.org/x.png from another host"),
        ('<img src="none.png">', "links to none.png, which is not on the site"),
        ('<a href="none.html">x</a>', "links to none.html, which is not on the site"),
        ('<a href="../../etc">x</a>', "links to ../../etc, which is not on the site"),
        ('<a href="b.html#none">x</a>', "links to b.html#none, but that page has no such heading"),
        ('<a href="#none">x</a>', "links to #none, but that page has no such heading"),
        ('<pre class="mermaid">x</pre>', "the class mermaid makes the theme load a library from another host"),
    ],
)
def test_a_problem_is_found(tmp_path: Path, text: str, problem: str) -> None:
    assert check.problems(write_site(tmp_path, text)) == [f"index.html: {problem}"]


def test_a_style_sheet_that_loads_a_remote_font_is_found(tmp_path: Path) -> None:
    site = write_site(tmp_path, SOUND)
    (site / "a" / "style.css").write_text("@import 'https://fonts.example/inter.css';")
    assert check.problems(site) == ["a/style.css: loads https://fonts.example/inter.css"]


# --- troubleshooting


def test_the_page_of_symptoms_is_current() -> None:
    page = (stage.ROOT / "docs/troubleshooting.md").read_text()
    assert page == troubleshooting.render_page(page), "run `make generate`"


def test_every_reason_has_a_symptom() -> None:
    text = troubleshooting.render_symptoms()
    tokens = {reason.value.token for reason in Reason if reason.value.status is not True}
    tokens |= {end.reason for end in ENDS.values()} | {cause.reason for cause in FailureCause}
    tokens |= {token for token, reason in REASONS.items() if reason.remedy in troubleshooting.REMEDIES}
    assert {token for token in tokens if f"`{token}`" not in text} == set()


# --- the command line


def test_the_page_of_commands_is_current() -> None:
    assert (stage.ROOT / "docs/tools/commands.md").read_text() == commands.render_page(), "run `make generate`"


def test_every_command_and_option_has_a_description() -> None:
    for name, command in commands.commands():
        assert command.help, name
        assert [parameter.name for parameter in command.params if not getattr(parameter, "help", "")] == [], name


# --- pictures


@pytest.mark.parametrize("name", pictures.pictures())
def test_a_picture_is_current_and_well_formed(name: str) -> None:
    text = (stage.ROOT / "docs/pictures" / name).read_text()
    assert text == pictures.pictures()[name], "run `make generate`"
    assert ElementTree.fromstring(text).tag.endswith("svg")  # noqa: S314 - our own file


def test_the_boxes_of_the_architecture_do_not_overlap() -> None:
    boxes = list(pictures.PARTS.values())
    for one, other in itertools.combinations(boxes, 2):
        apart = one.x + one.width <= other.x or other.x + other.width <= one.x
        assert apart or one.y + one.height <= other.y or other.y + other.height <= one.y, (one.name, other.name)
