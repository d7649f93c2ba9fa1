# SPDX-License-Identifier: Apache-2.0
"""What stands beside slurm.conf: files and scripts from ConfigMaps that a Controller refers to. Pure.

Texts are copied into the ConfigMap that the operator keeps, so that a configuration can be tried and taken back whole.
What does not fit there (bytes, or more than `ROOM`) is mounted from where it is.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from slinky.api.controller import Controller
from slinky.api.fields.refs import LocalRef
from slinky.api.names import wellknown
from slinky.kube.errors import Blocked
from slinky.kube.views import ConfigMap
from slinky.operator.build.pod_parts import Piece, config_source

#: Bytes of a site's texts that are copied; an object of Kubernetes ends at 1 MiB.
ROOM = 700_000


class Files(NamedTuple):
    """Names of files by what they are for, their texts, and what is mounted from elsewhere."""

    config: tuple[str, ...] = ()
    prolog: tuple[str, ...] = ()
    epilog: tuple[str, ...] = ()
    prolog_slurmctld: tuple[str, ...] = ()
    epilog_slurmctld: tuple[str, ...] = ()
    contents: Mapping[str, str] = {}
    copied: Mapping[str, str] = {}
    elsewhere: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def sources(self) -> Iterable[Piece]:
        """For a projected volume: what our own ConfigMap does not hold."""
        return (config_source(name, *keys) for name, keys in self.elsewhere)


#: Which field of a Controller names the ConfigMaps of which files.
REFERENCES: Mapping[str, Callable[[Controller], tuple[LocalRef, ...]]] = {
    "config": lambda of: of.spec.config_file_refs,
    "prolog": lambda of: of.spec.prolog_script_refs,
    "epilog": lambda of: of.spec.epilog_script_refs,
    "prolog_slurmctld": lambda of: of.spec.prolog_slurmctld_script_refs,
    "epilog_slurmctld": lambda of: of.spec.epilog_slurmctld_script_refs,
}


def referenced(of: Controller) -> tuple[str, ...]:
    """Names of all ConfigMaps whose keys become files, sorted."""
    return tuple(sorted({ref.name for refs in REFERENCES.values() for ref in refs(of)}))


def files(of: Controller, maps: Mapping[str, ConfigMap]) -> Files:
    """The files of a Controller. Raises `Blocked` for one that only the operator may write."""
    names = {kind: _keys(maps, refs(of)) for kind, refs in REFERENCES.items()}
    for name in sorted(wellknown.OWN_FILES & {name for found in names.values() for name in found}):
        raise Blocked("ForbiddenFile", f"{name} is written by the operator; use extraConf instead")
    used = referenced(of)
    contents = {
        f"{name}/{key}": value for name in used for key, value in (maps[name].data | maps[name].binary_data).items()
    }
    texts = {key: value for name in used for key, value in maps[name].data.items()}
    if sum(len(value.encode()) for value in texts.values()) > ROOM:
        return Files(**names, contents=contents, copied={}, elsewhere=tuple((name, ()) for name in used))
    bytes_ = tuple((name, tuple(sorted(maps[name].binary_data))) for name in used if maps[name].binary_data)
    return Files(**names, contents=contents, copied=texts, elsewhere=bytes_)


def _keys(maps: Mapping[str, ConfigMap], refs: Iterable[LocalRef]) -> tuple[str, ...]:
    return tuple(sorted({key for ref in refs for key in (*maps[ref.name].data, *maps[ref.name].binary_data)}))
