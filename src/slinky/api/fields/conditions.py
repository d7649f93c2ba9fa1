# SPDX-License-Identifier: Apache-2.0
"""What every kind says about itself: conditions, and the generation they speak of.

`kubectl wait --for=condition=Ready` works on every kind. A condition is about the generation in its
observedGeneration and no other; one that cannot be known is Unknown, never guessed.
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


class ConditionMeaning(NamedTuple):
    """One row of the table of conditions: its kinds, and what it says when there is nothing more to say."""

    type: str
    kinds: str
    true: str
    false: str
    unknown: str = "this is not known yet"


CONDITIONS = (
    ConditionMeaning(
        READY,
        "all",
        "everything that was asked for is there and works",
        "not everything that was asked for is there and works",
    ),
    ConditionMeaning(PROGRESSING, "all", "a change is being carried out", "nothing is under way"),
    ConditionMeaning(
        DEGRADED,
        "all",
        "something is wrong that needs a person or time; the reason says what",
        "nothing is wrong",
    ),
    ConditionMeaning(
        SLURM_REACHABLE,
        "all",
        "the Slurm daemon behind this object answers",
        "the Slurm daemon behind this object does not answer",
        "it is not known yet whether the Slurm daemon behind this object answers",
    ),
    ConditionMeaning(
        CONFIG_SYNCED,
        "all",
        "the running daemons use the configuration that is wanted",
        "the running daemons still use an earlier configuration",
        "it is not known yet which configuration the running daemons use",
    ),
    ConditionMeaning(
        RESERVATION_CREATED,
        "NodeSet",
        "the reservation of a scheduled update exists in Slurm",
        "there is no reservation for a scheduled update",
    ),
)
MEANINGS = {meaning.type: meaning for meaning in CONDITIONS}


class ObjectStatus(View, frozen=True):
    """What every kind reports."""

    conditions: Annotated[tuple[Condition, ...], list_map("type"), described("How it is, by type.")] = ()
    observed_generation: Annotated[int, described("The generation that this status is about.")] = 0


class ScaledStatus(ObjectStatus, frozen=True):
    """Status of a kind that `kubectl scale` and autoscalers know."""

    replicas: Annotated[int, described("How many pods there are.")] = 0
    ready_replicas: Annotated[int, described("How many of them are ready.")] = 0
    selector: Annotated[str, described("Label selector of the pods, for autoscalers.")] = ""


HEALTH = (
    Column("READY", "string", f'.status.conditions[?(@.type=="{READY}")].status'),
    Column("REASON", "string", f'.status.conditions[?(@.type=="{READY}")].reason', wide=True),
)
