# SPDX-License-Identifier: Apache-2.0
"""Conditions that the kinds report, and the parts of `status` that all kinds share.

`kubectl wait --for=condition=Ready` works on every kind. A condition describes only the generation in its
observedGeneration; a condition whose value cannot be determined is Unknown.
"""

from typing import Annotated, NamedTuple

from slinky.kube.schema import Column, described, list_map
from slinky.kube.types import Condition, View

READY = "Ready"
PROGRESSING = "Progressing"
DEGRADED = "Degraded"
SLURM_REACHABLE = "SlurmReachable"
CONFIG_SYNCED = "ConfigSynced"
RESERVATION_CREATED = "ReservationCreated"
AUTOSCALING_ACTIVE = "AutoscalingActive"
OUTAGE = "Outage"


class ConditionMeaning(NamedTuple):
    """One row of the table of conditions: the kinds that report it, and its default message for each value."""

    type: str
    kinds: str
    true: str
    false: str
    unknown: str = "The value of this condition is not known yet."


CONDITIONS = (
    ConditionMeaning(
        READY,
        "all",
        "Everything that the spec asks for exists and works.",
        "Not everything that the spec asks for exists and works.",
    ),
    ConditionMeaning(
        PROGRESSING, "all", "The operator is carrying out a change.", "The operator has no change to carry out."
    ),
    ConditionMeaning(
        DEGRADED,
        "all",
        "There is a problem that needs an administrator or time; the reason and the message describe it.",
        "The operator sees no problem.",
    ),
    ConditionMeaning(
        SLURM_REACHABLE,
        "all",
        "The Slurm daemon of this object responds.",
        "The Slurm daemon of this object does not respond.",
        "The operator does not know yet whether the Slurm daemon of this object responds.",
    ),
    ConditionMeaning(
        CONFIG_SYNCED,
        "all",
        "The running daemons use the current configuration.",
        "The running daemons still use an earlier configuration.",
        "The operator does not know yet which configuration the running daemons use.",
    ),
    ConditionMeaning(
        RESERVATION_CREATED,
        "NodeSet",
        "The reservation of a scheduled update exists in Slurm.",
        "Slurm has no reservation for a scheduled update.",
    ),
    ConditionMeaning(
        AUTOSCALING_ACTIVE,
        "NodeSet",
        "The operator sets replicas to what running and pending jobs need.",
        "The operator does not follow the demand; the reason and the message tell why.",
        "The demand is not known, because Slurm does not respond; the number of workers stays as it is.",
    ),
    ConditionMeaning(
        OUTAGE,
        "Controller",
        "A planned outage is in progress; the reason is its phase.",
        "No planned outage is in progress.",
    ),
)
MEANINGS = {meaning.type: meaning for meaning in CONDITIONS}


class ObjectStatus(View, frozen=True):
    """Status fields of every kind."""

    conditions: Annotated[
        tuple[Condition, ...], list_map("type"), described("Conditions of the object, one per type.")
    ] = ()
    observed_generation: Annotated[int, described("Generation of the object that this status describes.")] = 0


class ScaledStatus(ObjectStatus, frozen=True):
    """Status fields of the kinds with a scale subresource, which `kubectl scale` and autoscalers use."""

    replicas: Annotated[int, described("Number of pods.")] = 0
    ready_replicas: Annotated[int, described("Number of pods that are ready.")] = 0
    selector: Annotated[str, described("Label selector of the pods, for autoscalers.")] = ""


HEALTH = (
    Column("READY", "string", f'.status.conditions[?(@.type=="{READY}")].status'),
    Column("REASON", "string", f'.status.conditions[?(@.type=="{READY}")].reason', wide=True),
)
