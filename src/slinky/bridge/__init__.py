# SPDX-License-Identifier: Apache-2.0
"""Slurm as the scheduler of chosen pods. `app.py` wires the phases together; start reading at `decide.py`."""
