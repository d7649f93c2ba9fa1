# SPDX-License-Identifier: Apache-2.0
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.web.sample_pages import StrictReader

from slinky.web.markup import Html, document, join, tag


def test_text_is_escaped_and_markup_is_not() -> None:
    assert tag("p", "<b>", tag("i", "&")) == "<p>&lt;b&gt;<i>&amp;</i></p>"


def test_attributes_are_escaped_and_named_as_in_html() -> None:
    assert tag("a", href='"><x>', class_="k", aria_label="'") == (
        '<a href="&quot;&gt;&lt;x&gt;" class="k" aria-label="&#x27;"></a>'
    )


def test_absent_values_are_left_out() -> None:
    assert tag("input", disabled=False, required=True, value=None, maxlength=0) == '<input required maxlength="0">'
    assert join("a", None, 3, ["b", (tag("br"),)]) == "a3b<br>"


@given(st.text(), st.text())
def test_no_text_adds_an_element_or_an_attribute(content: str, value: str) -> None:
    page = document(tag("head"), tag("body", tag("p", content, title=value)))
    reader = StrictReader(page)
    assert [name for name, _ in reader.elements] == ["html", "head", "body", "p"]
    assert list(reader.elements[3][1]) == ["title"]


def test_joined_text_is_html() -> None:
    assert isinstance(join("a"), Html)
