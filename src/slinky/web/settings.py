# SPDX-License-Identifier: Apache-2.0
"""Settings of the page; `slinky web` has one flag per field."""

import ipaddress
import re
from typing import Annotated

import msgspec
from msgspec import Meta


class WebSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that an administrator can change."""

    web_addr: Annotated[str, Meta(min_length=1, description="Address of the page, as HOST:PORT.")] = "127.0.0.1:8082"
    insecure_loopback: Annotated[
        bool,
        Meta(description="Ask for no login and show everything. Only for an address of the loopback interface."),
    ] = False
    token_review: Annotated[
        bool, Meta(description="Accept tokens of Kubernetes, which the API server reviews, to log in.")
    ] = False
    proxy_addresses: Annotated[
        tuple[str, ...],
        Meta(description="Addresses or networks of proxies whose user header is trusted."),
    ] = ()
    proxy_user_header: Annotated[
        str, Meta(min_length=1, description="Header in which a trusted proxy names the user.")
    ] = "X-Forwarded-User"
    proxy_groups_header: Annotated[
        str, Meta(min_length=1, description="Header in which a trusted proxy names the groups of the user.")
    ] = "X-Forwarded-Groups"
    user_prefix: Annotated[
        str, Meta(description="Text before the Slurm user in names of users; other names are refused.")
    ] = ""
    user_suffix: Annotated[
        str, Meta(description="Text after the Slurm user in names of users; other names are refused.")
    ] = ""
    operators: Annotated[tuple[str, ...], Meta(description="Users that see everything, by their full names.")] = ()
    operator_groups: Annotated[tuple[str, ...], Meta(description="Groups whose users see everything.")] = ()
    nodesets: Annotated[
        str,
        Meta(description="Controller whose NodeSets the page shows, as NAMESPACE/NAME; no NodeSets if empty."),
    ] = ""
    web_certificates: Annotated[
        str, Meta(description="Folder with tls.crt and tls.key, to serve the page over TLS; plain HTTP if empty.")
    ] = ""


_CONTROLLER = re.compile(r"[a-z0-9][a-z0-9.-]*/[a-z0-9][a-z0-9.-]*")
Networks = tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]


def parse_networks(texts: tuple[str, ...]) -> Networks:
    """Addresses and networks. Raises `ValueError` for a text that is neither."""
    return tuple(ipaddress.ip_network(text, strict=False) for text in texts)


def is_loopback(host: str) -> bool:
    """Whether a host of an address is the loopback interface."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def find_problem(settings: WebSettings, host: str) -> str:
    """Why these settings cannot be used; empty if they can."""
    try:
        parse_networks(settings.proxy_addresses)
    except ValueError as error:
        return f"--proxy-addresses: {error}"
    if settings.nodesets and not _CONTROLLER.fullmatch(settings.nodesets):
        return f"--nodesets: {settings.nodesets!r} is not of the form NAMESPACE/NAME, such as slurm/slurm"
    if settings.insecure_loopback and not is_loopback(host):
        return f"--insecure-loopback needs an address of the loopback interface, and {host!r} is not one"
    if not (settings.insecure_loopback or settings.token_review or settings.proxy_addresses):
        return "no login is possible: set --token-review, --proxy-addresses, or --insecure-loopback"
    return ""
