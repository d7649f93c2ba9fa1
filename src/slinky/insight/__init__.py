# SPDX-License-Identifier: Apache-2.0
"""What a Slurm queue means, as pure functions: reasons, and later demand, explanations and forecasts."""
