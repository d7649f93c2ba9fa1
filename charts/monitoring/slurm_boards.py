# SPDX-License-Identifier: Apache-2.0
"""The dashboards of a Slurm cluster, from the metrics of the exporter."""

from charts.monitoring.description import CLUSTER, JOB, Board, Panel, PanelKind, Query, graph, number
from charts.monitoring.exporter_queries import GPUS, m, quantile, rate, share
from charts.monitoring.resource_boards import ACCOUNTS, GPU, TOPOLOGY

REQUIRED_SOURCES = 'source!~"limits|native"'
LIVE_SOURCES = 'source=~"jobs|nodes|statistics"'
THIS_JOB = 'job=~"$job"'
PENDING = m("jobs", state="pending")
RUNNING = m("jobs", state="running")


def gpu_time_share(window: str) -> str:
    """GPU time that was allocated, as a share of all GPU time."""
    allocated = m("gpu_seconds_total", state="allocated")
    return f"sum(increase({allocated}[{window}])) / sum(increase({m('gpu_seconds_total')}[{window}]))"


OVERVIEW = Board(
    "slinky-overview",
    "Slurm / Overview",
    "Is the cluster healthy and busy, and how long is the queue?",
    "slurm",
    (
        number("CPUs allocated", share(m("cluster_cpus", state="allocated"), m("cluster_cpus")), "percentunit"),
        number(
            "GPUs allocated", share(m("cluster_gres", GPUS, state="allocated"), m("cluster_gres", GPUS)), "percentunit"
        ),
        number("GPU time allocated, 1 day", gpu_time_share("1d"), "percentunit"),
        number("GPU time allocated, 7 days", gpu_time_share("7d"), "percentunit"),
        number(
            "Nodes in service",
            share(m("cluster_nodes", 'state!~"down|drained|draining|error|fail"'), m("cluster_nodes")),
            "percentunit",
        ),
        number("Slurm readable", f"min({m('up', REQUIRED_SOURCES)})", "bool_yes_no"),
        number("Running jobs", f"sum({RUNNING}) or vector(0)"),
        number("Pending jobs", f"sum({PENDING}) or vector(0)"),
        number("Longest wait", f"max({m('pending_oldest_eligible_seconds')}) or vector(0)", "s"),
        number("Failures of nodes, 7 days", f"sum(increase({m('node_failures_total')}[7d])) or vector(0)"),
        number(
            "Node hours per failure, 7 days",
            f"168 * sum({m('cluster_nodes')}) / clamp_min(sum(increase({m('node_failures_total')}[7d])) or "
            "vector(0), 1)",
            "h",
        ),
        number("Age of the data", f"max({m('source_age_seconds', LIVE_SOURCES)})", "s"),
        graph("Jobs by state", f"sum by (state) ({m('jobs')})", "{{state}}", stacked=True),
        graph("Nodes by state", f"sum by (state) ({m('cluster_nodes')})", "{{state}}", stacked=True),
        graph("CPUs by use", f"sum by (state) ({m('cluster_cpus')})", "{{state}}", stacked=True),
        graph("Jobs that ended, by state", f"sum by (state) ({rate('jobs_ended_total')})", "{{state}}", "ops"),
    ),
    (CLUSTER,),
)

QUEUE = Board(
    "slinky-queue",
    "Slurm / Queue",
    "Why do jobs wait, for how long, and for what?",
    "slurm",
    (
        graph("Pending jobs by reason", f"sum by (reason) ({m('jobs_pending')})", "{{reason}}", stacked=True),
        graph("Pending jobs by partition", f"sum by (partition) ({PENDING})", "{{partition}}", stacked=True),
        Panel(
            "Wait of jobs that started in the last hour",
            (quantile(0.5, "job_wait_seconds", "partition"), quantile(0.95, "job_wait_seconds", "partition")),
            "s",
            description="From the moment a job was eligible to its start.",
        ),
        Panel(
            "Wait by QOS",
            (quantile(0.5, "job_wait_seconds", "qos"), quantile(0.95, "job_wait_seconds", "qos")),
            "s",
        ),
        graph("Longest wait now", f"max by (partition) ({m('pending_oldest_eligible_seconds')})", "{{partition}}", "s"),
        graph(
            "Time until jobs are eligible (p95)",
            quantile(0.95, "job_eligible_delay_seconds", "partition").expression,
            "{{partition}}",
            "s",
        ),
        Panel(
            "CPUs: requested by pending jobs, and idle",
            (
                Query(f"sum({m('pending_cpus')}) or vector(0)", "requested"),
                Query(f"sum({m('cluster_cpus', state='idle')})", "idle"),
            ),
        ),
        Panel(
            "Memory: requested by pending jobs, and idle",
            (
                Query(f"sum({m('pending_memory_bytes')}) or vector(0)", "requested"),
                Query(f"sum({m('cluster_memory_bytes', state='idle')})", "idle"),
            ),
            "bytes",
        ),
        graph(
            "GPUs that pending jobs request",
            f"sum by (partition, type) ({m('pending_gres', GPUS)})",
            "{{partition}} {{type}}",
        ),
        Panel(
            "Nodes that single pending jobs request",
            (
                Query(f"max by (partition) ({m('pending_largest_job_nodes')})", "largest {{partition}}"),
                Query(f"min by (partition) ({m('pending_smallest_job_nodes')})", "smallest {{partition}}"),
            ),
        ),
        graph(
            "Pending jobs that more nodes would start",
            f"sum by (partition) ({m('pending_scalable_jobs')})",
            "{{partition}}",
            description="Without jobs that are held, limited, or wait for other jobs.",
        ),
        Panel(
            "Jobs submitted and started",
            (
                Query(f"sum({rate('jobs_submitted_total')})", "submitted"),
                Query(f"sum({rate('jobs_started_total')})", "started"),
                Query(f"sum({rate('jobs_backfilled_total')})", "of these by backfill"),
            ),
            "ops",
        ),
        Panel(
            "Error of forecasts of starts",
            (quantile(0.5, "forecast_error_seconds", "source"), quantile(0.9, "forecast_error_seconds", "source")),
            "s",
            description="Difference between the start of a job and its first forecast.",
        ),
        graph(
            "Starts before, within and after the range of their forecast, in an hour",
            f"sum by (source, outcome) (increase({m('forecast_starts_total')}[1h]))",
            "{{source}} {{outcome}}",
            stacked=True,
        ),
        graph(
            "Run time as a share of the time limit (p50)",
            quantile(0.5, "job_limit_use_ratio", "partition").expression,
            "{{partition}}",
            "percentunit",
            description=(
                "Small values mean that users ask for far more time than jobs need, which makes backfill worse."
            ),
        ),
    ),
    (CLUSTER,),
)

NODES = Board(
    "slinky-nodes",
    "Slurm / Nodes and drains",
    "Which nodes are out of service, since when, and who drained them?",
    "slurm",
    (
        graph(
            "Nodes by partition and state",
            f"sum by (partition, state) ({m('nodes')})",
            "{{partition}} {{state}}",
            stacked=True,
        ),
        graph("Flags of nodes", f"sum by (flag) ({m('node_flags')})", "{{flag}}"),
        graph("Drains by owner", f"sum by (owner) ({m('nodes_draining')})", "{{owner}}", stacked=True),
        graph("Oldest drain by owner", f"max by (owner) ({m('node_drain_oldest_seconds')})", "{{owner}}", "s"),
        graph(
            "Duration of drains that ended (p50, 7 days)",
            f"histogram_quantile(0.5, sum by (le, owner) (increase({m('node_drain_seconds_bucket')}[7d])))",
            "{{owner}}",
            "s",
        ),
        graph(
            "Failures of nodes in a day",
            f"sum by (partition) (increase({m('node_failures_total')}[1d]))",
            "{{partition}}",
        ),
        graph(
            "How long failed nodes were out of service (p50, 7 days)",
            f"histogram_quantile(0.5, sum by (le, partition) (increase({m('node_unavailable_seconds_bucket')}[7d])))",
            "{{partition}}",
            "s",
        ),
        graph(
            "CPUs in use by node, highest 20",
            f"topk(20, {m('node_cpus_allocated')} / {m('node_cpus')} > 0)",
            "{{node}}",
            "percentunit",
            description="Only in clusters with up to nodesMax nodes.",
        ),
        Panel(
            "Reservations",
            (
                Query(m("reservation_nodes"), "{{reservation}} nodes"),
                Query(m("reservation_busy_nodes"), "{{reservation}} busy"),
                Query(m("reservation_unavailable_nodes"), "{{reservation}} unavailable"),
            ),
        ),
        graph("Licences", m("licenses"), "{{license}} {{state}}"),
    ),
    (CLUSTER,),
)

SLURMCTLD = Board(
    "slinky-slurmctld",
    "Slurm / slurmctld",
    "Is slurmctld overloaded, which users send the requests, and does the scheduler keep up?",
    "slurm",
    (
        graph(
            "Requests by type", f"topk(10, sum by (type) ({rate('controller_requests_total')}))", "{{type}}", "reqps"
        ),
        graph(
            "Time spent on requests, by type",
            f"topk(10, sum by (type) ({rate('controller_request_seconds_total')}))",
            "{{type}}",
            "percentunit",
        ),
        graph(
            "Requests by user",
            f"topk(10, sum by (user) ({rate('controller_user_requests_total')}))",
            "{{user}}",
            "reqps",
            description="Only with exporter.users.",
        ),
        graph(
            "Time spent on requests, by user",
            f"topk(10, sum by (user) ({rate('controller_user_request_seconds_total')}))",
            "{{user}}",
            "percentunit",
            description="Only with exporter.users.",
        ),
        graph("Threads", m("controller_threads"), "{{cluster}}", description="slurmctld has at most 256."),
        Panel(
            "Queues",
            (
                Query(m("controller_agent_queue"), "messages to nodes"),
                Query(m("controller_database_queue"), "records for slurmdbd"),
            ),
        ),
        Panel(
            "Duration of the last cycle",
            (
                Query(m("scheduler_last_cycle_seconds"), "main scheduler"),
                Query(m("backfill_last_cycle_seconds"), "backfill"),
            ),
            "s",
        ),
        Panel(
            "Cycles in a minute",
            (
                Query(f"60 * {rate('scheduler_cycles_total')}", "main scheduler"),
                Query(f"60 * {rate('backfill_cycles_total')}", "backfill"),
            ),
        ),
        Panel(
            "Share of the time spent on scheduling",
            (
                Query(rate("scheduler_cycle_seconds_total"), "main scheduler"),
                Query(rate("backfill_cycle_seconds_total"), "backfill"),
            ),
            "percentunit",
        ),
        Panel(
            "Why cycles end",
            (
                Query(rate("scheduler_exits_total"), "main scheduler {{reason}}"),
                Query(rate("backfill_exits_total"), "backfill {{reason}}"),
            ),
            "ops",
        ),
        Panel(
            "Backfill: queue, depth, table",
            (
                Query(m("backfill_queue_length"), "jobs in the queue"),
                Query(m("backfill_last_depth"), "jobs tried"),
                Query(m("backfill_table_size"), "entries of the table"),
                Query(m("scheduler_queue_length"), "jobs of the main scheduler"),
            ),
        ),
        graph(
            "Requests of the exporter in a minute",
            f"60 * sum by (endpoint) ({rate('exporter_requests_total')})",
            "{{endpoint}}",
        ),
        graph("Sources that the exporter can read", m("up"), "{{source}}"),
        graph("Age of the exporter's data", m("source_age_seconds"), "{{source}}", "s"),
        graph(
            "Series beyond the limit",
            f"sum by (family) ({m('series_dropped')}) or vector(0)",
            "{{family}}",
            description="Above 0: raise exporter.seriesMax, or leave these series out.",
        ),
    ),
    (CLUSTER,),
)

ONE_JOB = Board(
    "slinky-job",
    "Slurm / Job",
    "What does one running job have? Needs exporter.jobs.",
    "slurm",
    (
        Panel("Job", (Query(m("job_info", THIS_JOB)),), kind=PanelKind.TABLE, width=24),
        number("Running for", f"max({m('job_running_seconds', THIS_JOB)})", "s"),
        number("Nodes", f"count({m('job_node', THIS_JOB)})"),
        number("CPUs", f"sum({m('job_cpus', THIS_JOB)})"),
        number("Memory", f"sum({m('job_memory_bytes', THIS_JOB)})", "bytes"),
        number("GPUs", f"sum({m('job_gpus', THIS_JOB)})"),
        graph(
            "CPUs in use on its nodes, by all jobs",
            f"{m('node_cpus_allocated')} * on (cluster, node) group_left max by (cluster, node) "
            f"({m('job_node', THIS_JOB)})",
            "{{node}}",
        ),
        graph(
            "Memory in use on its nodes, by all jobs",
            f"{m('node_memory_allocated_bytes')} * on (cluster, node) group_left max by (cluster, node) "
            f"({m('job_node', THIS_JOB)})",
            "{{node}}",
            "bytes",
        ),
        graph(
            "Use of its GPUs",
            'DCGM_FI_DEV_GPU_UTIL{hpc_job=~"$job"}',
            "{{Hostname}} {{gpu}}",
            "percent",
            description="Needs NVIDIA's DCGM exporter and vendor.nvidia.dcgm.enabled of the chart.",
            optional=True,
        ),
    ),
    (CLUSTER, JOB),
)

BOARDS = (OVERVIEW, QUEUE, NODES, GPU, ACCOUNTS, SLURMCTLD, ONE_JOB, TOPOLOGY)
