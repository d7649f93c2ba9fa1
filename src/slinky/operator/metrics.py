# SPDX-License-Identifier: Apache-2.0
"""What the operator counts: see docs/operator/metrics.md."""

import contextlib
from collections.abc import Mapping
from typing import NamedTuple

from slinky.kube.types import Key
from slinky.observe.metrics import counter, gauge, histogram

WRITES = counter("slinky_operator_writes_total", "Requests that change something in Kubernetes.", "verb", "kind")
SLURM_WRITES = counter("slinky_operator_slurm_writes_total", "Requests that change something in Slurm.", "action")
ACTIONS = counter("slinky_operator_actions_total", "Steps carried out on workers.", "action")
AWAITING = gauge(
    "slinky_operator_awaiting_drain_pods",
    "Workers that have to go, by why and by what they wait for.",
    "namespace",
    "nodeset",
    "cause",
    "waiting",
)
LONGEST_WAIT = gauge(
    "slinky_operator_longest_drain_seconds", "For how long the first of them has waited.", "namespace", "nodeset"
)
BRAKED = counter("slinky_operator_braked_total", "Deletions put off by the brake.", "namespace", "nodeset")
BRAKING = gauge("slinky_operator_braked_pods", "Workers that the brake holds now.", "namespace", "nodeset")
SLURM_UP = gauge("slinky_operator_slurm_up", "1 while slurmctld answers.", "namespace", "controller")
SLURM_AGE = gauge("slinky_operator_slurm_view_age_seconds", "Age of what is known of Slurm.", "namespace", "controller")
SLURM_CALLS = histogram(
    "slinky_operator_slurm_call_seconds", "Time of calls to slurmrestd.", "namespace", "controller", "method", "status"
)
SLURM_ERRORS = counter(
    "slinky_operator_slurm_errors_total", "Calls to slurmrestd that failed.", "namespace", "controller", "kind"
)
CONFIG_WANTED = gauge(
    "slinky_operator_config_generation_wanted", "Configuration that the spec asks for.", "namespace", "controller"
)
CONFIG_LOADED = gauge(
    "slinky_operator_config_generation_loaded", "Configuration that slurmctld says it runs.", "namespace", "controller"
)
CONFIG_TRIALS = counter("slinky_operator_config_trials_total", "Trials of configurations that ended.", "verdict")
DRAIN_SECONDS = histogram(
    "slinky_operator_drain_seconds",
    "From the choice of a worker to its deletion.",
    "cause",
    buckets=(1, 5, 15, 60, 300, 900, 3600, 14400, 86400),
)


class Wait(NamedTuple):
    """Why a worker has to go, and what it waits for."""

    cause: str
    waiting: str


class Awaiting:
    """Shows who waits for what, and takes back what holds no more."""

    def __init__(self) -> None:
        self._shown: dict[Key, set[Wait]] = {}

    def show(self, key: Key, found: Mapping[Wait, int], longest: float, braked: int) -> None:
        """What is true of a NodeSet now."""
        for labels in self._shown.get(key, set()) - found.keys():
            AWAITING.remove(*key, *labels)
        for labels, number in found.items():
            AWAITING.labels(*key, *labels).set(number)
        self._shown[key] = set(found)
        LONGEST_WAIT.labels(*key).set(longest)
        BRAKING.labels(*key).set(braked)

    def forget(self, key: Key) -> None:
        """A NodeSet is gone."""
        for labels in self._shown.pop(key, set()):
            AWAITING.remove(*key, *labels)
        for shown in (LONGEST_WAIT, BRAKING):
            with contextlib.suppress(KeyError):
                shown.remove(*key)


def kind_of_failure(status: int | None) -> str:
    """One word for an answer that is none; empty for a good one."""
    if status is None:
        return "unreachable"
    if status in {401, 403}:
        return "denied"
    return "failed" if status >= 500 else ""
