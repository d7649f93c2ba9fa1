# SPDX-License-Identifier: Apache-2.0
"""How a job says whose it is, so that nobody else's is ever taken for ours.

The admin comment keeps the shape that other tools read (`{"pods": ["ns/name", ...]}`) and adds who we are, which
unit it stands for, which very pods (by uid), and a digest of what was asked for. Only a job that carries all of it
is touched. A job of an older bridge has names alone: it can be adopted by a pod that carries its id, and is never
cancelled for anything it lacks.
"""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from slinky.bridge import names
from slinky.bridge.state.views import WorkloadPod
from slinky.bridge.workload import pod_state
from slinky.slurm import JobRequest

SIGNATURE_VERSION = 1
#: Fields that a job keeps for life; sending them again in an update is refused or ignored.
IMMUTABLE_FIELDS = ("flags", "current_working_directory", "mcs_label", "shared", "user_id", "group_id")
#: Fields that say nothing about what is asked for: who, how, and what every job has or can be told to have no more.
UNTRACKED_FIELDS = frozenset(
    {*IMMUTABLE_FIELDS, "admin_comment", "immediate", "hold", "name", "nodes", "minimum_nodes", "maximum_nodes"}
    | {"tasks_per_node", "excluded_nodes"}
)


class JobSignature(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whose job it is."""

    v: int = 0
    cluster: str = ""
    bridge: str = ""
    unit: str = ""
    members: str = ""
    spec: str = ""
    roles: list[int] = []  # pods per component of a heterogeneous job, in the order of `pods`
    kept: str = ""  # a digest of what a job keeps for life
    asked: list[str] = []  # the options and amounts that are set


class AdminComment(msgspec.Struct, frozen=True, omit_defaults=True):
    """The whole admin comment."""

    pods: list[str] = []
    slinky: JobSignature = JobSignature()
    outcome: str = ""


class BridgeIdentity(NamedTuple):
    """The name of this bridge on this cluster."""

    cluster: str
    bridge: str


_decoder = msgspec.json.Decoder(AdminComment)


def parse_comment(text: str) -> AdminComment | None:
    """The admin comment of a bridge's job; None for anybody else's."""
    try:
        found = _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if found.pods or found.slinky.v else None


def is_ours(comment: AdminComment | None, me: BridgeIdentity) -> bool:
    """Made by this bridge for this cluster, by its own word."""
    if comment is None or comment.slinky.v != SIGNATURE_VERSION:
        return False
    return (comment.slinky.cluster, comment.slinky.bridge) == me


def stands_for_pod(comment: AdminComment | None, me: BridgeIdentity, pod: WorkloadPod, sluid: str = "") -> bool:
    """The job under a pod's label is the one it was labelled for: ours, or an older bridge's that names it.

    A pod that was placed knows its job by the name that is never used again; then a comment that somebody has
    rewritten changes nothing. A job that names its pods is believed all the same: what is on a pod can be written.
    """
    known = pod.metadata.annotations.get(names.SLUID_ANNOTATION, "")
    named = comment is not None and str(pod.metadata.key) in comment.pods
    if known and sluid and pod_state.is_bound(pod):
        return known == sluid and (named or comment is None)
    return named and (is_ours(comment, me) or (comment is not None and not comment.slinky.v))


def members_digest(pods: Iterable[WorkloadPod]) -> str:
    """A digest of exactly these pods."""
    uids = sorted(pod.metadata.uid for pod in pods)
    return hashlib.sha256("\n".join(uids).encode()).hexdigest()[:16]


def spec_digest(requests: Iterable[JobRequest]) -> str:
    """A digest of what was asked for, whoever asked."""
    return _hashed([msgspec.structs.replace(request, admin_comment=None, immediate=None) for request in requests])


def update_obstacle(mine: JobSignature, requests: Sequence[JobRequest]) -> str:
    """Why a waiting job cannot be brought up to these requests; nothing if it can.

    An update cannot change everything, and what it leaves out stays as it was.
    """
    if mine.kept and mine.kept != _kept(requests):
        return "cannot change its user, its group or how it shares nodes"
    dropped = sorted(set(mine.asked) - _asked(requests))
    return f"cannot be rid of {', '.join(dropped)}" if dropped else ""


def _kept(requests: Iterable[JobRequest]) -> str:
    return _hashed([[getattr(request, name) for name in IMMUTABLE_FIELDS] for request in requests])


def _asked(requests: Iterable[JobRequest]) -> set[str]:
    """The fields that are set, with the number of the component where that is not the first."""
    return {
        f"{name}+{part}" if part else name
        for part, request in enumerate(requests)
        for name in request.__struct_fields__
        if name not in UNTRACKED_FIELDS and getattr(request, name) is not None
    }


def _hashed(what: object) -> str:
    return hashlib.sha256(msgspec.json.encode(what)).hexdigest()[:16]


def sign(
    requests: Sequence[JobRequest], roles: Sequence[Sequence[WorkloadPod]], me: BridgeIdentity, unit: str
) -> list[JobRequest]:
    """The requests with our identity in them. The first names every pod, the others their own."""
    everybody = [pod for role in roles for pod in role]
    sizes = [len(role) for role in roles] if len(roles) > 1 else []
    spec, kept, asked = spec_digest(requests), _kept(requests), sorted(_asked(requests))
    mine = JobSignature(
        SIGNATURE_VERSION, me.cluster, me.bridge, unit, members_digest(everybody), spec, sizes, kept, asked
    )
    named = [everybody, *roles[1:]]
    return [
        msgspec.structs.replace(
            request, admin_comment=_written(AdminComment([str(pod.metadata.key) for pod in pods], mine))
        )
        for request, pods in zip(requests, named, strict=True)
    ]


def pods_by_component(comment: AdminComment | None) -> list[list[str]]:
    """The pods of each component, by name; empty where a job has no components or does not tell them."""
    if comment is None or sum(comment.slinky.roles) != len(comment.pods):
        return []
    names_left = iter(comment.pods)
    return [list(islice(names_left, size)) for size in comment.slinky.roles]


def _written(comment: AdminComment) -> str:
    return msgspec.json.encode(comment).decode()
