# SPDX-License-Identifier: Apache-2.0
"""Who sends a request: decided from the peer's address and the headers alone. Pure.

A user header counts only if it comes from the address of a trusted proxy; from any other address the request is
refused, so that a forged header is noticed and never falls back to something else. A name of Kubernetes or of a proxy
becomes the Slurm user between the configured prefix and suffix.
"""

import ipaddress
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from slinky.web.settings import Networks, WebSettings, is_loopback, parse_networks
from slinky.web.visibility import Viewer

#: Slurm users that a name is never mapped to: they would see everything.
RESERVED = frozenset({"root", "slurm"})
_SLURM_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]{0,63}\Z")


@dataclass(frozen=True)
class LoginRefused(Exception):  # noqa: N818 -- an answer, not a failure
    """A request without a known user: the HTTP status and a sentence for a person."""

    status: int
    why: str


@dataclass(frozen=True)
class LoginRules:
    """The settings of logins, parsed once."""

    settings: WebSettings
    proxies: Networks

    @classmethod
    def of(cls, settings: WebSettings) -> "LoginRules":
        """The rules of these settings."""
        return cls(settings, parse_networks(settings.proxy_addresses))

    def viewer_of_headers(self, peer: str, headers: Mapping[str, str]) -> Viewer | None:
        """The viewer that needs no token; None if a token must decide. Raises `LoginRefused`."""
        settings = self.settings
        if settings.insecure_loopback:
            return _local_viewer(headers.get("Host", ""))
        name = headers.get(settings.proxy_user_header, "")
        if not name:
            return None
        if not self.is_proxy(peer):
            raise LoginRefused(403, f"the header {settings.proxy_user_header} is accepted from trusted proxies only")
        groups = [part.strip() for part in headers.get(settings.proxy_groups_header, "").split(",")]
        return self.viewer_of_name(name, groups)

    def viewer_of_name(self, name: str, groups: Collection[str]) -> Viewer:
        """The viewer with the name that Kubernetes or a proxy vouches for. Raises `LoginRefused`."""
        settings = self.settings
        operator = name in settings.operators or bool(set(groups) & set(settings.operator_groups))
        user = slurm_user(name, settings.user_prefix, settings.user_suffix)
        if not user and not operator:
            raise LoginRefused(403, f"the user {name[:100]!r} is not a user of Slurm")
        return Viewer(user or name[:100], operator)

    def is_proxy(self, peer: str) -> bool:
        """Whether the peer of a connection is a trusted proxy."""
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None) or address
        return any(mapped in network for network in self.proxies)


def slurm_user(name: str, prefix: str, suffix: str) -> str:
    """The Slurm user of a name; empty if the name has another form, or maps to a user that sees everything."""
    if not (name.startswith(prefix) and name.endswith(suffix) and len(name) > len(prefix) + len(suffix)):
        return ""
    user = name[len(prefix) : len(name) - len(suffix)]
    return user if _SLURM_USER.match(user) and user not in RESERVED else ""


def _local_viewer(host_header: str) -> Viewer:
    """Everyone on this machine is an operator. A page of a foreign site whose name resolves to loopback is refused."""
    host = host_header.rpartition(":")[0] if re.search(r":\d+\Z", host_header) else host_header
    if not is_loopback(host):
        raise LoginRefused(403, "without a login the page answers only to the name localhost")
    return Viewer("", operator=True)
