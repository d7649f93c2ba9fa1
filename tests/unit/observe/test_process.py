# SPDX-License-Identifier: Apache-2.0
"""The addresses that processes listen on."""

import pytest

from slinky.observe.process import parse_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        (":0", ("0.0.0.0", 0)),  # noqa: S104
        ("[::1]:65535", ("::1", 65535)),
        ("host.example:443", ("host.example", 443)),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize(
    "text", ["", "8080", "host", "host:", "host:-1", "host:65536", "host:٣", "host:²", ":" + "1" * 9999]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not HOST:PORT or :PORT"):
        parse_address(text)
