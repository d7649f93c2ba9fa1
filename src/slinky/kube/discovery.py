# SPDX-License-Identifier: Apache-2.0
"""The kinds that an API server serves, and their versions.

Two requests return all kinds (aggregated discovery). A server without it is asked group by group. Discovery is for
choosing an adapter for an API that changes between releases; well-known kinds do not need it.
"""

from collections.abc import Callable, Iterable

import msgspec

from slinky.kube.client import KubeClient
from slinky.kube.errors import KubeError
from slinky.kube.types import View
from slinky.observe import Log, RestartRequired

log = Log("slinky.kube.discovery")

#: Seconds between two discoveries of a process that waits for kinds that were not served when it started.
DISCOVERY_INTERVAL = 60.0

_AGGREGATED = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList" for version in ("v2", "v2beta1")
)


class ServedKind(View, frozen=True):
    """One kind in one version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """The `apiVersion` of manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version


class Discovery:
    """The kinds that a server serves; versions are in the preferred order of the server."""

    def __init__(self, served: Iterable[ServedKind]) -> None:
        self.served = tuple(served)

    def versions(self, group: str, kind: str) -> list[str]:
        """The served versions of a kind, the preferred one first; empty if the kind is not served."""
        return [item.version for item in self.served if (item.group, item.kind) == (group, kind)]

    def find(self, group: str, kind: str, version: str = "") -> ServedKind | None:
        """A kind in the given version, or in the preferred one; None if it is not served."""
        for item in self.served:
            if (item.group, item.kind) == (group, kind) and version in ("", item.version):
                return item
        return None


async def discover(client: KubeClient) -> Discovery:
    """Read the kinds that the server serves."""
    served: list[ServedKind] = []
    for root in ("/api", "/apis"):
        body = await client.send("GET", root, accept=f"{_AGGREGATED},application/json")
        groups = msgspec.json.decode(body, type=_Groups)
        if groups.kind == "APIGroupDiscoveryList":
            served += [kind for group in groups.items for kind in _aggregated_kinds(group)]
        else:
            served += await _listed_kinds(client, groups)
    return Discovery(served)


async def restart_on_new_kinds(
    client: KubeClient, find_new: Callable[[Discovery], str], *, interval: float = DISCOVERY_INTERVAL
) -> None:
    """Run discovery regularly until `find_new` returns the name of a new kind; then raise `RestartRequired`.

    A process chooses at its start which kinds to watch. Kinds may be installed later, and upgrades add versions.
    """
    while True:
        await client.clock.sleep(interval)
        try:
            served = await discover(client)
        except KubeError as error:
            log.debug("discovery failed; it is retried", error=str(error))
            continue
        if new_kind := find_new(served):
            raise RestartRequired(f"the API server now serves {new_kind}")


class _Kind(View, frozen=True):
    kind: str = ""


class _Subresource(View, frozen=True):
    subresource: str


class _Resource(View, frozen=True):
    resource: str
    response_kind: _Kind = _Kind()
    scope: str = ""
    verbs: tuple[str, ...] = ()
    subresources: tuple[_Subresource, ...] = ()


class _Version(View, frozen=True):
    version: str
    resources: tuple[_Resource, ...] = ()


class _Named(View, frozen=True):
    name: str = ""


class _GroupVersion(View, frozen=True):
    group_version: str


class _AggregatedGroup(View, frozen=True):
    metadata: _Named = _Named()
    versions: tuple[_Version, ...] = ()


class _ListedGroup(View, frozen=True):
    name: str
    versions: tuple[_GroupVersion, ...] = ()


class _Groups(View, frozen=True):
    kind: str
    items: tuple[_AggregatedGroup, ...] = ()
    groups: tuple[_ListedGroup, ...] = ()
    versions: tuple[str, ...] = ()


class _ListedKind(View, frozen=True):
    name: str
    kind: str
    namespaced: bool = False
    verbs: tuple[str, ...] = ()


class _ListedKinds(View, frozen=True):
    resources: tuple[_ListedKind, ...] = ()


def _aggregated_kinds(group: _AggregatedGroup) -> list[ServedKind]:
    return [
        ServedKind(
            group.metadata.name,
            version.version,
            item.response_kind.kind,
            item.resource,
            item.scope == "Namespaced",
            item.verbs,
            tuple(sub.subresource for sub in item.subresources),
        )
        for version in group.versions
        for item in version.resources
    ]


async def _listed_kinds(client: KubeClient, groups: _Groups) -> list[ServedKind]:
    core = [("", version, f"/api/{version}") for version in groups.versions]
    named = [
        (group.name, version.group_version.rpartition("/")[2], f"/apis/{version.group_version}")
        for group in groups.groups
        for version in group.versions
    ]
    served: list[ServedKind] = []
    for group, version, path in (*core, *named):
        kinds = msgspec.json.decode(await client.send("GET", path), type=_ListedKinds).resources
        main_kinds = [item for item in kinds if "/" not in item.name]
        subresources = [item.name for item in kinds if "/" in item.name]
        served += [
            ServedKind(
                group,
                version,
                item.kind,
                item.name,
                item.namespaced,
                item.verbs,
                tuple(name.partition("/")[2] for name in subresources if name.startswith(f"{item.name}/")),
            )
            for item in main_kinds
        ]
    return served
