# SPDX-License-Identifier: Apache-2.0
"""Logs, metrics, health checks and the process around a program; knows neither Kubernetes nor Slurm."""

from typing import TYPE_CHECKING

from slinky.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from slinky.observe.clock import Clock, ManualClock, SystemClock, Timer
    from slinky.observe.errors import ExplainedError, RestartRequired
    from slinky.observe.health import Check, Health, LoopLag
    from slinky.observe.log import Log, log_context, redact, setup_logging
    from slinky.observe.metrics import REGISTRY, counter, gauge, histogram, render_metrics
    from slinky.observe.process import run_process, until_signal

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

__getattr__ = lazy_exports(
    __name__,
    {
        "clock": "Clock ManualClock SystemClock Timer",
        "errors": "ExplainedError RestartRequired",
        "health": "Check Health LoopLag",
        "log": "Log log_context redact setup_logging",
        "metrics": "REGISTRY counter gauge histogram render_metrics",
        "process": "run_process until_signal",
    },
)
