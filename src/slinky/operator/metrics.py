# SPDX-License-Identifier: Apache-2.0
"""What the operator counts."""

from slinky.observe.metrics import counter, gauge, histogram

WRITES = counter("slinky_operator_writes_total", "Requests that change something in Kubernetes.", "verb", "kind")
SLURM_WRITES = counter("slinky_operator_slurm_writes_total", "Requests that change something in Slurm.", "action")
ACTIONS = counter("slinky_operator_actions_total", "Steps carried out on workers.", "action")
CONDEMNED = gauge("slinky_operator_condemned_workers", "Workers that wait to go.", "namespace", "nodeset")
BRAKED = counter("slinky_operator_braked_total", "Deletions put off by the brake.", "namespace", "nodeset")
SLURM_UP = gauge("slinky_operator_slurm_up", "1 while slurmctld answers.", "namespace", "controller")
SLURM_AGE = gauge("slinky_operator_slurm_view_age_seconds", "Age of what is known of Slurm.", "namespace", "controller")
SLURM_CALLS = histogram("slinky_operator_slurm_call_seconds", "Time of calls to slurmrestd.", "method", "status")
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
