# SPDX-License-Identifier: Apache-2.0
"""The alerts: what each means and what to do. The rules of the charts and docs/alerts.md come from this table."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

GUIDE = "docs/alerts.md"


@dataclass(frozen=True)
class Alert:
    """One alert and the chart that delivers it."""

    name: str
    chart: str
    expression: str
    #: How long the expression must hold.
    lasts: str
    severity: str
    summary: str
    meaning: str
    steps: tuple[str, ...]

    @property
    def anchor(self) -> str:
        """The anchor of its section in the guide."""
        return self.name.lower()


_GPU = '{gres="gpu"}'
_IDLE_GPUS = 'sum by (cluster) (slinky_slurm_cluster_gres{gres="gpu", state="idle"})'
_PENDING_GPUS = 'sum by (cluster) (slinky_slurm_pending_gres{gres="gpu"})'

ALERTS: tuple[Alert, ...] = (
    Alert(
        "SlurmctldDown",
        "slurm",
        'max by (cluster) (slinky_slurm_up{source="statistics"}) == 0',
        "5m",
        "critical",
        "slurmctld of the cluster {{ $labels.cluster }} has not answered for five minutes.",
        "The exporter cannot read slurmctld's statistics. Running jobs continue; no job starts or is accepted.",
        (
            "Ask slurmctld itself: `scontrol ping` on a login host, or `kubectl get controllers,restapis "
            "-A` for a cluster of the operator.",
            'If `scontrol ping` answers, or `slinky_slurm_up{source="native"}` is 1, slurmrestd or the token is the '
            "cause: read the log of the exporter and of slurmrestd.",
            "Read the log of slurmctld; a standby takes over by itself if there is one.",
        ),
    ),
    Alert(
        "SlurmctldThreadsHigh",
        "slurm",
        "slinky_slurm_controller_threads >= 200",
        "5m",
        "warning",
        "slurmctld of {{ $labels.cluster }} serves {{ $value }} requests at once, of at most 256.",
        "Clients wait for slurmctld, commands become slow, and beyond 256 threads requests time out.",
        (
            "Find who asks: dashboard *slurmctld*, panels by type and by user, or `sdiag`.",
            "Stop scripts that call `squeue` or `sacct` in a loop; set `SlurmctldParameters=rl_enable` to limit users.",
        ),
    ),
    Alert(
        "SlurmdbdQueueGrowing",
        "slurm",
        "slinky_slurm_controller_database_queue > 1000 and deriv(slinky_slurm_controller_database_queue[15m]) > 0",
        "15m",
        "warning",
        "slurmctld of {{ $labels.cluster }} holds {{ $value }} records that slurmdbd has not taken.",
        "slurmdbd or its database is down or slow. When the queue is full, slurmctld drops records: "
        "accounting is lost.",
        (
            "Ask slurmdbd: `sacctmgr show cluster`; read its log for errors of the database.",
            "Check the database: free space, locks, memory. The queue shrinks by itself when slurmdbd answers.",
        ),
    ),
    Alert(
        "BackfillStalled",
        "slurm",
        "increase(slinky_slurm_backfill_cycles_total[10m]) == 0 and on (cluster) sum by (cluster) "
        '(slinky_slurm_jobs{state="pending"}) > 0',
        "10m",
        "warning",
        "Backfill of {{ $labels.cluster }} has not run for ten minutes although jobs are pending.",
        "Jobs that could use gaps do not start, and expected starts are not updated.",
        (
            "Look at `sdiag`: a cycle that never ends, or `bf_max_time` reached at once.",
            "Check `SchedulerType` and `SchedulerParameters` of slurm.conf, and the load of slurmctld.",
        ),
    ),
    Alert(
        "BackfillNeverReachesEnd",
        "slurm",
        'sum by (cluster) (increase(slinky_slurm_backfill_exits_total{reason!~"end_job_queue|state_changed"}[1h])) '
        "/ (sum by (cluster) (increase(slinky_slurm_backfill_exits_total[1h])) > 0) > 0.9",
        "1h",
        "warning",
        "Backfill of {{ $labels.cluster }} almost never reaches the end of the queue.",
        "Jobs at the end of the queue are never considered, however small they are.",
        (
            "See which limit ends the cycles: dashboard *slurmctld*, panel *Why cycles end*.",
            "Raise `bf_max_time` or `bf_max_job_test`, or consider fewer jobs for each user with `bf_max_job_user`.",
        ),
    ),
    Alert(
        "QueueOldestEligible",
        "slurm",
        "max by (cluster, partition) (slinky_slurm_pending_oldest_eligible_seconds) > 259200",
        "15m",
        "info",
        "A job of partition {{ $labels.partition }} of {{ $labels.cluster }} has been eligible for over three days.",
        "A job waits unusually long: its request may be impossible, or its priority is too low to ever start.",
        (
            "Find it: `squeue --partition=... --sort=V --states=PD`; its reason says what it waits for.",
            "If no node can ever fit it, tell its owner; otherwise look at priority and reservations.",
        ),
    ),
    Alert(
        "NodesDrainedWithoutReason",
        "slurm",
        'sum by (cluster) (slinky_slurm_nodes_draining{owner="unknown"}) > 0',
        "30m",
        "warning",
        "{{ $value }} nodes of {{ $labels.cluster }} are drained without a reason.",
        "Nothing says who drained these nodes or when they may return, so they are easily forgotten.",
        (
            "List them: `sinfo -R`.",
            "Find out who drained them (slurmctld's log), and set a reason or resume them: `scontrol update "
            "nodename=... state=resume`.",
        ),
    ),
    Alert(
        "NodeFailRate",
        "slurm",
        "sum by (cluster) (increase(slinky_slurm_node_failures_total[1h])) "
        "> 0.05 * sum by (cluster) (slinky_slurm_cluster_nodes)",
        "5m",
        "warning",
        "More than 5 % of the nodes of {{ $labels.cluster }} failed within an hour.",
        "Many nodes went down at about the same time: usually network, power, a shared file system or an update.",
        (
            "Look for what they share: rack, switch, image. `sinfo -R` shows what Slurm knows.",
            "On Kubernetes: `kubectl get nodes` and the events of the workers.",
        ),
    ),
    Alert(
        "JobFailureRatio",
        "slurm",
        "sum by (cluster, partition) "
        '(increase(slinky_slurm_jobs_ended_total{state=~"failed|node_fail|boot_fail|out_of_memory"}[1h])) '
        "/ (sum by (cluster, partition) (increase(slinky_slurm_jobs_ended_total[1h])) > 20) > 0.5",
        "15m",
        "warning",
        "More than half of the jobs of partition {{ $labels.partition }} of {{ $labels.cluster }} fail.",
        "At least twenty jobs ended within an hour, and most failed: a broken node that takes one job "
        "after another, or a broken software stack.",
        (
            "See where they fail: `sacct --state=F,NF,OOM --starttime=now-1hour "
            "--format=jobid,nodelist,exitcode,user`.",
            "If one node takes most of them, drain it.",
        ),
    ),
    Alert(
        "GPUsIdleWhilePending",
        "slurm",
        f'{_IDLE_GPUS} > 0.2 * sum by (cluster) (slinky_slurm_cluster_gres{{gres="gpu"}}) and '
        f"{_PENDING_GPUS} >= {_IDLE_GPUS}",
        "1h",
        "info",
        "Over a fifth of the GPUs of {{ $labels.cluster }} have been idle for an hour although jobs request GPUs.",
        "Fragmentation, limits, reservations or wrong requests keep GPUs idle.",
        (
            "See why jobs wait: dashboard *Queue*, panel *Pending jobs by reason*.",
            "Reasons of limits: raise the limit or tell the users. Resources: look at CPUs and memory of "
            "the nodes with idle GPUs, and at the topology.",
        ),
    ),
    Alert(
        "TokenExpires",
        "slurm",
        '{__name__=~"slinky_(slurm|operator|bridge)_token_expiry_timestamp_seconds"} - time() < 120',
        "5m",
        "critical",
        "A token for Slurm is not renewed and expires within two minutes ({{ $labels.token }} {{ $labels.job }}).",
        "Tokens are renewed after four fifths of their lifetime. After the expiry Slurm refuses the "
        "process that uses the token.",
        (
            "A token of the operator: `kubectl describe token -n NAMESPACE NAME` says why it is not renewed.",
            "A token in a file: the program that renews the file has stopped.",
        ),
    ),
    Alert(
        "ConfigNotLoaded",
        "slurm-operator",
        "slinky_operator_config_generation_wanted != slinky_operator_config_generation_loaded",
        "15m",
        "warning",
        "slurmctld of {{ $labels.namespace }}/{{ $labels.controller }} does not run the wanted configuration.",
        "A change of the configuration was not accepted, was rolled back, or slurmctld cannot be restarted.",
        (
            "`kubectl describe controller -n NAMESPACE NAME`: the condition ConfigSynced says which line "
            "Slurm rejects.",
            "Correct the configuration; the last good one stays in use meanwhile.",
        ),
    ),
    Alert(
        "ScaleUpCapped",
        "slurm-operator",
        "slinky_operator_workers_not_granted > 0",
        "30m",
        "info",
        "Pending jobs need {{ $value }} workers of {{ $labels.namespace }}/{{ $labels.nodeset }} that are not granted.",
        "The autoscaler would add workers, but the maximum, the budget or a pause after a failure does not allow it.",
        (
            "`kubectl describe nodeset -n NAMESPACE NAME`: the last decisions of the autoscaler say why.",
            "Raise `spec.autoscaling.maxReplicas` or the budget if the demand is wanted.",
        ),
    ),
    Alert(
        "ScaleUpUnfulfilled",
        "slurm-operator",
        'slinky_operator_nodeset_workers{state="desired"} > ignoring (state) '
        'slinky_operator_nodeset_workers{state="ready"}',
        "20m",
        "warning",
        "The NodeSet {{ $labels.namespace }}/{{ $labels.nodeset }} has lacked workers for twenty minutes.",
        "Workers were requested and do not become ready: no node fits, the quota is used up, or the "
        "image cannot be pulled.",
        (
            "`kubectl describe nodeset -n NAMESPACE NAME`: the condition Degraded names the cause in the "
            "words of Kubernetes.",
            "Add nodes, raise the quota or correct the image; the workers start by themselves afterwards.",
        ),
    ),
    Alert(
        "DeletionsLimited",
        "slurm-operator",
        "slinky_operator_deletions_limited_pods > 0 or slinky_bridge_evictions_left == 0",
        "15m",
        "warning",
        "A rate limit has deferred deletions of workers or pods for fifteen minutes.",
        "Unusually many workers or pods would have been deleted at once. The limit protects jobs from a "
        "mistake or from a Slurm that has lost its state.",
        (
            "Find out what asks for the deletions: events of the NodeSet, or "
            "`slinky_bridge_evictions_total` by reason.",
            "If they are wanted, wait, or raise the limit (`operator.deletionLimitShare`, `lostPodsEvicted` "
            "of the bridge). If not, correct the cause first.",
        ),
    ),
    Alert(
        "BridgeSlurmAge",
        "slurm-bridge",
        "slinky_bridge_slurm_age_seconds > 300",
        "5m",
        "critical",
        "The bridge has not read Slurm for five minutes.",
        "Pods with the bridge's scheduler name do not start; running pods continue.",
        (
            "The log of the bridge and its readiness check say why: slurmrestd, slurmctld or the token.",
            "See SlurmctldDown if slurmctld itself does not answer.",
        ),
    ),
    Alert(
        "PodsWaitLongWithoutReason",
        "slurm-bridge",
        'slinky_bridge_waiting_pods_oldest_seconds{reason="none"} > 600',
        "5m",
        "warning",
        "A pod has waited for ten minutes and the bridge has not said why.",
        "Every waiting pod has the condition SlurmScheduled with a reason within seconds. Without one, "
        "no bridge is responsible for the pod or the bridge does not work.",
        (
            "Check that a replica of the bridge leads: `kubectl get lease -n NAMESPACE`.",
            "Read the log of the bridge for errors of the pod's namespace.",
        ),
    ),
)


def rule_group(chart: str) -> dict[str, Any]:
    """The rule group of a chart, in the format of Prometheus."""
    rules = [
        {
            "alert": alert.name,
            "expr": alert.expression,
            "for": alert.lasts,
            "labels": {"severity": alert.severity},
            "annotations": {
                "summary": alert.summary,
                "description": alert.meaning,
                "runbook": f"{GUIDE}#{alert.anchor}",
            },
        }
        for alert in ALERTS
        if alert.chart == chart
    ]
    return {"name": chart, "rules": rules}


def guide_sections(alerts: Iterable[Alert] = ALERTS) -> Iterator[str]:
    """The sections of the guide, one for each alert."""
    for alert in alerts:
        steps = "\n".join(f"{number}. {step}" for number, step in enumerate(alert.steps, 1))
        yield (
            f"## {alert.name}\n\n{alert.meaning}\n\n"
            f"Severity {alert.severity}, after {alert.lasts}, chart `{alert.chart}`:\n\n"
            f"```promql\n{alert.expression}\n```\n\n{steps}\n"
        )
