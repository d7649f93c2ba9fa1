# SPDX-License-Identifier: Apache-2.0
"""The dashboards of the operator and of the bridge."""

from charts.monitoring.description import NAMESPACE, Board, Panel, Query, graph, number

HERE = 'namespace=~"$namespace"'


def rate(metric: str) -> str:
    """The rate of a counter."""
    return f"rate({metric}[$__rate_interval])"


def p95(histogram: str, *labels: str) -> str:
    """The 95th percentile of a histogram."""
    return f"histogram_quantile(0.95, sum by ({', '.join(('le', *labels))}) (rate({histogram}_bucket[5m])))"


OPERATOR = Board(
    "slinky-operator",
    "Slurm / Operator and NodeSets",
    "Do NodeSets have the workers that they should have, and what do removals wait for?",
    "slurm-operator",
    (
        graph(
            "Workers by state",
            f"sum by (namespace, nodeset, state) (slinky_operator_nodeset_workers{{{HERE}}})",
            "{{nodeset}} {{state}}",
        ),
        graph(
            "Workers that are missing",
            f'slinky_operator_nodeset_workers{{{HERE}, state="desired"}} - ignoring (state) '
            f'slinky_operator_nodeset_workers{{{HERE}, state="ready"}}',
            "{{nodeset}}",
        ),
        Panel(
            "Autoscaler: workers wanted, and needed but not granted",
            (
                Query(f"slinky_operator_workers_wanted{{{HERE}}}", "{{nodeset}} wanted"),
                Query(f"slinky_operator_workers_not_granted{{{HERE}}}", "{{nodeset}} not granted"),
            ),
        ),
        graph(
            "Duration of the rollout under way",
            f"(time() - slinky_operator_rollout_start_timestamp_seconds{{{HERE}}}) * "
            f"(slinky_operator_rollout_start_timestamp_seconds{{{HERE}}} > bool 0)",
            "{{nodeset}}",
            "s",
        ),
        graph(
            "What removals wait for",
            f"sum by (nodeset, cause, waiting) (slinky_operator_awaiting_drain_pods{{{HERE}}}) or vector(0)",
            "{{nodeset}} {{cause}} {{waiting}}",
            stacked=True,
        ),
        graph("Longest removal", f"slinky_operator_longest_drain_seconds{{{HERE}}}", "{{nodeset}}", "s"),
        graph(
            "Deletions that the rate limit defers", f"slinky_operator_deletions_limited_pods{{{HERE}}}", "{{nodeset}}"
        ),
        Panel(
            "Configuration: wanted and loaded generation",
            (
                Query(f"slinky_operator_config_generation_wanted{{{HERE}}}", "{{controller}} wanted"),
                Query(
                    f"slinky_operator_config_generation_loaded{{{HERE}}} "
                    f"or 0 * slinky_operator_config_generation_wanted{{{HERE}}}",
                    "{{controller}} loaded",
                ),
            ),
        ),
        number("Slurm answers", f"min(slinky_operator_slurm_up{{{HERE}}})", "bool_yes_no"),
        number("Age of the copy of Slurm", f"max(slinky_operator_slurm_view_age_seconds{{{HERE}}})", "s"),
        number(
            "Token that expires first", f"min(slinky_operator_token_expiry_timestamp_seconds{{{HERE}}}) - time()", "s"
        ),
        graph(
            "Requests to Slurm (p95)", p95("slinky_operator_slurm_call_seconds", "controller"), "{{controller}}", "s"
        ),
        graph(
            "Requests to Slurm in a minute",
            "60 * sum by (controller, method) "
            f"(rate(slinky_operator_slurm_call_seconds_count{{{HERE}}}[$__rate_interval]))",
            "{{controller}} {{method}}",
        ),
        graph(
            "Reconciles", f"sum by (controller) ({rate('controller_runtime_reconcile_total')})", "{{controller}}", "ops"
        ),
        graph("Writes to Kubernetes", f"sum by (kind) ({rate('slinky_operator_writes_total')})", "{{kind}}", "ops"),
    ),
    (NAMESPACE,),
)

BRIDGE = Board(
    "slinky-bridge",
    "Slurm / Bridge",
    "Which pods wait and why, and how fast are they placed?",
    "slurm-bridge",
    (
        graph(
            "Waiting pods by reason",
            "sum by (reason) (slinky_bridge_waiting_pods) or vector(0)",
            "{{reason}}",
            stacked=True,
        ),
        graph(
            "Oldest waiting pod by reason",
            "max by (reason) (slinky_bridge_waiting_pods_oldest_seconds) or vector(0)",
            "{{reason}}",
            "s",
        ),
        graph("Jobs that the bridge tracks", "sum(slinky_bridge_jobs)", "jobs"),
        graph("Submissions", f"sum by (how) ({rate('slinky_bridge_submissions_total')})", "{{how}}", "ops"),
        graph("Time until Slurm accepts a job (p95)", p95("slinky_bridge_submit_seconds"), "p95", "s"),
        graph("Time from allocation to bound pods (p95)", p95("slinky_bridge_place_seconds"), "p95", "s"),
        graph("Pods bound", f"sum({rate('slinky_bridge_binds_total')})", "bound", "ops"),
        graph(
            "Pods evicted, by reason",
            f"sum by (reason) ({rate('slinky_bridge_evictions_total')}) or vector(0)",
            "{{reason}}",
            "ops",
        ),
        graph(
            "Ended jobs by outcome",
            f"sum by (outcome) ({rate('slinky_bridge_jobs_ended_total')})",
            "{{outcome}}",
            "ops",
        ),
        graph("Evictions that the limit still allows", "min by (limit) (slinky_bridge_evictions_left)", "{{limit}}"),
        graph("Age of the copy of Slurm", "max(slinky_bridge_slurm_age_seconds)", "age", "s"),
        graph(
            "Requests of the bridge to Slurm in a minute",
            f"60 * sum by (method) ({rate('slinky_bridge_slurm_call_seconds_count')})",
            "{{method}}",
        ),
        graph("Pods of other schedulers on nodes of the bridge", "max(slinky_bridge_foreign_pods)", "pods"),
    ),
)

BOARDS = (OPERATOR, BRIDGE)
