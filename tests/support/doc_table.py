# SPDX-License-Identifier: Apache-2.0
"""What is done with every block of README.md and docs: run, applied, rendered, tested elsewhere, or only shown and why.

Every shell block is also read by `tests/unit/docs/test_blocks.py`: commands of slinky, targets of make and files exist.
Every `helm` command is rendered by `tests/chart/test_documents.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """`make docs-test` runs the block as it is, after `before` and before `after`."""

    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class Apply:
    """The API server accepts the manifests, with unknown fields rejected."""


@dataclass(frozen=True)
class Merge:
    """The API server accepts the fragment as a part of an object of this kind."""

    kind: str


@dataclass(frozen=True)
class Values:
    """Helm renders these values with these charts, and the API server accepts the objects."""

    charts: tuple[str, ...]


@dataclass(frozen=True)
class BridgeConfig:
    """The bridge decodes the block as its configuration."""


@dataclass(frozen=True)
class CoveredBy:
    """Another test runs the same commands."""

    test: str


@dataclass(frozen=True)
class Shown:
    """The block cannot run in a test; the reason."""

    why: str


Treatment = Run | Apply | Merge | Values | BridgeConfig | CoveredBy | Shown

_LIFECYCLE = "tests/e2e/lab/test_lab_lifecycle.py"
_README = "tests/readme/test_readme.py"
_CHARTS = "tests/e2e/operator/test_charts.py"
_REGISTRY = CoveredBy("tests/e2e/registry/test_registry_install.py::test_the_documented_commands_lead_to_a_cluster")
_HELLO = "kubectl apply -f examples/bridge/pod.yaml"

BLOCKS: Mapping[str, Treatment] = {
    "README.md#slinky": CoveredBy(f"{_README}::test_the_demo_runs"),
    "README.md#slinky:2": Shown("output of a queue of the tests of slinky explain"),
    "README.md#a-slurm-cluster-on-your-kubernetes": Shown(
        "the same commands as docs/operator/install.md, which are run"
    ),
    "README.md#a-lab-in-one-minute": CoveredBy(f"{_README}::test_the_lab_of_one_minute_runs_beside_it"),
    "docs/alerts.md#alerts": Values(("slurm", "slurm-operator", "slurm-bridge")),
    "docs/bridge/annotations.md#job-options": Run(
        "kubectl apply -f examples/bridge/gang.yaml", "kubectl delete -f examples/bridge/gang.yaml"
    ),
    "docs/bridge/configuration.md#policy": BridgeConfig(),
    "docs/bridge/devices.md#devices": Shown("three alternatives of one container, with classes of a site"),
    "docs/bridge/devices.md#profiles": BridgeConfig(),
    "docs/bridge/hybrid.md#with-slurm-operator-one-worker-per-node": Values(("slurm",)),
    "docs/bridge/hybrid.md#with-slurm-operator-one-worker-per-node:2": Run(),
    "docs/bridge/index.md#the-bridge-slurm-as-the-scheduler-of-pods": Apply(),
    "docs/bridge/index.md#the-bridge-slurm-as-the-scheduler-of-pods:2": Shown("output of a queue of a site"),
    "docs/bridge/install.md#2-provide-a-token": Run(),
    "docs/bridge/install.md#3-install": Run(),
    "docs/bridge/install.md#3-install:2": Shown("an error on purpose; tests/chart has misspelt values of every chart"),
    "docs/bridge/install.md#4-add-nodes": Run(),
    "docs/bridge/install.md#5-try-it": Run(),
    "docs/bridge/install.md#true-ends-in-slurm": Run(),
    "docs/bridge/install.md#upgrade-and-remove": Run(),
    "docs/bridge/migration.md#procedure": CoveredBy(
        "tests/chart/test_migration.py::test_a_release_of_another_chart_is_upgraded_in_place"
    ),
    "docs/bridge/nodes.md#nodes": Run(),
    "docs/bridge/reasons.md#reasons-why-a-pod-waits-and-what-to-do": Run(_HELLO, "kubectl delete pod hello"),
    "docs/bridge/workloads.md#when-the-job-ends-before-its-pods": Merge("Job"),
    "docs/exporter.md#metrics-of-a-slurm-cluster": Shown(
        "a server that runs until it is stopped, with an address of a site"
    ),
    "docs/exporter.md#metrics-of-a-slurm-cluster:2": Values(("slurm",)),
    "docs/first-job.md#submit": Run(),
    "docs/first-job.md#see-the-queue": Run(),
    "docs/first-job.md#see-the-queue:2": Run(),
    "docs/first-job.md#cancel": Run(),
    "docs/first-pod.md#run-it": Apply(),
    "docs/first-pod.md#run-it:2": Run(),
    "docs/first-pod.md#make-it-wait": Run(),
    "docs/first-pod.md#make-it-wait:2": Run(),
    "docs/lab.md#first-steps": CoveredBy(f"{_LIFECYCLE}::test_the_command_shows_the_lab_to_people_and_programs"),
    "docs/lab.md#what-prepare-gets-and-from-where": Shown(
        "archives of many gigabytes; tests/unit/lab has their format"
    ),
    "docs/observe.md#observe-an-installation": Values(("slurm",)),
    "docs/operator/accounting.md#accounting": Values(("slurm",)),
    "docs/operator/accounting.md#a-slurmdbd-outside-kubernetes": Values(("slurm",)),
    "docs/operator/autoscaling.md#native-autoscaling": Values(("slurm",)),
    "docs/operator/autoscaling.md#native-autoscaling:2": Shown("reads a field of a NodeSet of a site"),
    "docs/operator/autoscaling.md#native-autoscaling:3": Shown("reads a field of a NodeSet of a site"),
    "docs/operator/autoscaling.md#native-autoscaling:4": Shown(
        "a kind of node autoscalers, which the lab does not have"
    ),
    "docs/operator/autoscaling.md#with-the-horizontalpodautoscaler": Apply(),
    "docs/operator/autoscaling.md#with-prometheus-or-keda": Shown("a kind of KEDA, which the lab does not have"),
    "docs/operator/backup.md#backup": Shown("names of a site, and a database that the lab's cluster does not have"),
    "docs/operator/daemon-mode.md#one-worker-per-node": Merge("NodeSet"),
    "docs/operator/gpus.md#gpus": Values(("slurm",)),
    "docs/operator/high-availability.md#high-availability-of-slurmctld": Merge("Controller"),
    "docs/operator/topology.md#topology": CoveredBy(
        "tests/e2e/operator/test_worker_lifecycle.py"
        "::test_the_place_of_a_host_in_trees_and_blocks_follows_the_annotation_of_its_node"
    ),
    "docs/operator/topology.md#imex-channels": Shown(
        "the kind belongs to a driver of hardware that no test machine has"
    ),
    "docs/operator/hybrid.md#hybrid-clusters-a-slurm-outside-kubernetes": Apply(),
    "docs/operator/images.md#build-and-publish": _REGISTRY,
    "docs/operator/images.md#build-and-publish:2": Shown("the digests are those of a site"),
    "docs/operator/images.md#build-and-publish:3": Shown(
        "needs a registry with a login; the command of helm is rendered"
    ),
    "docs/operator/images.md#which-images-a-cluster-runs": Shown("a digest of a site"),
    "docs/operator/index.md#the-operator-slurm-clusters-on-kubernetes": Apply(),
    "docs/operator/install.md#charts-from-a-registry": _REGISTRY,
    "docs/operator/install.md#charts-from-a-registry:2": _REGISTRY,
    "docs/operator/install.md#charts-from-a-registry:3": _REGISTRY,
    "docs/operator/install.md#install-the-operator-and-a-cluster": _REGISTRY,
    "docs/operator/install.md#install-the-operator-and-a-cluster:2": Run(),
    "docs/operator/login.md#login-hosts-and-ssh": Values(("slurm",)),
    "docs/operator/login.md#small-sites-local-accounts": Values(("slurm",)),
    "docs/operator/logs.md#logs-of-the-daemons": Shown(
        "needs jq; tests/integration/operator reads the fields of the lines"
    ),
    "docs/operator/maintenance.md#scheduled-updates": Merge("NodeSet"),
    "docs/operator/metrics.md#metrics-of-the-operator": Run(),
    "docs/operator/metrics.md#recommended-alerts": Shown(
        "rules of Prometheus; tests/chart/test_queries.py evaluates those of the charts"
    ),
    "docs/operator/migration.md#coming-from-slinkys-slurm-operator-12-or-13": CoveredBy(
        "tests/chart/test_migration.py::test_the_keys_of_another_chart_survive_the_upgrade_of_a_cluster"
    ),
    "docs/operator/monitoring.md#metrics-over-tls-with-authorization": Run(
        after="kubectl delete clusterrolebinding prometheus-slurm-operator"
    ),
    "docs/operator/monitoring.md#metrics-over-tls-with-authorization:2": Shown("a scrape job of Prometheus"),
    "docs/operator/monitoring.md#profile-the-operator": Shown("a forwarded port that stays open until it is stopped"),
    "docs/operator/mpi-and-containers.md#mpi": CoveredBy(
        "tests/e2e/jobs/test_jobs.py::test_the_ranks_of_an_mpi_program_find_each_other_across_workers"
    ),
    "docs/operator/presets.md#presets-slurmconf-for-four-kinds-of-sites": Shown(
        "the machines are larger than those of a lab; tests/chart and tests/integration/slurm have every preset"
    ),
    "docs/operator/outage.md#planned-outage-of-a-cluster": Merge("Controller"),
    "docs/operator/outage.md#planned-outage-of-a-cluster:2": CoveredBy(
        "tests/e2e/operator/test_accounting.py::test_a_planned_outage_stops_the_cluster_and_brings_it_back"
    ),
    "docs/operator/slurm-upgrades.md#slurm-before-2511": Merge("Controller"),
    "docs/operator/slurm-upgrades.md#upgrades-of-slurm": Shown("the second object exists only with accounting"),
    "docs/operator/slurm-upgrades.md#the-backup-of-the-database": Merge("Accounting"),
    "docs/operator/storage.md#volumes-of-workers": Merge("NodeSet"),
    "docs/operator/tls.md#tls-to-slurmrestd": Apply(),
    "docs/operator/updates.md#updates-and-rollbacks-of-workers": CoveredBy(
        "tests/e2e/operator/test_worker_lifecycle.py::test_an_update_to_a_bad_image_halts_and_a_rollback_repairs_it"
    ),
    "docs/operator/upgrade-and-uninstall.md#upgrade": Run(),
    "docs/operator/upgrade-and-uninstall.md#uninstall-a-cluster": Run(),
    "docs/operator/users.md#users-on-workers": CoveredBy(
        "tests/e2e/operator/test_example_manifests.py::test_the_user_of_a_job_has_a_name_on_workers_that_do_not_know_it"
    ),
    "docs/operator/users.md#users-on-workers:2": Values(("slurm",)),
    "docs/operator/workers.md#workers": Shown(
        "names of a site, as the page says; docs/start.md has the same for the demo"
    ),
    "docs/operator/workers.md#unprivileged-workers": Merge("NodeSet"),
    "docs/releasing.md#releasing": CoveredBy("tests/chart/test_release.py::test_two_runs_give_the_same_digests"),
    "docs/releasing.md#sign": CoveredBy(
        "tests/e2e/registry/test_registry_install.py::test_the_images_and_charts_are_signed"
    ),
    "docs/releasing.md#sign:2": CoveredBy(
        "tests/chart/test_release_signing.py::test_the_public_key_of_the_release_verifies_its_checksums"
    ),
    "docs/security.md#tokens": Shown("the user must be known to slurmctld; the tests of rights set the level likewise"),
    "docs/start.md#on-one-machine-with-nothing-installed": CoveredBy(
        f"{_LIFECYCLE}::test_the_demo_runs_real_work_and_leaves_no_trace"
    ),
    "docs/start.md#on-one-machine-with-nothing-installed:2": CoveredBy(
        f"{_LIFECYCLE}::test_the_command_shows_the_lab_to_people_and_programs"
    ),
    "docs/start.md#on-one-machine-with-nothing-installed:3": Run(),
    "docs/tools/explain.md#explain": Shown("output of a queue of a site"),
    "docs/tools/forecast.md#forecast": Shown("output of a queue of a site"),
    "docs/tools/forecast.md#what-if": Shown("output of a queue of a site"),
    "docs/tools/web.md#with-the-exporter": Values(("slurm",)),
}
