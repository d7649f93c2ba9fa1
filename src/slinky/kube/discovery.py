# SPDX-License-Identifier: Apache-2.0
"""Which kinds a server has, and in which versions.

One or two requests bring everything (aggregated discovery); a server too old for that is asked group by
group. Use it to choose an adapter for APIs that change between releases, not to find kinds one knows.
"""

import asyncio
from collections.abc import Callable, Iterable

import msgspec

from slinky.kube.client import KubeClient
from slinky.kube.errors import KubeError
from slinky.kube.types import View
from slinky.observe import Log, RestartRequired

log = Log("slinky.kube.discovery")

#: How often a process looks for kinds that were not there when it started.
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
        """As written in manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version


class Discovery:
    """What a server serves; versions are in the server's order of preference."""

    def __init__(self, served: Iterable[ServedKind]) -> None:
        self.served = tuple(served)

    def versions(self, group: str, kind: str) -> list[str]:
        """The versions in which a kind is served, best first; empty if it is not."""
        return [found.version for found in self.served if (found.group, found.kind) == (group, kind)]

    def find(self, group: str, kind: str, version: str = "") -> ServedKind | None:
        """A kind in its best, or in a given, version."""
        for found in self.served:
            if (found.group, found.kind) == (group, kind) and version in ("", found.version):
                return found
        return None


async def discover(client: KubeClient) -> Discovery:
    """Ask the server what it serves."""
    served: list[ServedKind] = []
    for root in ("/api", "/apis"):
        body = await client.send("GET", root, accept=f"{_AGGREGATED},application/json")
        answer = msgspec.json.decode(body, type=_Groups)
        if answer.kind == "APIGroupDiscoveryList":
            served += [kind for group in answer.items for kind in _aggregated(group)]
        else:
            served += await _one_by_one(client, answer)
    return Discovery(served)


async def restart_on_new_kinds(
    client: KubeClient, news: Callable[[Discovery], str], *, every: float = DISCOVERY_INTERVAL
) -> None:
    """Ask now and then what the server serves, until `news` finds something in it: then raise `StartAnew`.

    Kinds come with whoever installs them, and versions with upgrades; what to watch is chosen when a process starts.
    """
    while True:
        await asyncio.sleep(every)
        try:
            served = await discover(client)
        except KubeError as error:
            log.debug("the server does not tell what it serves", error=str(error))
            continue
        if found := news(served):
            raise RestartRequired(f"the API server has {found} now")


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


def _aggregated(group: _AggregatedGroup) -> list[ServedKind]:
    return [
        ServedKind(
            group.metadata.name,
            version.version,
            found.response_kind.kind,
            found.resource,
            found.scope == "Namespaced",
            found.verbs,
            tuple(sub.subresource for sub in found.subresources),
        )
        for version in group.versions
        for found in version.resources
    ]


async def _one_by_one(client: KubeClient, answer: _Groups) -> list[ServedKind]:
    core = [("", version, f"/api/{version}") for version in answer.versions]
    named = [
        (group.name, version.group_version.rpartition("/")[2], f"/apis/{version.group_version}")
        for group in answer.groups
        for version in group.versions
    ]
    served: list[ServedKind] = []
    for group, version, path in (*core, *named):
        kinds = msgspec.json.decode(await client.send("GET", path), type=_ListedKinds).resources
        whole = [found for found in kinds if "/" not in found.name]
        parts = [found.name for found in kinds if "/" in found.name]
        served += [
            ServedKind(
                group,
                version,
                found.kind,
                found.name,
                found.namespaced,
                found.verbs,
                tuple(part.partition("/")[2] for part in parts if part.startswith(f"{found.name}/")),
            )
            for found in whole
        ]
    return served
