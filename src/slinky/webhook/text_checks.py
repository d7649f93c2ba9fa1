# SPDX-License-Identifier: Apache-2.0
"""Text that people write and Slurm, a shell or a DNS server reads: nothing may hide in it.

Each function yields sentences, none when all is well, and starts each with the field it is about.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial

from slinky.api.fields.templates import ExternalHost
from slinky.slurm import conf
from slinky.slurm.conf import ConfError

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
SERVICE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
LONGEST_LABEL = 63
LONGEST_SUBDOMAIN = 253
#: A StatefulSet's pods carry its name and a hash of eleven characters in one label.
LONGEST_STATEFUL_SET = 52

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029]")


def conf_text(field: str, text: str) -> Iterator[str]:
    """A site's part of a configuration file: lines that Slurm can read, and no includes."""
    return _complaint(field, partial(conf.parse, text))


def conf_fragment(field: str, text: str, refuse: tuple[str, ...]) -> Iterator[str]:
    """A person's part of one line of a configuration file."""
    return _complaint(field, partial(conf.fragment, text, refuse=refuse))


def conf_word(field: str, text: str) -> Iterator[str]:
    """One word in a configuration file; empty is left to the schema."""
    return _complaint(field, partial(conf.word, text)) if text else iter(())


def node_settings(field: str, text: str) -> Iterator[str]:
    """Settings of a Slurm node: Key=Value separated by blanks, and nothing a shell could act on."""
    return _complaint(field, partial(conf.node_settings, text))


def _complaint(field: str, read: Callable[[], object]) -> Iterator[str]:
    try:
        read()
    except ConfError as error:
        yield f"{field}: {error}"


def plain_text(field: str, text: str) -> Iterator[str]:
    """Lines of text without control characters."""
    if found := _CONTROL.search(text.replace("\r\n", "\n")):
        yield f"{field}: the control character {found[0]!r} is not allowed"


def named(field: str, name: str, pattern: re.Pattern[str], longest: int, why: str) -> Iterator[str]:
    """A name that something else is called by."""
    if len(name) > longest:
        yield f"{field}: {name[:80]!r} is longer than {longest} characters, {why}"
    elif not pattern.match(name):
        yield f"{field}: {name[:80]!r} may have lower-case letters, digits and dashes only, {why}"


def outside(where: ExternalHost | None) -> Iterator[str]:
    """Where a daemon runs that is not ours: one word, since it goes into a configuration file."""
    if where is not None:
        yield from conf_word("spec.externalConfig.host", where.host)


def moved(old: bool | None, new: bool) -> Iterator[str]:
    """Warn: a daemon that was inside is removed, one that was outside is left alone."""
    if old is False and new:
        yield "spec.external: the daemon inside of Kubernetes is removed; its jobs and records do not move along"


def external_ips(field: str, service: dict[str, object]) -> Iterator[str]:
    """Warn: they would let one tenant catch another's traffic."""
    if service.get("externalIPs"):
        yield f"{field}.externalIPs are ignored (CVE-2020-8554)"
