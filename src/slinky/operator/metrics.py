# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics of the operator; docs/operator/metrics.md describes them."""

import contextlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from slinky.kube.types import Key
from slinky.observe.metrics import counter, gauge, histogram

WRITES = counter("slinky_operator_writes_total", "Write requests to the Kubernetes API server.", "verb", "kind")
SLURM_WRITES = counter("slinky_operator_slurm_writes_total", "Write requests to Slurm.", "action")
ACTIONS = counter("slinky_operator_actions_total", "Actions carried out on workers.", "action")
AWAITING_DRAIN = gauge(
    "slinky_operator_awaiting_drain_pods",
    "Workers that are chosen for removal, by cause and by what the removal waits for.",
    "namespace",
    "nodeset",
    "cause",
    "waiting",
)
LONGEST_DRAIN = gauge(
    "slinky_operator_longest_drain_seconds",
    "Seconds since the removal of the longest waiting worker was decided.",
    "namespace",
    "nodeset",
)
DELETIONS_LIMITED = counter(
    "slinky_operator_deletions_limited_total",
    "Deletions of workers that the rate limit has deferred.",
    "namespace",
    "nodeset",
)
DELETIONS_LIMITED_PODS = gauge(
    "slinky_operator_deletions_limited_pods",
    "Workers whose deletion the rate limit defers now.",
    "namespace",
    "nodeset",
)
SLURM_UP = gauge("slinky_operator_slurm_up", "1 while slurmctld answers, otherwise 0.", "namespace", "controller")
SLURM_AGE = gauge(
    "slinky_operator_slurm_view_age_seconds",
    "Age of the operator's copy of Slurm's nodes.",
    "namespace",
    "controller",
)
SLURM_CALLS = histogram(
    "slinky_operator_slurm_call_seconds",
    "Duration of requests to slurmrestd.",
    "namespace",
    "controller",
    "method",
    "status",
)
SLURM_ERRORS = counter(
    "slinky_operator_slurm_errors_total", "Failed requests to slurmrestd.", "namespace", "controller", "kind"
)
CONFIG_WANTED = gauge(
    "slinky_operator_config_generation_wanted",
    "Number of the configuration generation that the spec asks for.",
    "namespace",
    "controller",
)
CONFIG_LOADED = gauge(
    "slinky_operator_config_generation_loaded",
    "Number of the configuration generation that slurmctld reports.",
    "namespace",
    "controller",
)
CONFIG_TRIALS = counter("slinky_operator_config_trials_total", "Finished configuration trials.", "verdict")
NODESET_WORKERS = gauge(
    "slinky_operator_nodeset_workers", "Workers of a NodeSet, by state.", "namespace", "nodeset", "state"
)
ROLLOUT_START = gauge(
    "slinky_operator_rollout_start_timestamp_seconds",
    "When the operator first saw the rollout that is under way; 0 if every worker has the newest revision.",
    "namespace",
    "nodeset",
)
TOKEN_EXPIRY = gauge(
    "slinky_operator_token_expiry_timestamp_seconds", "When the credential of a Token expires.", "namespace", "token"
)
WORKERS_WANTED = gauge(
    "slinky_operator_workers_wanted",
    "Number of workers that the latest decision of the autoscaler asks for.",
    "namespace",
    "nodeset",
)
WORKERS_NOT_GRANTED = gauge(
    "slinky_operator_workers_not_granted",
    "Workers that pending jobs need and that the latest decision of the autoscaler does not grant.",
    "namespace",
    "nodeset",
)
AUTOSCALINGS = counter(
    "slinky_operator_autoscalings_total",
    "Changes of replicas by the autoscaler.",
    "namespace",
    "nodeset",
    "reason",
)
DRAIN_SECONDS = histogram(
    "slinky_operator_drain_seconds",
    "Seconds from the decision to remove a worker to its deletion.",
    "cause",
    buckets=(1, 5, 15, 60, 300, 900, 3600, 14400, 86400),
)
DEFINITION_FIELDS = gauge(
    "slinky_operator_definition_fields",
    "Fields of a kind that only the operator (missing) or only the cluster (additional) knows.",
    "kind",
    "difference",
)


class DrainWait(NamedTuple):
    """Why a worker is removed, and what its removal waits for."""

    cause: str
    waiting: str


class DrainMetrics:
    """Publishes the removals that a NodeSet waits for, and removes label sets that no longer apply."""

    def __init__(self) -> None:
        self._published: dict[Key, set[DrainWait]] = {}

    def publish(self, node_set: Key, waits: Mapping[DrainWait, int], longest: float, limited: int) -> None:
        """Set the metrics of a NodeSet; `limited` is the number of deletions that the rate limit defers."""
        for labels in self._published.get(node_set, set()) - waits.keys():
            AWAITING_DRAIN.remove(*node_set, *labels)
        for labels, number in waits.items():
            AWAITING_DRAIN.labels(*node_set, *labels).set(number)
        self._published[node_set] = set(waits)
        LONGEST_DRAIN.labels(*node_set).set(longest)
        DELETIONS_LIMITED_PODS.labels(*node_set).set(limited)

    def forget(self, node_set: Key) -> None:
        """Remove the metrics of a NodeSet that no longer exists."""
        for labels in self._published.pop(node_set, set()):
            AWAITING_DRAIN.remove(*node_set, *labels)
        for metric in (LONGEST_DRAIN, DELETIONS_LIMITED_PODS):
            with contextlib.suppress(KeyError):
                metric.remove(*node_set)


#: States of workers, by the field of the NodeSet's status that counts them.
WORKER_STATES = {
    "desired": "desired",
    "replicas": "existing",
    "updated_replicas": "updated",
    "ready_replicas": "ready",
    "available_replicas": "available",
    "slurm_idle": "idle",
    "slurm_allocated": "allocated",
    "slurm_down": "down",
    "slurm_drain": "draining",
}


class WorkerMetrics:
    """Publishes how many workers a NodeSet has, and since when it rolls out a revision."""

    def __init__(self) -> None:
        self._rollouts: dict[Key, tuple[object, float]] = {}

    def publish(self, node_set: Key, numbers: Mapping[str, Any], now: float) -> None:
        """Set the metrics of a NodeSet from the numbers of its status; `now` is in seconds since the epoch."""
        for field, state in WORKER_STATES.items():
            NODESET_WORKERS.labels(*node_set, state).set(numbers[field])
        if numbers["updated_replicas"] >= numbers["replicas"]:
            self._rollouts.pop(node_set, None)
        elif self._rollouts.get(node_set, ("", 0.0))[0] != numbers["node_set_hash"]:
            self._rollouts[node_set] = numbers["node_set_hash"], now
        ROLLOUT_START.labels(*node_set).set(self._rollouts.get(node_set, ("", 0.0))[1])

    def forget(self, node_set: Key) -> None:
        """Remove the metrics of a NodeSet that no longer exists."""
        self._rollouts.pop(node_set, None)
        with contextlib.suppress(KeyError):
            ROLLOUT_START.remove(*node_set)
        for state in WORKER_STATES.values():
            with contextlib.suppress(KeyError):
                NODESET_WORKERS.remove(*node_set, state)


def failure_kind(status: int | None) -> str:
    """Classify a failed request by its HTTP status (None: no response); empty for a request that succeeded."""
    if status is None:
        return "unreachable"
    if status in {401, 403}:
        return "denied"
    return "failed" if status >= 500 else ""
