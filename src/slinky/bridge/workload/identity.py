# SPDX-License-Identifier: Apache-2.0
"""The signature in the admin comment of a job: which bridge submitted it, for which workload and pods.

The admin comment keeps the format that other tools read (`{"pods": ["ns/name", ...]}`). The bridge adds its identity,
the workload, a digest of the pod uids, and a digest of the job spec. It changes only jobs that have all of this. The
comment of an older bridge has only pod names: a pod that is labelled with such a job can adopt it, and the job is
never cancelled because of missing fields.
"""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from slinky.bridge import names
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import pod_state
from slinky.slurm import Job, JobRequest

SIGNATURE_VERSION = 1
#: The flag of jobs that run nothing in Slurm, as those of the bridge.
EXTERNAL_FLAG = "EXTERNAL_JOB"
#: Fields that cannot change after submission: slurmctld rejects or ignores them in an update.
IMMUTABLE_FIELDS = ("flags", "current_working_directory", "mcs_label", "shared", "user_id", "group_id")
#: Fields that are not compared by `update_obstacle`: every job has them, or an update can clear them.
UNTRACKED_FIELDS = frozenset(
    {*IMMUTABLE_FIELDS, "admin_comment", "immediate", "hold", "name", "nodes", "minimum_nodes", "maximum_nodes"}
    | {"tasks_per_node", "excluded_nodes"}
)


class JobSignature(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    rename={"workload": "unit", "immutable_digest": "kept", "set_fields": "asked"},
):
    """The bridge's part of the admin comment. The names in JSON are stored in existing jobs and must not change."""

    v: int = 0
    cluster: str = ""
    bridge: str = ""
    workload: str = ""
    members: str = ""  # digest of the pod uids
    spec: str = ""  # digest of the requests
    roles: list[int] = []  # pods per component of a heterogeneous job, in the order of `pods`
    immutable_digest: str = ""  # digest of the immutable fields
    set_fields: list[str] = []  # the fields of the requests that have a value


class AdminComment(msgspec.Struct, frozen=True, omit_defaults=True):
    """The complete admin comment."""

    pods: list[str] = []
    slinky: JobSignature = JobSignature()
    outcome: str = ""


class BridgeIdentity(NamedTuple):
    """The identity of a bridge: the uid of its Kubernetes cluster, its name, and names that it had before."""

    cluster: str
    bridge: str
    former: frozenset[str] = frozenset()


_decoder = msgspec.json.Decoder(AdminComment)


def parse_comment(text: str) -> AdminComment | None:
    """The admin comment of a job that a bridge submitted; None for any other job."""
    try:
        comment = _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return comment if comment.pods or comment.slinky.v else None


def is_ours(comment: AdminComment | None, bridge: BridgeIdentity) -> bool:
    """Whether a job was submitted by this bridge for this cluster, under its current or a former name."""
    if comment is None or not is_of_cluster(comment, bridge):
        return False
    return comment.slinky.bridge == bridge.bridge or comment.slinky.bridge in bridge.former


def is_of_cluster(comment: AdminComment, bridge: BridgeIdentity) -> bool:
    """Whether some bridge of this cluster submitted a job."""
    return comment.slinky.v == SIGNATURE_VERSION and comment.slinky.cluster == bridge.cluster


def is_renamed(signature: JobSignature, bridge: BridgeIdentity) -> bool:
    """Whether a job of this bridge has a former name in its signature."""
    return bool(signature.v) and signature.bridge != bridge.bridge


def stands_for_pod(comment: AdminComment | None, bridge: BridgeIdentity, pod: WorkloadPod, job: Job) -> bool:
    """Whether the job that a pod is labelled with was submitted for this pod, by this bridge or by an older one.

    A comment that names the pod and this cluster is sufficient, whatever the name of the bridge: the name may have
    been changed. A bound pod has the SLUID of its job, which Slurm never reuses, so the job is recognised even if its
    admin comment was overwritten. A readable comment must still name the pod, and a job without one must be external,
    because users can edit the annotations of a pod and must not end the jobs of others with it.
    """
    annotated = pod.metadata.annotations.get(names.SLUID_ANNOTATION, "")
    is_named = comment is not None and str(pod.metadata.key) in comment.pods
    if annotated and job.sluid and pod_state.is_bound(pod):
        return annotated == job.sluid and (is_named or (comment is None and EXTERNAL_FLAG in job.flags))
    return is_named and comment is not None and (not comment.slinky.v or is_of_cluster(comment, bridge))


def members_digest(pods: Iterable[WorkloadPod]) -> str:
    """A digest of the uids of these pods."""
    uids = sorted(pod.metadata.uid for pod in pods)
    return hashlib.sha256("\n".join(uids).encode()).hexdigest()[:16]


def spec_digest(requests: Iterable[JobRequest]) -> str:
    """A digest of the requests without their signature."""
    return _digest([msgspec.structs.replace(request, admin_comment=None, immediate=None) for request in requests])


def update_obstacle(signature: JobSignature, requests: Sequence[JobRequest]) -> str:
    """Why an update cannot turn a pending job into these requests; empty if it can.

    An update cannot change the immutable fields, and it cannot clear a field that has a value.
    """
    if signature.immutable_digest and signature.immutable_digest != _immutable_digest(requests):
        return "cannot change its user, its group or how it shares nodes"
    removed = sorted(set(signature.set_fields) - _set_fields(requests))
    return f"cannot remove {', '.join(removed)}" if removed else ""


def _immutable_digest(requests: Iterable[JobRequest]) -> str:
    return _digest([[getattr(request, name) for name in IMMUTABLE_FIELDS] for request in requests])


def _set_fields(requests: Iterable[JobRequest]) -> set[str]:
    """The fields that have a value; those of later components with the number of the component."""
    return {
        f"{name}+{component}" if component else name
        for component, request in enumerate(requests)
        for name in request.__struct_fields__
        if name not in UNTRACKED_FIELDS and getattr(request, name) is not None
    }


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()[:16]


def sign(
    requests: Sequence[JobRequest], roles: Sequence[Sequence[WorkloadPod]], bridge: BridgeIdentity, workload: str
) -> list[JobRequest]:
    """The requests with a signed admin comment. The first names every pod, each other one the pods of its role."""
    all_pods = [pod for role in roles for pod in role]
    signature = JobSignature(
        SIGNATURE_VERSION,
        bridge.cluster,
        bridge.bridge,
        workload,
        members_digest(all_pods),
        spec_digest(requests),
        [len(role) for role in roles] if len(roles) > 1 else [],
        _immutable_digest(requests),
        sorted(_set_fields(requests)),
    )
    return [
        msgspec.structs.replace(
            request, admin_comment=_encode(AdminComment([str(pod.metadata.key) for pod in pods], signature))
        )
        for request, pods in zip(requests, [all_pods, *roles[1:]], strict=True)
    ]


def pods_by_component(comment: AdminComment | None) -> list[list[str]]:
    """The pod names of each component; empty if the job has no components or the comment does not list them."""
    if comment is None or sum(comment.slinky.roles) != len(comment.pods):
        return []
    remaining = iter(comment.pods)
    return [list(islice(remaining, size)) for size in comment.slinky.roles]


def _encode(comment: AdminComment) -> str:
    return msgspec.json.encode(comment).decode()


def request_digest(requests: Iterable[JobRequest]) -> str:
    """A digest of what a job requests, equal for pods that differ only in their names."""
    return spec_digest([msgspec.structs.replace(request, name=None) for request in requests])
