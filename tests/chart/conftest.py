# SPDX-License-Identifier: Apache-2.0
"""The real Helm and the real API server with our definitions."""

import pytest
from tests.chart.helm import Helm, program
from tests.integration.api.conftest import client, installed, kubectl, space

__all__ = ["client", "installed", "kubectl", "space"]


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(program(), tmp_path_factory.mktemp("helm"))
