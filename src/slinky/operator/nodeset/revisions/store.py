# SPDX-License-Identifier: Apache-2.0
"""Keeps the revisions of a NodeSet's workers as ControllerRevisions, and goes back to one when a person asks.

What is wanted is found among those kept, by meaning; only what was never there is written. A revision that a worker
carries and that we have not kept is looked for once: another operator may have kept it, under labels of its own.
"""

from collections import Counter
from collections.abc import Callable, Collection, Set
from typing import Any, NamedTuple

from slinky.api.names import metadata
from slinky.api.names.child_names import SLURMD
from slinky.api.nodeset import NODE_SETS, NodeSet
from slinky.kube.cache import by_owner
from slinky.kube.errors import AlreadyExists, Later, NotFound
from slinky.kube.types import Key
from slinky.observe import Log
from slinky.operator.framework.context import Context
from slinky.operator.metrics import WRITES
from slinky.operator.nodeset.revisions import revision
from slinky.operator.nodeset.revisions.revision import REVISIONS, Revision

log = Log("slinky.operator.nodeset")

#: Names that may be taken by something else before we give up for now.
TRIES = 5

Note = Callable[..., None]


class Standing(NamedTuple):
    """Which revision is wanted and which most workers have."""

    wanted: Revision
    current: str
    collisions: int | None

    def status(self) -> dict[str, Any]:
        """For the NodeSet's status."""
        return {
            "current_revision": self.current,
            "update_revision": self.wanted.metadata.name,
            "collision_count": self.collisions,
        }


class RevisionStore:
    """The kept revisions of all NodeSets."""

    def __init__(self, world: Context) -> None:
        self.world = world
        self.cache = world.cache(
            REVISIONS, labels=f"{metadata.APP_COMPONENT}={SLURMD.component}", indexes={"owner": by_owner}
        )
        self._looked: dict[str, set[str]] = {}

    def kept(self, of: NodeSet) -> list[Revision]:
        """The revisions of a NodeSet."""
        return [found for found in self.cache.by("owner", of.metadata.uid) if not found.metadata.deleting]

    def keep_only(self, alive: Set[str]) -> None:
        """Remember nothing but of these NodeSets, by uid."""
        self._looked = {uid: looked for uid, looked in self._looked.items() if uid in alive}

    async def settle(self, of: NodeSet, read: str, carried: Counter[str]) -> Standing:
        """The revision that workers should have, kept and numbered; `read` is the digest of what they read."""
        for unknown in carried.keys() - {found.hash for found in self.kept(of)}:
            await self._look_for(of, unknown)
        kept, data = self.kept(of), revision.template(of)
        found, collisions = revision.chosen(kept, data, read), of.status.collision_count
        if found is None:
            found, collisions = await self._keep(of, data, read, revision.newest(kept) + 1)
        elif patch := _overhaul(found, kept, read):
            found = await self._patch(found, patch)
        return Standing(found, revision.current(self.kept(of), carried, found), collisions)

    async def prune(self, of: NodeSet, used: Collection[str]) -> None:
        """Forget what nobody needs."""
        for found in revision.surplus(self.kept(of), used, of.spec.revision_history_limit):
            WRITES.labels("delete", REVISIONS.kind).inc()
            try:
                left = await self.world.client.delete(REVISIONS, found.key, uid=found.metadata.uid)
            except NotFound:
                left = None
            self.cache.record_deletion(found, left)

    async def go_back(self, of: NodeSet, note: Note) -> NodeSet:
        """Fulfil a wish for an earlier revision: the spec gets its fields and the wish goes, in one step."""
        wish = of.metadata.annotations.get(metadata.ROLLBACK_TO)
        if wish is None:
            return of
        kept = self.kept(of)
        to = revision.asked(kept, wish)
        if to is None:
            there = ", ".join(str(number) for number in sorted(found.revision for found in kept)) or "none"
            text = f"{metadata.ROLLBACK_TO}: there is no revision {wish[:80]!r}; kept are: {there}"
            note("RollbackRevisionNotFound", f"{text}; spec.revisionHistoryLimit says how many", warning=True)
        else:
            note("Rollback", f"Going back to revision {to.revision}, {to.metadata.name}")
        spec = {"spec": revision.restored(of, to.data)} if to else {}
        meta = {"annotations": {metadata.ROLLBACK_TO: None}, "resourceVersion": of.metadata.resource_version}
        WRITES.labels("patch", NODE_SETS.kind).inc()
        made = await self.world.client.patch(NODE_SETS, of.key, {"metadata": meta, **spec})
        return self.world.node_sets.record_write(made)

    async def _look_for(self, of: NodeSet, carried: str) -> None:
        """Take over a revision of our workers that somebody else has kept."""
        looked = self._looked.setdefault(of.metadata.uid, set())
        if carried in looked:
            return
        there = await self.world.client.list(
            REVISIONS, namespace=of.metadata.namespace, labels=f"{metadata.REVISION}={carried}"
        )
        looked.add(carried)
        for found in there:
            owner = found.metadata.controller
            if owner is not None and owner.uid == of.metadata.uid:
                log.info("taking over a revision", revision=str(found.key))
                await self._patch(found, {"metadata": {"labels": of.labels}})

    async def _keep(self, of: NodeSet, data: Any, read: str, number: int) -> tuple[Revision, int | None]:
        collisions = of.status.collision_count or 0
        for tried in range(TRIES):
            made = revision.manifest(of, data, read, number, collisions + tried)
            WRITES.labels("create", REVISIONS.kind).inc()
            try:
                found = self.cache.record_write(await self.world.client.create(REVISIONS, made))
            except AlreadyExists:
                found = await self.world.client.get(REVISIONS, Key(of.metadata.namespace, made["metadata"]["name"]))
                owner = found.metadata.controller
                # Our own, from a life whose writes the cache has not seen yet; or the name of something else.
                if owner is None or owner.uid != of.metadata.uid or revision.chosen([found], data, read) is None:
                    continue
                self.cache.record_write(found)
            return found, (collisions + tried) or None
        raise Later(f"the names of {TRIES} revisions of {of.key} are taken")

    async def _patch(self, found: Revision, patch: dict[str, Any]) -> Revision:
        WRITES.labels("patch", REVISIONS.kind).inc()
        meta = {**patch.get("metadata", {}), "uid": found.metadata.uid}
        return self.cache.record_write(await self.world.client.patch(REVISIONS, found.key, {**patch, "metadata": meta}))


def _overhaul(found: Revision, kept: Collection[Revision], read: str) -> dict[str, Any]:
    """One that is wanted again becomes the newest; one that did not say what its workers have read says it now."""
    patch: dict[str, Any] = {}
    newest = revision.newest(kept)
    if found.revision < newest or sum(other.revision == newest for other in kept) > 1:
        patch["revision"] = newest + 1
    if not found.contents:
        patch["metadata"] = {"annotations": {metadata.REVISION_CONTENTS: read}}
    return patch
