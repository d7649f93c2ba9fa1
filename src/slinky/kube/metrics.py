# SPDX-License-Identifier: Apache-2.0
"""Every metric of this package.

Metrics that controller-runtime and client-go have too keep their names, so that existing dashboards and alerts work
unchanged.
"""

from slinky.observe import counter, gauge, histogram

REQUESTS = counter(
    "rest_client_requests_total", "Requests to the Kubernetes API server, by method and status code.", "method", "code"
)

WATCH_EVENTS = counter("slinky_watch_events_total", "Watch events received from the API server.", "resource")
WATCH_STARTS = counter(
    "slinky_watch_starts_total",
    "Watch requests sent: a new list, a streamed list or a resumed watch.",
    "resource",
    "how",
)
WATCH_ENDS = counter("slinky_watch_ends_total", "Watch requests that ended, by cause.", "resource", "why")
UNDECODABLE_OBJECTS = counter(
    "slinky_odd_objects_total", "Versions of objects that could not be decoded and were skipped.", "resource"
)
LISTENER_ERRORS = counter(
    "slinky_listener_errors_total",
    "Changes of objects that a listener or an index of the cache could not handle because of an unexpected error.",
    "resource",
)
CACHED = gauge("slinky_cached_objects", "Objects in the cache.", "resource")

QUEUE_DEPTH = gauge("workqueue_depth", "Keys in the queue that are ready for a worker.", "name")
QUEUE_ADDS = counter("workqueue_adds_total", "Keys that became ready for a worker.", "name")
QUEUE_RETRIES = counter("workqueue_retries_total", "Keys that were queued again after a failed reconcile.", "name")
QUEUE_WAIT = histogram(
    "workqueue_queue_duration_seconds", "Time from when a key is ready until a worker takes it.", "name"
)
QUEUE_WORK = histogram("workqueue_work_duration_seconds", "Duration of a reconcile.", "name")

RECONCILES = counter("controller_runtime_reconcile_total", "Reconciles, by result.", "controller", "result")
RECONCILE_ERRORS = counter(
    "controller_runtime_reconcile_errors_total", "Reconciles that ended with an error.", "controller"
)
WORKERS_BUSY = gauge("controller_runtime_active_workers", "Workers that are running a reconcile.", "controller")

LEADING = gauge("leader_election_master_status", "1 while this process is the leader, otherwise 0.", "name")
EVENTS_SENT = counter(
    "slinky_events_total",
    "Kubernetes events: written, refused by the API server, or muted by the rate limit of their object.",
    "fate",
)
ADMISSIONS = counter("slinky_admission_reviews_total", "Admission reviews, by path and result.", "path", "result")
ADMISSION_TIME = histogram("slinky_admission_seconds", "Time to answer an admission review.", "path")
