# SPDX-License-Identifier: Apache-2.0
"""Why a job waits, and what a node does: one paragraph that a person can act on."""

from slinky.insight.explain.explanation import Finding, QueueExplanation, Topic
from slinky.insight.explain.host import explain_host
from slinky.insight.explain.job import explain_job

__all__ = ["Finding", "QueueExplanation", "Topic", "explain_host", "explain_job"]
