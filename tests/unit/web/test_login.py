# SPDX-License-Identifier: Apache-2.0
"""Who a request comes from; a forged header is refused."""

import pytest

from slinky.web.login import LoginRefused, LoginRules, slurm_user
from slinky.web.settings import WebSettings, find_problem
from slinky.web.visibility import Viewer

PROXIED = LoginRules.of(
    WebSettings(proxy_addresses=("10.1.2.3", "fd00::/64"), operators=("root@site",), operator_groups=("hpc-admins",),
                user_suffix="@site")
)  # fmt: skip


@pytest.mark.parametrize(
    ("peer", "headers", "expected"),
    [
        ("10.1.2.3", {"X-Forwarded-User": "alice@site"}, Viewer("alice")),
        ("::ffff:10.1.2.3", {"X-Forwarded-User": "alice@site"}, Viewer("alice")),
        ("fd00::9", {"X-Forwarded-User": "alice@site", "X-Forwarded-Groups": "a, hpc-admins"}, Viewer("alice", True)),
        ("10.1.2.3", {"X-Forwarded-User": "root@site"}, Viewer("root@site", True)),
        ("10.1.2.3", {}, None),
        ("10.9.9.9", {}, None),
        ("10.9.9.9", {"X-Forwarded-User": "alice@site"}, 403),
        ("", {"X-Forwarded-User": "alice@site"}, 403),
        ("10.1.2.3", {"X-Forwarded-User": "alice@other"}, 403),
        ("10.1.2.3", {"X-Forwarded-User": "slurm@site"}, 403),
        ("10.1.2.3", {"X-Forwarded-User": "<b>@site"}, 403),
    ],
)
def test_a_user_header_counts_only_from_a_proxy(
    peer: str, headers: dict[str, str], expected: Viewer | int | None
) -> None:
    if isinstance(expected, int):
        with pytest.raises(LoginRefused) as refusal:
            PROXIED.viewer_of_headers(peer, headers)
        assert refusal.value.status == expected
    else:
        assert PROXIED.viewer_of_headers(peer, headers) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("oidc:alice", "alice"), ("alice", ""), ("oidc:", ""), ("oidc:root", ""), ("oidc:slurm", ""),
        ("oidc:a b", ""), ("oidc:alice\n", ""), ("system:serviceaccount:x:y", ""), ("oidc:" + "a" * 65, ""),
    ],
)  # fmt: skip
def test_a_name_is_mapped_to_a_slurm_user(name: str, expected: str) -> None:
    assert slurm_user(name, "oidc:", "") == expected


@pytest.mark.parametrize("host", ["localhost:8082", "127.0.0.1:1", "[::1]:9", "127.0.0.1"])
def test_without_a_login_the_loopback_is_an_operator(host: str) -> None:
    rules = LoginRules.of(WebSettings(insecure_loopback=True))
    viewer = rules.viewer_of_headers("127.0.0.1", {"Host": host})
    assert viewer is not None
    assert viewer.operator


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8082", "", "127.0.0.1.evil.example:80"])
def test_a_foreign_name_that_resolves_to_loopback_is_refused(host: str) -> None:
    with pytest.raises(LoginRefused):
        LoginRules.of(WebSettings(insecure_loopback=True)).viewer_of_headers("127.0.0.1", {"Host": host})


@pytest.mark.parametrize(
    ("settings", "host", "problem"),
    [
        (WebSettings(), "127.0.0.1", "no login is possible"),
        (WebSettings(insecure_loopback=True), "192.0.2.1", "needs an address of the loopback"),
        (WebSettings(insecure_loopback=True), "10.0.0.1", "needs an address of the loopback"),
        (WebSettings(proxy_addresses=("10.0.0.0/33",)), "192.0.2.1", "--proxy-addresses"),
        (WebSettings(insecure_loopback=True), "::1", ""),
        (WebSettings(token_review=True), "192.0.2.1", ""),
    ],
)
def test_settings_that_cannot_be_used_are_named(settings: WebSettings, host: str, problem: str) -> None:
    found = find_problem(settings, host)
    assert problem in found
    assert bool(found) == bool(problem)
