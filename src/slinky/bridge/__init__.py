# SPDX-License-Identifier: Apache-2.0
"""Slurm as the scheduler of pods. `app.py` builds the bridge from its parts; start reading at `lifecycle/decide.py`."""
