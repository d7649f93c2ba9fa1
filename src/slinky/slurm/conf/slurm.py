# SPDX-License-Identifier: Apache-2.0
"""slurm.conf from a typed model.

The model holds what a program decides (names, hosts, ports, authentication, accounting, hooks, nodes,
partitions); a site's own text comes as `extra`, is parsed, and options that both sides set are merged.
`problems` finds what would stop slurmctld or surprise a person before the file is rolled out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from slinky.slurm.conf.text import (
    ConfError,
    Line,
    Setting,
    build_line,
    checked_name,
    checked_value,
    parse,
    parse_fragment,
    render,
)
from slinky.slurm.hostlist import HostlistError, expand
from slinky.slurm.model.values import Value

Options = tuple[str, ...]

#: Settings that hold a list of options, which a site may extend but not replace.
MERGED_SETTINGS = ("SlurmctldParameters", "AuthInfo", "AuthAltParameters")
#: Slurm's own limit; also part of file names and of database tables.
LONGEST_CLUSTER_NAME = 40

_CLUSTER = re.compile(r"[a-z0-9][a-z0-9_-]*\Z")


class SlurmctldHost(Value, frozen=True, gc=False):
    """A slurmctld host, with the address under which others reach it."""

    name: str
    address: str | None = None

    def text(self) -> str:
        """As SlurmctldHost wants it."""
        name = checked_name(self.name, "controller")
        return f"{name}({checked_name(self.address, 'address')})" if self.address else name


class NodeLine(Value, frozen=True, gc=False):
    """Nodes that are fixed in the file."""

    names: str
    settings: tuple[tuple[str, str | int], ...] = ()

    def line(self) -> Line:
        """The line of the file."""
        return build_line(("NodeName", _hosts(self.names)), *self.settings)


class NodeSetLine(Value, frozen=True, gc=False):
    """A name for all nodes with a feature, or for these nodes."""

    name: str
    feature: str | None = None
    nodes: str | None = None

    def line(self) -> Line:
        """The line of the file."""
        if (self.feature is None) == (self.nodes is None):
            raise ConfError(f"node set {self.name} needs a feature or nodes, not both")
        feature = None if self.feature is None else checked_name(self.feature, "feature")
        nodes = None if self.nodes is None else _hosts(self.nodes)
        return build_line(("NodeSet", checked_name(self.name, "node set")), ("Feature", feature), ("Nodes", nodes))


class PartitionLine(Value, frozen=True, gc=False):
    """A partition over nodes or node sets; `settings` is a person's own part of the line."""

    name: str
    nodes: str
    settings: str = ""

    def line(self) -> Line:
        """The line of the file."""
        head = build_line(("PartitionName", checked_name(self.name, "partition")), ("Nodes", _hosts(self.nodes)))
        return head + parse_fragment(self.settings, refuse=("PartitionName", "Nodes"))


class SlurmConf(Value, frozen=True, gc=False):
    """What a program decides about slurm.conf."""

    cluster_name: str
    controllers: tuple[SlurmctldHost, ...]
    slurmctld_port: int = 6817
    slurmctld_address: str | None = None
    slurmd_port: int = 6818
    slurm_user: str = "slurm"
    slurmd_user: str = "root"
    state_save_location: str | None = None
    slurmd_spool_dir: str | None = None
    max_node_count: int | None = None
    slurmctld_log: str | None = None
    sched_log: str | None = None
    slurmd_log: str | None = None
    auth_type: str = "auth/slurm"
    cred_type: str | None = "cred/slurm"
    auth_alt_types: str | None = "auth/jwt"
    auth_alt_parameters: Options = ()
    auth_info: Options = ("use_client_ids",)
    slurmctld_parameters: Options = ()
    metrics: bool = False
    accounting_host: str | None = None
    accounting_port: int = 6819
    prolog_slurmctld: tuple[str, ...] = ()
    epilog_slurmctld: tuple[str, ...] = ()
    prolog: tuple[str, ...] = ()
    epilog: tuple[str, ...] = ()
    nodes: tuple[NodeLine, ...] = ()
    node_sets: tuple[NodeSetLine, ...] = ()
    partitions: tuple[PartitionLine, ...] = ()
    #: Further settings, each on a line of its own.
    settings: tuple[tuple[str, str | int], ...] = ()
    #: A site's own text, kept as lines.
    extra: str = ""

    def text(self) -> str:
        """The file. Raises `ConfError` for a value that must not be in it."""
        return render(self._lines())

    def _lines(self) -> Iterator[Line | str]:
        yield "GENERAL"
        yield from _each(self._general())
        yield "LOGGING"
        yield from _each(self._logging())
        yield "PLUGINS & PARAMETERS"
        yield from _each(self._plugins())
        yield "ACCOUNTING"
        yield from _each(self._accounting())
        yield "PROLOG & EPILOG"
        yield from _each(self._hooks())
        yield from _each(self.settings)
        yield "NODES & PARTITIONS"
        yield from (item.line() for item in self.nodes)
        yield from (item.line() for item in self.node_sets)
        yield from (item.line() for item in self.partitions)
        theirs = parse(self.extra)
        yield "EXTRA CONFIG"
        yield from theirs
        yield "MERGED CONFIG"
        yield from self._merged(theirs)

    def _general(self) -> Iterator[tuple[str, str | int | None]]:
        yield "ClusterName", checked_cluster_name(self.cluster_name)
        yield "SlurmUser", checked_name(self.slurm_user)
        if not self.controllers:
            raise ConfError("a cluster needs a controller")
        yield from (("SlurmctldHost", controller.text()) for controller in self.controllers)
        yield "SlurmctldPort", self.slurmctld_port
        yield "SlurmctldAddr", self.slurmctld_address and checked_name(self.slurmctld_address)
        yield "StateSaveLocation", self.state_save_location
        yield "SlurmdUser", checked_name(self.slurmd_user)
        yield "SlurmdPort", self.slurmd_port
        yield "SlurmdSpoolDir", self.slurmd_spool_dir
        yield "MaxNodeCount", self.max_node_count

    def _logging(self) -> Iterator[tuple[str, str | int | None]]:
        yield "SlurmctldLogFile", self.slurmctld_log
        yield "SlurmSchedLogFile", self.sched_log
        yield "SlurmdLogFile", self.slurmd_log

    def _plugins(self) -> Iterator[tuple[str, str | int | None]]:
        yield "AuthType", self.auth_type
        yield "CredType", self.cred_type
        yield "AuthAltTypes", self.auth_alt_types
        yield "AuthAltParameters", ",".join(self.auth_alt_parameters) or None
        yield "AuthInfo", ",".join(self.auth_info) or None
        yield "SlurmctldParameters", ",".join(self.slurmctld_parameters) or None
        yield "MetricsType", "metrics/openmetrics" if self.metrics else None

    def _accounting(self) -> Iterator[tuple[str, str | int | None]]:
        if self.accounting_host is None:
            yield "AccountingStorageType", "accounting_storage/none"
        else:
            yield "AccountingStorageType", "accounting_storage/slurmdbd"
            yield "AccountingStorageHost", checked_name(self.accounting_host)
            yield "AccountingStoragePort", self.accounting_port

    def _hooks(self) -> Iterator[tuple[str, str | int | None]]:
        hooks = {
            "PrologSlurmctld": self.prolog_slurmctld,
            "EpilogSlurmctld": self.epilog_slurmctld,
            "Prolog": self.prolog,
            "Epilog": self.epilog,
        }
        for key, scripts in hooks.items():
            yield from ((key, checked_name(script, key)) for script in sorted(scripts))

    def _merged(self, theirs: Iterable[Line]) -> Iterator[Line]:
        """For options that a site's text also sets: one more line with both, so that neither side loses."""
        ours = dict(self._plugins())
        for key in MERGED_SETTINGS:
            said = [setting.value for item in theirs for setting in item if setting.is_(key)]
            if said:
                yield build_line((key, merge_options(str(ours.get(key) or ""), ",".join(said))))


def checked_cluster_name(text: str) -> str:
    """A cluster name that Slurm and its database accept."""
    if not _CLUSTER.match(text) or len(text) > LONGEST_CLUSTER_NAME:
        raise ConfError(f"{text[:60]!r} is not a cluster name: lower case, digits, - and _, at most 40")
    return text


def merge_options(ours: str, theirs: str) -> str:
    """Two comma-separated option lists as one, sorted; where both name an option, ours stands."""
    options: dict[str, str] = {}
    for text in (theirs, ours):
        for option in filter(None, (part.strip() for part in text.split(","))):
            options[option.partition("=")[0].lower()] = option
    return ",".join(options[name] for name in sorted(options))


def find_problems(text: str) -> list[str]:
    """What is wrong with a slurm.conf as a whole, in words for a person; empty when nothing was found."""
    try:
        lines = parse(text)
    except ConfError as error:
        return [str(error)]
    found = [
        f"{kind} {name} is defined {count} times"
        for kind in ("NodeName", "PartitionName", "NodeSet")
        for name, count in sorted(_names(lines, kind).items())
        if count > 1
    ]
    keys = {setting.key.lower() for item in lines for setting in item}
    found += [f"{key} is missing" for key in ("ClusterName", "SlurmctldHost") if key.lower() not in keys]
    return found


def _names(lines: Iterable[Line], kind: str) -> Counter[str]:
    names: Counter[str] = Counter()
    for item in lines:
        if item[0].is_(kind) and item[0].value.upper() != "DEFAULT":
            names.update(_expanded(item[0]))
    return names


def _expanded(setting: Setting) -> list[str]:
    try:
        return expand(setting.value)
    except HostlistError:
        return [setting.value]


def _hosts(text: str) -> str:
    """A hostlist, or ALL, or the name of a node set."""
    try:
        names = expand(checked_value(text, "nodes"))
    except HostlistError as error:
        raise ConfError(str(error)) from error
    for name in names:
        checked_name(name, "node")
    return text


def _each(settings: Iterable[tuple[str, str | int | None]]) -> Iterator[Line]:
    return (build_line((key, text)) for key, text in settings if text is not None)
