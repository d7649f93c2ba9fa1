# SPDX-License-Identifier: Apache-2.0
"""All metrics of the bridge."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from slinky.observe import counter, gauge, histogram
from slinky.observe.metrics import REGISTRY
from slinky.slurm import RequestRecord

JOBS = gauge("slinky_bridge_jobs", "Slurm jobs that the bridge tracks.")
SLURM_AGE = gauge("slinky_bridge_slurm_age_seconds", "Age of the bridge's copy of Slurm's state.")

TOKEN_EXPIRY = gauge(
    "slinky_bridge_token_expiry_timestamp_seconds", "When the token of the bridge expires; 0 if it cannot be read."
)
EVICTIONS_LEFT = gauge(
    "slinky_bridge_evictions_left",
    "Evictions that the rate limit allows now: of pods whose job was lost, and of jobs that failed.",
    "limit",
)


class WaitingPods(NamedTuple):
    """Pods that wait for one reason."""

    number: int
    oldest_seconds: float


class WaitingPodsCollector(Collector):
    """Pods without a node by the reason of their condition; counted when they are scraped."""

    def __init__(self) -> None:
        self._count: Callable[[], Mapping[str, WaitingPods]] = dict

    def set_function(self, count: Callable[[], Mapping[str, WaitingPods]]) -> None:
        """Count the pods with this function."""
        self._count = count

    def collect(self) -> Iterator[Metric]:
        """The two metrics."""
        number = GaugeMetricFamily(
            "slinky_bridge_waiting_pods",
            "Pods that wait for a node, by the reason of their condition.",
            labels=("reason",),
        )
        age = GaugeMetricFamily(
            "slinky_bridge_waiting_pods_oldest_seconds",
            "Age of the oldest pod that waits for a node, by the reason of its condition.",
            labels=("reason",),
        )
        for reason, pods in sorted(self._count().items()):
            number.add_metric([reason], pods.number)
            age.add_metric([reason], pods.oldest_seconds)
        yield from (number, age)

    def describe(self) -> list[Metric]:
        """No metric is known before pods have been read."""
        return []


WAITING_PODS = WaitingPodsCollector()
REGISTRY.register(WAITING_PODS)

FOREIGN_PODS = gauge(
    "slinky_bridge_foreign_pods",
    "Pods of other schedulers on the nodes of the bridge, except those of DaemonSets, static pods and pods of Slurm.",
)

SUBMISSIONS = counter(
    "slinky_bridge_submissions_total",
    "Slurm jobs submitted: allocate (immediate allocation), submit (queued), "
    "reclaim (replaces the lost job of running pods).",
    "how",
)
SLURM_CALLS = histogram("slinky_bridge_slurm_call_seconds", "Duration of requests to slurmrestd.", "method", "status")
SUBMIT_SECONDS = histogram("slinky_bridge_submit_seconds", "Time that Slurm took to accept a job.")
PLACE_SECONDS = histogram(
    "slinky_bridge_place_seconds", "Time from an observed allocation until all its pods were bound."
)
BINDS = counter("slinky_bridge_binds_total", "Pods bound to a node.")
EVICTIONS = counter("slinky_bridge_evictions_total", "Pods deleted because their Slurm job ended, by reason.", "reason")
RECOVERED_PODS = counter(
    "slinky_bridge_reclaimed_total",
    "Running pods whose Slurm job was lost: kept (a new job replaced it) or evicted.",
    "how",
)
JOBS_FOUND = counter(
    "slinky_bridge_jobs_found_total",
    "Live Slurm jobs of the bridge that it did not know: adopted (submitted before a restart or by a request without "
    "a response) or returned (ended, and running again because slurmctld lost its end).",
    "how",
)
OTHER_BRIDGE_JOBS = gauge(
    "slinky_bridge_other_bridge_jobs",
    "Live Slurm jobs that another bridge of this Kubernetes cluster submitted, or this bridge under a former name that "
    "is not in formerBridgeIds.",
    "bridge",
)
JOBS_ENDED = counter(
    "slinky_bridge_jobs_ended_total", "Slurm jobs that the bridge ended, by the outcome of their pods.", "outcome"
)
OUTCOMES = counter(
    "slinky_bridge_outcomes_total",
    "Outcomes of pods for accounting: recorded, late (the pods were released before it was recorded) or dropped.",
    "result",
)
COMPLETIONS = counter(
    "slinky_bridge_completions_total", "Requests to slurm-complete to end a job, by result: done or refused.", "result"
)
NODE_STEPS = counter("slinky_bridge_node_steps_total", "Actions taken for nodes and Slurm hosts, by kind.", "step")


def count_call(request: RequestRecord) -> None:
    """Count a request to slurmrestd; the status is empty if there was no response."""
    SLURM_CALLS.labels(request.method, "" if request.status is None else request.status).observe(request.seconds)
