# SPDX-License-Identifier: Apache-2.0
"""`python -m slinky.cli` is `slinky`."""

from slinky.cli.main import run

run()
