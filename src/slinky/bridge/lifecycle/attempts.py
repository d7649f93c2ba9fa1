# SPDX-License-Identifier: Apache-2.0
"""What earlier attempts showed, so that they are not repeated at once: rejections, unsuitable hosts, evictions.

All of it is in memory. After a restart the bridge learns it again, one attempt each.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from slinky.bridge.lifecycle.decide.actions import Action, EvictionLimit, EvictPods
from slinky.bridge.lifecycle.snapshot import AvoidedHost, Refusal, SubmissionFacts
from slinky.bridge.status.rejections import REJECTIONS
from slinky.bridge.workload.grouping import Workload
from slinky.kube.queue import backoff_seconds
from slinky.kube.rate_limit import RateLimit
from slinky.observe import Clock
from slinky.slurm import Rejected

#: Slurm's error for a host that does not exist: the next attempt does not exclude it any more.
UNKNOWN_HOST = 2018
#: Delays after a rejection, first and longest: of a host that no longer exists, of a request that cannot succeed
#: without a change, and of any other request, such as one that exceeds a limit at the moment.
UNKNOWN_HOST_DELAYS, LASTING_DELAYS, PASSING_DELAYS = (3.0, 60.0), (60.0, 1800.0), (60.0, 120.0)
#: When hosts have changed, rejected requests are tried again within this many seconds.
CHANGED_HOSTS_DELAY = 60.0
#: Rejections of a namespace within `NAMESPACE_WINDOW` seconds; then its submissions wait. Each of them may leave a
#: record in slurmctld and in accounting.
NAMESPACE_REFUSALS, NAMESPACE_WINDOW = 50, 600.0
#: The same pods are submitted this often without a delay; then the delay doubles, up to the longest.
FREE_SUBMISSIONS, SUBMISSION_DELAYS = 3, (2.0, 300.0)
#: Submissions of the same pods are counted together if they are at most this many seconds apart.
SUBMISSION_MEMORY = 1800.0
#: A host that did not suit is excluded for this long, unless it changes: at first, and after repetitions.
AVOIDANCE_DELAYS = (30.0, 1800.0)
#: After a loss of jobs, new submissions pause for this many seconds, so that running pods get their nodes back first.
PAUSE_AFTER_LOSS = 15.0
#: Seconds in which the limits of evictions count.
EVICTION_WINDOW = 600.0
#: The number of jobs with running pods is counted again after this many seconds.
COUNT_SECONDS = 10.0
#: With more entries than this, those that have expired are dropped.
MAX_ENTRIES = 10_000


@dataclass(frozen=True, slots=True)
class _Entry:
    """Something that failed `count` times in a row, and until when it is not tried again."""

    count: int
    until: float
    problem: str
    number: int = 0


K = TypeVar("K")


class Evictions:
    """The limits of evictions that neither a person nor a rule of Slurm asked for."""

    def __init__(
        self, clock: Clock, lost_limit: int, failed_minimum: int, failed_share: float, count_jobs: Callable[[], int]
    ) -> None:
        """`lost_limit` counts pods, `failed_minimum` counts jobs; `count_jobs` counts the jobs with running pods."""
        self._clock, self._lost_limit = clock, lost_limit
        self._failed_minimum, self._failed_share, self._count_jobs = failed_minimum, failed_share, count_jobs
        self._lost, self._failed = RateLimit(EVICTION_WINDOW), RateLimit(EVICTION_WINDOW)
        self._counted: tuple[float, int] = (float("-inf"), 0)

    def lost_left(self) -> int:
        """How many pods of lost jobs may be evicted now."""
        return self._lost.remaining(self._lost_limit, self._clock.monotonic())

    def failed_left(self) -> int:
        """How many failed jobs may have their pods evicted now."""
        now = self._clock.monotonic()
        if now - self._counted[0] > COUNT_SECONDS:
            # Evicted pods are gone a moment later; they still count as part of the whole.
            self._counted = now, self._count_jobs() + self._failed.recent(now)
        return self._failed.remaining(max(self._failed_minimum, int(self._counted[1] * self._failed_share)), now)

    def record(self, planned: Iterable[Action]) -> None:
        """Count the evictions of a plan. Called before anything else happens, so that no other plan uses them too."""
        now = self._clock.monotonic()
        for action in planned:
            if isinstance(action, EvictPods) and action.limit is EvictionLimit.LOST:
                for _ in action.pods:
                    self._lost.record(now)
            elif isinstance(action, EvictPods) and action.limit is EvictionLimit.FAILED:
                self._failed.record(now)


class Attempts:
    """The memory of earlier submissions and placements."""

    def __init__(self, clock: Clock, evictions: Evictions, rng: random.Random | None = None) -> None:
        self.evictions = evictions
        self._clock, self._rng = clock, rng or random.Random()  # noqa: S311
        self._refusals: dict[tuple[str, str, str], _Entry] = {}  # by namespace, job and digest of the request
        self._namespaces: dict[str, deque[float]] = {}  # times of rejections
        self._submissions: dict[str, _Entry] = {}  # by digest of the pods
        self._avoided: dict[Workload, dict[str, _Entry]] = {}  # by host
        self._avoiding: dict[str, set[Workload]] = {}  # by host
        self._paused_until = float("-inf")

    # --- rejections

    def record_refusal(self, namespace: str, job: str, digest: str, error: Rejected) -> None:
        """Slurm rejected a submission, or an update of `job`."""
        now, key = self._clock.monotonic(), (namespace, job, digest)
        if error.number == UNKNOWN_HOST:
            delays = UNKNOWN_HOST_DELAYS
        else:
            delays = LASTING_DELAYS if error.number in REJECTIONS else PASSING_DELAYS
        count = self._refusals[key].count if key in self._refusals else 0
        until = now + self._backoff(count, delays)
        self._refusals[key] = _Entry(count + 1, until, error.text, error.number)
        self._namespaces.setdefault(namespace, deque(maxlen=NAMESPACE_REFUSALS)).append(now)
        self._refusals = _prune(self._refusals, now)

    @property
    def has_refusals(self) -> bool:
        """Whether any request was rejected and not accepted since."""
        return bool(self._refusals)

    def refusal(self, namespace: str, job: str, digest: str) -> Refusal | None:
        """The last rejection of the same request in this namespace, while it is not tried again."""
        entry, now = self._refusals.get((namespace, job, digest)), self._clock.monotonic()
        return Refusal(entry.number, entry.problem, entry.until - now) if entry and entry.until > now else None

    def record_acceptance(self, namespace: str, job: str, digest: str) -> None:
        """Slurm accepted a request."""
        self._refusals.pop((namespace, job, digest), None)

    def hosts_changed(self) -> None:
        """Rejected requests may succeed now: try them again soon."""
        now = self._clock.monotonic()
        for key, entry in self._refusals.items():
            soon = now + self._rng.uniform(0.0, CHANGED_HOSTS_DELAY)
            self._refusals[key] = _Entry(entry.count, min(entry.until, soon), entry.problem, entry.number)

    def _namespace_delay(self, namespace: str, now: float) -> float:
        times = self._namespaces.get(namespace)
        return times[0] + NAMESPACE_WINDOW - now if times and len(times) == NAMESPACE_REFUSALS else 0.0

    # --- submissions

    def record_submission(self, members: str) -> None:
        """The pods with this digest were submitted."""
        now, old = self._clock.monotonic(), self._submissions.get(members)
        count = old.count + 1 if old is not None and now - old.until < SUBMISSION_MEMORY else 1
        delay = self._backoff(count - FREE_SUBMISSIONS, SUBMISSION_DELAYS) if count >= FREE_SUBMISSIONS else 0.0
        self._submissions[members] = _Entry(count, now + delay, "")
        self._submissions = _prune(self._submissions, now - SUBMISSION_MEMORY)

    def submission_facts(self, workload: Workload, members: str) -> SubmissionFacts:
        """Until when the pods with this digest wait because of earlier attempts."""
        now, last = self._clock.monotonic(), self._submissions.get(members)
        return SubmissionFacts(
            delay=last.until - now if last else 0.0,
            namespace_delay=self._namespace_delay(workload.namespace, now),
        )

    def pause(self) -> None:
        """Pause new submissions for a short time after a lost job: they could take the nodes of running pods."""
        self._paused_until = self._clock.monotonic() + PAUSE_AFTER_LOSS

    def pause_left(self) -> float:
        """Seconds until submissions continue."""
        return max(0.0, self._paused_until - self._clock.monotonic())

    # --- hosts that did not suit

    def avoid(self, workload: Workload, host: str, problem: str) -> None:
        """Exclude a host from the next submissions of a workload, longer with each repetition."""
        hosts, now = self._avoided.setdefault(workload, {}), self._clock.monotonic()
        count = hosts[host].count if host in hosts else 0
        hosts[host] = _Entry(count + 1, now + self._backoff(count, AVOIDANCE_DELAYS), problem)
        self._avoiding.setdefault(host, set()).add(workload)

    def reconsider_host(self, host: str) -> set[Workload]:
        """A host changed in a way that decides which pods it suits: exclude it no longer. Returns the workloads.

        The repetitions still count, so that a host that changes often and never suits is tried ever less often.
        """
        now, workloads = self._clock.monotonic(), self._avoiding.pop(host, set())
        for workload in workloads:
            hosts = self._avoided[workload]
            hosts[host] = replace(hosts[host], until=min(hosts[host].until, now))
        return workloads

    def avoided_hosts(self, workload: Workload) -> tuple[AvoidedHost, ...]:
        """The hosts that a workload does not use at the moment."""
        now = self._clock.monotonic()
        entries = self._avoided.get(workload, {}).items()
        return tuple(
            AvoidedHost(host, entry.problem, entry.until - now) for host, entry in entries if entry.until > now
        )

    def forget(self, workload: Workload) -> None:
        """The workload has no pods any more."""
        for host in self._avoided.pop(workload, {}):
            if host in self._avoiding:
                self._avoiding[host].discard(workload)
                if not self._avoiding[host]:
                    del self._avoiding[host]

    def _backoff(self, attempt: int, delays: tuple[float, float]) -> float:
        return backoff_seconds(attempt, rng=self._rng, floor=delays[0], ceiling=delays[1])


def _prune(entries: dict[K, _Entry], now: float) -> dict[K, _Entry]:
    """The entries without those that have expired, if there are many."""
    if len(entries) <= MAX_ENTRIES:
        return entries
    return {key: entry for key, entry in entries.items() if entry.until > now}
