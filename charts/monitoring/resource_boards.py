# SPDX-License-Identifier: Apache-2.0
"""The dashboards of what a cluster has and which accounts use it: GPUs, accounts and limits, topology."""

from charts.monitoring.description import CLUSTER, Board, Panel, PanelKind, Query, graph
from charts.monitoring.exporter_queries import GPUS, m, rate

GPU = Board(
    "slinky-gpus",
    "Slurm / GPUs",
    "Who uses GPUs, and how many are wasted?",
    "slurm",
    (
        graph("GPUs by use", f"sum by (state) ({m('cluster_gres', GPUS)})", "{{state}}", stacked=True),
        graph("GPUs by type and use", f"sum by (type, state) ({m('cluster_gres', GPUS)})", "{{type}} {{state}}"),
        graph(
            "GPUs of accounts",
            f"sum by (account) ({m('account_gres_allocated', GPUS)})",
            "{{account}}",
            stacked=True,
        ),
        Panel(
            "GPU hours of accounts, 1 day",
            (
                Query(
                    f"sum by (account) (increase({m('gpu_seconds_total', state='allocated')}[1d])) / 3600",
                    "{{account}}",
                ),
            ),
            "h",
            PanelKind.BARS,
        ),
        graph(
            "GPU hours by use, 1 day",
            f"sum by (state) (increase({m('gpu_seconds_total')}[1d])) / 3600",
            "{{state}}",
            "h",
        ),
        Panel(
            "GPUs: idle, and requested by pending jobs",
            (
                Query(f"sum({m('cluster_gres', GPUS, state='idle')})", "idle"),
                Query(f"sum({m('pending_gres', GPUS)}) or vector(0)", "requested"),
            ),
            description="Both high at the same time: jobs wait although GPUs are idle.",
        ),
        graph(
            "GPUs of nodes that are out of service",
            f"sum by (type) ({m('cluster_gres', GPUS, state='unavailable')})",
            "{{type}}",
        ),
        graph("Other generic resources", f"sum by (gres, state) ({m('cluster_gres')})", "{{gres}} {{state}}"),
    ),
    (CLUSTER,),
)

ACCOUNTS = Board(
    "slinky-accounts",
    "Slurm / Accounts and limits",
    "What may accounts use, what do they use, and which limit is nearly reached?",
    "slurm",
    (
        Panel(
            "Limits that are used most",
            (Query(f"topk(20, {m('limit_used')} / ({m('limit')} > 0))", "{{kind}} {{name}} {{resource}}"),),
            "percentunit",
            PanelKind.BARS,
        ),
        graph("Headroom of limits", f"{m('limit')} - {m('limit_used')}", "{{kind}} {{name}} {{resource}}"),
        graph(
            "Fair-share level",
            m("account_fairshare_level"),
            "{{account}}",
            description="Above 1: used less than its share.",
        ),
        Panel(
            "Share and use of accounts",
            (
                Query(m("account_shares_ratio"), "{{account}} share"),
                Query(m("account_usage_ratio"), "{{account}} use"),
            ),
            "percentunit",
        ),
        graph(
            "Jobs of accounts", f"sum by (account, state) ({m('account_jobs')})", "{{account}} {{state}}", stacked=True
        ),
        graph(
            "Jobs of accounts that ended",
            f"sum by (account, state) ({rate('jobs_ended_total')})",
            "{{account}} {{state}}",
            "ops",
        ),
        Panel(
            "GPU hours of accounts, 7 days",
            (
                Query(
                    f"sum by (account) (increase({m('gpu_seconds_total', state='allocated')}[7d])) / 3600",
                    "{{account}}",
                ),
            ),
            "h",
            PanelKind.BARS,
        ),
        graph(
            "Jobs of users",
            f"topk(20, sum by (user, state) ({m('user_jobs')}))",
            "{{user}} {{state}}",
            description="Only with exporter.users.",
        ),
    ),
    (CLUSTER,),
)

TOPOLOGY = Board(
    "slinky-topology",
    "Slurm / Topology",
    "How large a job can start in one block or under one switch?",
    "slurm",
    (
        graph("Idle nodes by block or switch", m("topology_idle_nodes"), "{{unit}}", stacked=True),
        Panel(
            "Idle share by block or switch",
            (Query(f"{m('topology_idle_nodes')} / {m('topology_nodes')}", "{{unit}}"),),
            "percentunit",
            PanelKind.BARS,
        ),
        graph(
            "Free segments by size",
            f"sum by (topology, size) ({m('topology_free_segments')})",
            "{{topology}}: {{size}} nodes",
        ),
        Panel(
            "Largest idle block, and largest pending job",
            (
                Query(f"max by (topology) ({m('topology_largest_idle_nodes')})", "{{topology}} idle"),
                Query(f"max({m('pending_largest_job_nodes')}) or vector(0)", "nodes of the largest pending job"),
            ),
        ),
    ),
    (CLUSTER,),
)
