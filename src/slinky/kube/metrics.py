# SPDX-License-Identifier: Apache-2.0
"""Every metric of this package, in one table.

Names that controller-runtime and client-go made customary are kept, so that existing dashboards and alerts
work unchanged.
"""

from slinky.observe import counter, gauge, histogram

REQUESTS = counter("rest_client_requests_total", "Requests to the API server.", "method", "code")

WATCH_EVENTS = counter("slinky_watch_events_total", "Watch events received.", "resource")
WATCH_STARTS = counter("slinky_watch_starts_total", "Watch requests, by how they began.", "resource", "how")
WATCH_ENDS = counter("slinky_watch_ends_total", "Watch requests that ended, by why.", "resource", "why")
UNDECODABLE_OBJECTS = counter("slinky_odd_objects_total", "Objects of an unexpected shape.", "resource")
CACHED = gauge("slinky_cached_objects", "Objects held in a cache.", "resource")

QUEUE_DEPTH = gauge("workqueue_depth", "Keys ready and waiting.", "name")
QUEUE_ADDS = counter("workqueue_adds_total", "Keys made ready.", "name")
QUEUE_RETRIES = counter("workqueue_retries_total", "Keys put back after a failure.", "name")
QUEUE_WAIT = histogram("workqueue_queue_duration_seconds", "How long a ready key waited.", "name")
QUEUE_WORK = histogram("workqueue_work_duration_seconds", "How long a key was worked on.", "name")

RECONCILES = counter("controller_runtime_reconcile_total", "Reconciles, by result.", "controller", "result")
RECONCILE_ERRORS = counter("controller_runtime_reconcile_errors_total", "Failed reconciles.", "controller")
WORKERS_BUSY = gauge("controller_runtime_active_workers", "Workers in a reconcile.", "controller")

LEADING = gauge("leader_election_master_status", "1 while this process leads.", "name")
EVENTS_SENT = counter("slinky_events_total", "Events recorded, by fate.", "fate")
ADMISSIONS = counter("slinky_admission_reviews_total", "Admission reviews, by path and result.", "path", "result")
ADMISSION_TIME = histogram("slinky_admission_seconds", "Time to answer an admission review.", "path")
