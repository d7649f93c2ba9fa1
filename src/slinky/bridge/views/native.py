# SPDX-License-Identifier: Apache-2.0
"""The native PodGroup of Kubernetes (scheduling.k8s.io): one view per version, because every release changed it.

`NativeGroup` has the fields of all versions; a subclass for each version has the others. Discovery finds the version
of the server. Versions that are not in the table are not used.
"""

from collections.abc import Iterable
from typing import Any

from slinky.kube import Condition, Object, Resource, View

GROUP = "scheduling.k8s.io"


class Gang(View, frozen=True):
    """The gang policy: the number of pods that must start together."""

    min_count: int = 0


class GangPolicy(View, frozen=True):
    """The scheduling policy of a group; without `gang`, its pods are scheduled one by one."""

    gang: Gang | None = None


class Constraints(View, frozen=True):
    """The scheduling constraints of a group."""

    topology: tuple[Any, ...] = ()


class WorkloadRef(View, frozen=True):
    """The Workload that a group was created from."""

    workload_name: str = ""


class GroupSource(View, frozen=True):
    """The template that a group was created from (v1alpha2)."""

    workload: WorkloadRef | None = None


class NativeSpec(View, frozen=True):
    """The fields of the spec that all versions have."""

    scheduling_policy: GangPolicy = GangPolicy()
    scheduling_constraints: Constraints | None = None


class Alpha2Spec(NativeSpec, frozen=True):
    """The spec in Kubernetes 1.36."""

    pod_group_template_ref: GroupSource | None = None


class Beta1Spec(NativeSpec, frozen=True):
    """The spec in Kubernetes 1.37."""

    workload_ref: WorkloadRef | None = None
    parent_composite_pod_group_name: str | None = None


class NativeStatus(View, frozen=True):
    """The status of a group."""

    conditions: tuple[Condition, ...] = ()


class NativeGroup(Object, frozen=True):
    """A PodGroup of scheduling.k8s.io in any version."""

    spec: NativeSpec = NativeSpec()
    status: NativeStatus = NativeStatus()

    @property
    def workload(self) -> str:
        """The name of the Workload that the group was created from; empty if there is none."""
        return ""

    @property
    def parent(self) -> str:
        """The name of the composite group that contains the group; empty if there is none."""
        return ""


class Alpha2Group(NativeGroup, frozen=True):
    """A PodGroup of v1alpha2."""

    spec: Alpha2Spec = Alpha2Spec()

    @property
    def workload(self) -> str:
        """The name of the Workload that the group was created from; empty if there is none."""
        source = self.spec.pod_group_template_ref
        return source.workload.workload_name if source and source.workload else ""


class Beta1Group(NativeGroup, frozen=True):
    """A PodGroup of v1beta1 or v1alpha3, which have the same fields."""

    spec: Beta1Spec = Beta1Spec()

    @property
    def workload(self) -> str:
        """The name of the Workload that the group was created from; empty if there is none."""
        return self.spec.workload_ref.workload_name if self.spec.workload_ref else ""

    @property
    def parent(self) -> str:
        """The name of the composite group that contains the group; empty if there is none."""
        return self.spec.parent_composite_pod_group_name or ""


#: The supported versions, the preferred one first.
VERSIONS: dict[str, type[NativeGroup]] = {"v1beta1": Beta1Group, "v1alpha3": Beta1Group, "v1alpha2": Alpha2Group}


def native_groups(served: Iterable[str]) -> Resource[NativeGroup] | None:
    """The native PodGroup in the preferred one of the served versions; None if none is supported."""
    served = set(served)
    version = next((version for version in VERSIONS if version in served), None)
    return Resource(f"{GROUP}/{version}", "PodGroup", "podgroups", VERSIONS[version]) if version else None


def native_workloads(version: str) -> Resource[Object]:
    """The native Workload; only its annotations are read."""
    return Resource(f"{GROUP}/{version}", "Workload", "workloads", Object)
