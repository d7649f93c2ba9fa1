# SPDX-License-Identifier: Apache-2.0
"""The order in which `make docs-test` runs blocks: as a reader follows the pages, each part after the one before it."""

#: A cluster from the page of the operator.
OPERATOR = (
    "docs/operator/install.md#install-the-operator-and-a-cluster:2",
    "docs/operator/metrics.md#metrics-of-the-operator",
    "docs/operator/monitoring.md#metrics-over-tls-with-authorization",
)
#: The bridge on nodes without a slurmd, in that cluster.
BRIDGE = (
    "docs/bridge/install.md#2-provide-a-token",
    "docs/bridge/install.md#3-install",
    "docs/bridge/install.md#4-add-nodes",
    "docs/bridge/install.md#5-try-it",
    "docs/bridge/reasons.md#reasons-why-a-pod-waits-and-what-to-do",
    "docs/bridge/annotations.md#job-options",
    "docs/bridge/install.md#true-ends-in-slurm",
    "docs/bridge/nodes.md#nodes",
    "docs/bridge/install.md#upgrade-and-remove",
    "docs/operator/upgrade-and-uninstall.md#uninstall-a-cluster",
)
#: A cluster as that of the demo, whose nodes run pods and native jobs.
DEMO = (
    "docs/bridge/hybrid.md#with-slurm-operator-one-worker-per-node:2",
    "docs/start.md#on-one-machine-with-nothing-installed:3",
    "docs/first-job.md#submit",
    "docs/first-job.md#see-the-queue",
    "docs/first-job.md#see-the-queue:2",
    "docs/first-job.md#cancel",
    "docs/first-pod.md#run-it:2",
    "docs/first-pod.md#make-it-wait",
    "docs/first-pod.md#make-it-wait:2",
    "docs/operator/upgrade-and-uninstall.md#upgrade",
)
ORDER = (*OPERATOR, *BRIDGE, *DEMO)
