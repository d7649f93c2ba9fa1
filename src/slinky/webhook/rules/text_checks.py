# SPDX-License-Identifier: Apache-2.0
"""Checks of names, and of text that ends up in a configuration file, a command line or a DNS name.

Text must not be able to add settings or commands. Each function yields messages that start with the field; it yields
none if the text is valid.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from slinky.slurm import conf
from slinky.slurm.conf import ConfError


class NameFormat(NamedTuple):
    """Which names Kubernetes accepts for a type of object."""

    pattern: re.Pattern[str]
    longest: int
    description: str


_DASHED = "lower-case letters, digits and dashes"
_SERVICE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")

LABEL = NameFormat(re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z"), 63, _DASHED)
SERVICE = NameFormat(_SERVICE, 63, f"{_DASHED}, the first a letter")
#: The pods of a StatefulSet have a label with its name and a hash of eleven characters.
STATEFUL_SET = NameFormat(_SERVICE, 52, f"{_DASHED}, the first a letter")
SUBDOMAIN = NameFormat(
    re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z"), 253, f"{_DASHED}, and dots"
)

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029]")


def conf_text(field: str, text: str) -> Iterator[str]:
    """Lines for a configuration file must be readable by Slurm and must not include other files."""
    return _conf_error(field, partial(conf.parse, text))


def conf_fragment(field: str, text: str, refuse: tuple[str, ...]) -> Iterator[str]:
    """Settings for one line of a configuration file must not contain line breaks or the keys in `refuse`."""
    return _conf_error(field, partial(conf.parse_fragment, text, refuse=refuse))


def conf_word(field: str, text: str) -> Iterator[str]:
    """A value for a configuration file must be a single word; the schema checks whether it may be empty."""
    return _conf_error(field, partial(conf.checked_name, text)) if text else iter(())


def node_settings(field: str, text: str) -> Iterator[str]:
    """Settings of a Slurm node must be Key=Value pairs without characters that are special to a shell."""
    return _conf_error(field, partial(conf.parse_node_settings, text))


def _conf_error(field: str, parse: Callable[[], object]) -> Iterator[str]:
    try:
        parse()
    except ConfError as error:
        yield f"{field}: {error}"


def plain_text(field: str, text: str) -> Iterator[str]:
    """Lines of text must not contain control characters."""
    if match := _CONTROL.search(text.replace("\r\n", "\n")):
        yield f"{field}: the control character {match[0]!r} is not allowed"


def valid_name(field: str, name: str, name_format: NameFormat, purpose: str) -> Iterator[str]:
    """A name must have the format that Kubernetes requires for its purpose."""
    if len(name) > name_format.longest:
        yield f"{field}: {name[:80]!r} is longer than {name_format.longest} characters, the maximum for {purpose}"
    elif not name_format.pattern.match(name):
        yield f"{field}: {name[:80]!r} is not a valid name for {purpose}; use {name_format.description}"
