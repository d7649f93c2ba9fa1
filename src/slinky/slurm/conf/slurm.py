# SPDX-License-Identifier: Apache-2.0
"""Builds slurm.conf from a typed model.

The model has the settings that a program decides: names, hosts, ports, authentication, accounting, hooks, nodes and
partitions. The administrator's own text is `extra`: it is parsed, and options that both sides set are merged.
`find_problems` finds errors of the whole file before slurmctld reads it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from slinky.slurm.conf.text import (
    ConfError,
    Line,
    build_line,
    checked_name,
    checked_value,
    parse,
    parse_fragment,
    render,
)
from slinky.slurm.hostlist import HostlistError, HostlistTooLongError, expand, expand_all
from slinky.slurm.model.values import Value

Options = tuple[str, ...]

#: Settings with a list of options, which `extra` may extend but not replace.
MERGED_SETTINGS = ("SlurmctldParameters", "AuthInfo", "AuthAltParameters")
#: Slurm's own limit; the name is also part of file names and database tables.
MAX_CLUSTER_NAME = 40

_CLUSTER = re.compile(r"[a-z0-9][a-z0-9_-]*\Z")


class SlurmctldHost(Value, frozen=True, gc=False):
    """The host of a slurmctld, with the address at which other daemons reach it."""

    name: str
    address: str | None = None

    def render(self) -> str:
        """The value of `SlurmctldHost`."""
        name = checked_name(self.name, "controller")
        return f"{name}({checked_name(self.address, 'address')})" if self.address else name


class NodeLine(Value, frozen=True, gc=False):
    """Nodes that are defined in the file."""

    names: str
    settings: tuple[tuple[str, str | int], ...] = ()

    def to_line(self) -> Line:
        """The line of the file. Raises `ConfError` for an invalid value."""
        return build_line(("NodeName", _checked_nodes(self.names)), *self.settings)


class NodeSetLine(Value, frozen=True, gc=False):
    """A name for all nodes with a feature, or for a list of nodes."""

    name: str
    feature: str | None = None
    nodes: str | None = None

    def to_line(self) -> Line:
        """The line of the file. Raises `ConfError` for an invalid value."""
        if (self.feature is None) == (self.nodes is None):
            raise ConfError(f"node set {self.name} needs a feature or nodes, not both")
        feature = None if self.feature is None else checked_name(self.feature, "feature")
        nodes = None if self.nodes is None else _checked_nodes(self.nodes)
        return build_line(("NodeSet", checked_name(self.name, "node set")), ("Feature", feature), ("Nodes", nodes))


class PartitionLine(Value, frozen=True, gc=False):
    """A partition of nodes or node sets; `settings` is the user's own part of the line."""

    name: str
    nodes: str
    settings: str = ""

    def to_line(self) -> Line:
        """The line of the file. Raises `ConfError` for an invalid value."""
        name, nodes = checked_name(self.name, "partition"), _checked_nodes(self.nodes)
        line = build_line(("PartitionName", name), ("Nodes", nodes))
        return line + parse_fragment(self.settings, refuse=("PartitionName", "Nodes"))


class SlurmConf(Value, frozen=True, gc=False):
    """The settings of slurm.conf that a program decides."""

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
    #: The administrator's own text.
    extra: str = ""

    def render(self) -> str:
        """The text of the file. Raises `ConfError` for an invalid value."""
        return render(self._lines())

    def _lines(self) -> Iterator[Line | str]:
        yield "GENERAL"
        yield from _build_lines(self._general())
        yield "LOGGING"
        yield from _build_lines(self._logging())
        yield "PLUGINS & PARAMETERS"
        yield from _build_lines(self._plugins())
        yield "ACCOUNTING"
        yield from _build_lines(self._accounting())
        yield "PROLOG & EPILOG"
        yield from _build_lines(self._hooks())
        yield from _build_lines(self.settings)
        yield "NODES & PARTITIONS"
        yield from (item.to_line() for item in self.nodes)
        yield from (item.to_line() for item in self.node_sets)
        yield from (item.to_line() for item in self.partitions)
        extra = parse(self.extra)
        yield "EXTRA CONFIG"
        yield from extra
        yield "MERGED CONFIG"
        yield from merged_lines(dict(self._plugins()), extra, MERGED_SETTINGS)

    def _general(self) -> Iterator[tuple[str, str | int | None]]:
        yield "ClusterName", checked_cluster_name(self.cluster_name)
        yield "SlurmUser", checked_name(self.slurm_user)
        if not self.controllers:
            raise ConfError("a cluster needs at least one controller")
        yield from (("SlurmctldHost", controller.render()) for controller in self.controllers)
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


def merged_lines(
    settings: Mapping[str, str | int | None], extra: Iterable[Line], keys: Iterable[str]
) -> Iterator[Line]:
    """For each key that `extra` also sets: one more line with the options of both, so that none is lost."""
    lines = tuple(extra)
    for key in keys:
        values = [setting.value for line in lines for setting in line if setting.has_key(key)]
        if values:
            yield build_line((key, merge_options(str(settings.get(key) or ""), ",".join(values))))


def checked_cluster_name(text: str) -> str:
    """A cluster name that Slurm and its database accept. Raises `ConfError` for any other."""
    if not _CLUSTER.match(text) or len(text) > MAX_CLUSTER_NAME:
        raise ConfError(
            f"{text[:60]!r} is not a cluster name: at most {MAX_CLUSTER_NAME} lower-case letters, digits, - and _"
        )
    return text


def merge_options(own: str, extra: str) -> str:
    """Two comma-separated option lists as one, sorted; an option that both contain has the value of `own`."""
    options: dict[str, str] = {}
    for text in (extra, own):
        for option in filter(None, (part.strip() for part in text.split(","))):
            options[option.partition("=")[0].lower()] = option
    return ",".join(options[name] for name in sorted(options))


def find_problems(text: str) -> list[str]:
    """The problems of a slurm.conf, as text for an administrator; empty if there are none."""
    try:
        lines = parse(text)
    except ConfError as error:
        return [str(error)]
    try:
        counts = {kind: _count_names(lines, kind) for kind in ("NodeName", "PartitionName", "NodeSet")}
    except HostlistTooLongError as error:
        return [str(error)]
    duplicates = [
        f"{kind} {name} is defined {count} times"
        for kind, names in counts.items()
        for name, count in sorted(names.items())
        if count > 1
    ]
    keys = {setting.key.lower() for line in lines for setting in line}
    missing = [f"{key} is missing" for key in ("ClusterName", "SlurmctldHost") if key.lower() not in keys]
    return duplicates + missing


def _count_names(lines: Iterable[Line], kind: str) -> Counter[str]:
    """How often each name is defined. Raises `HostlistTooLongError` if all lines together define too many."""
    defined = (first.value for first, *_ in lines if first.has_key(kind) and first.value.upper() != "DEFAULT")
    return Counter(expand_all(defined))


def _checked_nodes(text: str) -> str:
    """A hostlist, ALL, or the name of a node set. Raises `ConfError` for any other text."""
    try:
        names = expand(checked_value(text, "nodes"))
    except HostlistError as error:
        raise ConfError(str(error)) from error
    for name in names:
        checked_name(name, "node")
    return text


def _build_lines(settings: Iterable[tuple[str, str | int | None]]) -> Iterator[Line]:
    return (build_line((key, value)) for key, value in settings if value is not None)
