# SPDX-License-Identifier: Apache-2.0
"""Which grouping objects a server has: those that are always there, those that others install, and the built-in gangs
in the version of this release. What is watched is chosen once, at the start; what comes later is noticed.
"""

from typing import Any

from slinky.bridge.state.views import BATCH_JOBS, JOB_SETS, LEADER_WORKER_SETS, POD_GROUPS, native
from slinky.kube import Discovery, Resource
from slinky.observe import Log

log = Log("slinky.bridge.workload.kinds")

INSTALLED: tuple[Resource[Any], ...] = (JOB_SETS, LEADER_WORKER_SETS, POD_GROUPS)


def grouping(served: Discovery) -> dict[str, Resource[Any]]:
    """The grouping kinds of a server, by the names that units use."""
    found: dict[str, Resource[Any]] = {"Job": BATCH_JOBS}
    found |= {one.kind: one for one in INSTALLED if served.find(one.group, one.kind, one.version)}
    versions = served.versions(native.GROUP, "PodGroup")
    groups = native.native_groups(versions)
    if groups is None:
        if versions:
            log.warning("native PodGroups are served in versions that are not understood", versions=versions)
        return found
    found["NativeGroup"] = groups
    if served.find(native.GROUP, "Workload", groups.version):
        found["Workload"] = native.native_workloads(groups.version)
    return found


def news(known: dict[str, Resource[Any]], served: Discovery) -> str:
    """What a server has now that is not watched yet, or in another version; empty if there is nothing."""
    now = {kind: f"{one.kind} of {one.api_version}" for kind, one in grouping(served).items()}
    before = {kind: f"{one.kind} of {one.api_version}" for kind, one in known.items()}
    return ", ".join(text for kind, text in now.items() if before.get(kind) != text)
