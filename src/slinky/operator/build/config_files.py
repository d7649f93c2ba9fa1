# SPDX-License-Identifier: Apache-2.0
"""Files and scripts beside slurm.conf, from ConfigMaps that a Controller refers to. Pure.

Texts are copied into the operator's ConfigMap, so that a configuration can be tried and rolled back as a whole. What
does not fit there (binary data, or more than `CONFIG_COPY_BYTES_MAX`) is mounted from the original ConfigMap.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from slinky.api.controller import Controller
from slinky.api.fields.refs import LocalRef
from slinky.api.names import wellknown
from slinky.bounds import CONFIG_COPY_BYTES_MAX
from slinky.kube.errors import Blocked
from slinky.kube.views import ConfigMap
from slinky.operator.build.pod_parts import JsonObject, config_source


class Files(NamedTuple):
    """Names of files by their use, their contents, and the files that are mounted from their ConfigMap."""

    config: tuple[str, ...] = ()
    prolog: tuple[str, ...] = ()
    epilog: tuple[str, ...] = ()
    prolog_slurmctld: tuple[str, ...] = ()
    epilog_slurmctld: tuple[str, ...] = ()
    contents: Mapping[str, str] = {}
    copied: Mapping[str, str] = {}
    mounted: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def sources(self) -> Iterable[JsonObject]:
        """Return sources of a projected volume for the files that are not copied."""
        return (config_source(name, *keys) for name, keys in self.mounted)


#: The references of a Controller to ConfigMaps, by the use of their files.
REFERENCES: Mapping[str, Callable[[Controller], tuple[LocalRef, ...]]] = {
    "config": lambda controller: controller.spec.config_file_refs,
    "prolog": lambda controller: controller.spec.prolog_script_refs,
    "epilog": lambda controller: controller.spec.epilog_script_refs,
    "prolog_slurmctld": lambda controller: controller.spec.prolog_slurmctld_script_refs,
    "epilog_slurmctld": lambda controller: controller.spec.epilog_slurmctld_script_refs,
}


def referenced_config_maps(controller: Controller) -> tuple[str, ...]:
    """Return the sorted names of all ConfigMaps whose keys become files."""
    return tuple(sorted({ref.name for refs in REFERENCES.values() for ref in refs(controller)}))


def collect_files(controller: Controller, config_maps: Mapping[str, ConfigMap]) -> Files:
    """Return the files of a Controller. Raises `Blocked` for a file that only the operator may write."""
    names = {use: _file_names(config_maps, refs(controller)) for use, refs in REFERENCES.items()}
    for name in sorted(wellknown.OWN_FILES & {name for group in names.values() for name in group}):
        raise Blocked("ForbiddenFile", f"{name} is written by the operator; use extraConf instead")
    maps = {name: config_maps[name] for name in referenced_config_maps(controller)}
    contents = {
        f"{name}/{key}": value
        for name, config_map in maps.items()
        for key, value in (config_map.data | config_map.binary_data).items()
    }
    texts = {key: value for config_map in maps.values() for key, value in config_map.data.items()}
    if sum(len(value.encode()) for value in texts.values()) > CONFIG_COPY_BYTES_MAX:
        return Files(**names, contents=contents, copied={}, mounted=tuple((name, ()) for name in maps))
    binary = tuple((name, tuple(sorted(item.binary_data))) for name, item in maps.items() if item.binary_data)
    return Files(**names, contents=contents, copied=texts, mounted=binary)


def _file_names(config_maps: Mapping[str, ConfigMap], refs: Iterable[LocalRef]) -> tuple[str, ...]:
    maps = [config_maps[ref.name] for ref in refs]
    return tuple(sorted({key for config_map in maps for key in (*config_map.data, *config_map.binary_data)}))
