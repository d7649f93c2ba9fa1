# SPDX-License-Identifier: Apache-2.0
"""The real Helm, and kubectl for the shared control plane."""

from tests.chart.conftest import helm
from tests.integration.api.conftest import kubectl

__all__ = ["helm", "kubectl"]
