# SPDX-License-Identifier: Apache-2.0
"""How a process is seen: logs, metrics, health."""

from slinky.observe.clock import Clock, ManualClock, SystemClock, Timer
from slinky.observe.endpoint import routes, serve
from slinky.observe.health import Check, Health, LoopLag
from slinky.observe.log import Log, context, scrub, setup
from slinky.observe.metrics import REGISTRY, counter, gauge, histogram, render
from slinky.observe.process import Explained, StartAnew, run, until_signal

__all__ = [
    "REGISTRY",
    "Check",
    "Clock",
    "Explained",
    "Health",
    "Log",
    "LoopLag",
    "ManualClock",
    "StartAnew",
    "SystemClock",
    "Timer",
    "context",
    "counter",
    "gauge",
    "histogram",
    "render",
    "routes",
    "run",
    "scrub",
    "serve",
    "setup",
    "until_signal",
]
