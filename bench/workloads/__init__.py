# SPDX-License-Identifier: Apache-2.0
"""Workloads of batch clusters, their replay, and the accuracy of forecasts of their starts."""
