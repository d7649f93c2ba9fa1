# SPDX-License-Identifier: Apache-2.0
"""Logs, metrics, health checks and the process around a program; knows neither Kubernetes nor Slurm."""

from slinky.observe.clock import Clock, ManualClock, SystemClock, Timer
from slinky.observe.health import Check, Health, LoopLag
from slinky.observe.log import Log, log_context, redact, setup_logging
from slinky.observe.metrics import REGISTRY, counter, gauge, histogram, render_metrics
from slinky.observe.process import ExplainedError, RestartRequired, run_process, until_signal

__all__ = [
    "REGISTRY",
    "Check",
    "Clock",
    "ExplainedError",
    "Health",
    "Log",
    "LoopLag",
    "ManualClock",
    "RestartRequired",
    "SystemClock",
    "Timer",
    "counter",
    "gauge",
    "histogram",
    "log_context",
    "redact",
    "render_metrics",
    "run_process",
    "setup_logging",
    "until_signal",
]
