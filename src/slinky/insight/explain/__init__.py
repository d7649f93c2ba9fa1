# SPDX-License-Identifier: Apache-2.0
"""Why a job, pod or gang waits, and what a node or NodeSet does: one paragraph that a person can act on."""

from slinky.insight.explain.explanation import Finding, QueueExplanation, Topic
from slinky.insight.explain.host import explain_host
from slinky.insight.explain.job import explain_job
from slinky.insight.explain.node_set import NodeSetFacts, explain_node_set
from slinky.insight.explain.pods import GangFacts, PodFacts, explain_pods

__all__ = [
    "Finding",
    "GangFacts",
    "NodeSetFacts",
    "PodFacts",
    "QueueExplanation",
    "Topic",
    "explain_host",
    "explain_job",
    "explain_node_set",
    "explain_pods",
]
