# SPDX-License-Identifier: Apache-2.0
"""Runs the operator from a checkout with settings as JSON: `python -m slinky.operator '{"port": 8080}'`."""

import sys

import msgspec

from slinky.observe.log import setup_logging
from slinky.observe.process import run_process
from slinky.operator.app import main
from slinky.operator.settings import StandaloneSettings

setup_logging()
settings = msgspec.json.decode(sys.argv[1] if sys.argv[1:] else "{}", type=StandaloneSettings)
raise SystemExit(run_process(lambda health: main(settings, health), [(settings.host, settings.port)]))
