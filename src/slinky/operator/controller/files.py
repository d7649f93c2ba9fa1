# SPDX-License-Identifier: Apache-2.0
"""What stands beside slurm.conf: files and scripts from ConfigMaps that a Controller refers to. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from slinky.api import wellknown
from slinky.api.controller import Controller
from slinky.api.refs import LocalRef
from slinky.kube.errors import Blocked
from slinky.kube.views import ConfigMap


class Files(NamedTuple):
    """Names of files by what they are for, and a digest of everything in them."""

    config: tuple[str, ...] = ()
    prolog: tuple[str, ...] = ()
    epilog: tuple[str, ...] = ()
    prolog_slurmctld: tuple[str, ...] = ()
    epilog_slurmctld: tuple[str, ...] = ()
    contents: Mapping[str, str] = {}


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
    for name in names["config"]:
        if name in wellknown.OWN_FILES:
            raise Blocked("ForbiddenFile", f"{name} is written by the operator; use extraConf instead")
    contents = {f"{name}/{key}": value for name in referenced(of) for key, value in maps[name].data.items()}
    return Files(**names, contents=contents)


def _keys(maps: Mapping[str, ConfigMap], refs: Iterable[LocalRef]) -> tuple[str, ...]:
    return tuple(sorted({key for ref in refs for key in (*maps[ref.name].data, *maps[ref.name].binary_data)}))
