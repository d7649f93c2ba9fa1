# SPDX-License-Identifier: Apache-2.0
"""The built-in gang API of Kubernetes (scheduling.k8s.io): one view per version, since every release changed it.

What all versions share is in `NativeGroup`; each version adds where it keeps the rest. A server's version is found
by discovery; one that is not in the table is not guessed at.
"""

from collections.abc import Iterable
from typing import Any

from slinky.kube import Condition, Object, Resource, View

GROUP = "scheduling.k8s.io"


class Gang(View, frozen=True):
    """All or nothing, from this many on."""

    min_count: int = 0


class GangPolicy(View, frozen=True):
    """How a group wants to be scheduled; None for `gang` means one by one."""

    gang: Gang | None = None


class Constraints(View, frozen=True):
    """Where a group wants to be together."""

    topology: tuple[Any, ...] = ()


class WorkloadRef(View, frozen=True):
    """The Workload that a group was made from."""

    workload_name: str = ""


class GroupSource(View, frozen=True):
    """What a group was made from (v1alpha2)."""

    workload: WorkloadRef | None = None


class NativeSpec(View, frozen=True):
    """What every version says."""

    scheduling_policy: GangPolicy = GangPolicy()
    scheduling_constraints: Constraints | None = None


class Alpha2Spec(NativeSpec, frozen=True):
    """As Kubernetes 1.36 has it."""

    pod_group_template_ref: GroupSource | None = None


class Beta1Spec(NativeSpec, frozen=True):
    """As Kubernetes 1.37 has it."""

    workload_ref: WorkloadRef | None = None
    parent_composite_pod_group_name: str | None = None


class NativeStatus(View, frozen=True):
    """How a group does."""

    conditions: tuple[Condition, ...] = ()


class NativeGroup(Object, frozen=True):
    """A PodGroup of scheduling.k8s.io in any version."""

    spec: NativeSpec = NativeSpec()
    status: NativeStatus = NativeStatus()

    @property
    def workload(self) -> str:
        """The Workload above it, if there is one."""
        return ""

    @property
    def parent(self) -> str:
        """The group of groups above it, if there is one."""
        return ""


class Alpha2Group(NativeGroup, frozen=True):
    """v1alpha2."""

    spec: Alpha2Spec = Alpha2Spec()

    @property
    def workload(self) -> str:
        """The Workload above it, if there is one."""
        source = self.spec.pod_group_template_ref
        return source.workload.workload_name if source and source.workload else ""


class Beta1Group(NativeGroup, frozen=True):
    """v1beta1, and v1alpha3, which has the same shape."""

    spec: Beta1Spec = Beta1Spec()

    @property
    def workload(self) -> str:
        """The Workload above it, if there is one."""
        return self.spec.workload_ref.workload_name if self.spec.workload_ref else ""

    @property
    def parent(self) -> str:
        """The group of groups above it, if there is one."""
        return self.spec.parent_composite_pod_group_name or ""


#: Every version that is understood, best first.
VERSIONS: dict[str, type[NativeGroup]] = {"v1beta1": Beta1Group, "v1alpha3": Beta1Group, "v1alpha2": Alpha2Group}


def native_groups(served: Iterable[str]) -> Resource[NativeGroup] | None:
    """The built-in PodGroup in the best of the served versions that we understand."""
    there = set(served)
    version = next((version for version in VERSIONS if version in there), None)
    return Resource(f"{GROUP}/{version}", "PodGroup", "podgroups", VERSIONS[version]) if version else None


def native_workloads(version: str) -> Resource[Object]:
    """The built-in Workload, of which only annotations are read."""
    return Resource(f"{GROUP}/{version}", "Workload", "workloads", Object)
