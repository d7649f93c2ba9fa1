# SPDX-License-Identifier: Apache-2.0
"""Integration tests need no nodes, so the lab of the end-to-end tests before them ends."""

import pytest
from tests.support.labs import SessionLabs


@pytest.fixture(scope="session", autouse=True)
def without_nodes(session_labs: SessionLabs) -> None:
    """End the shared lab with nodes; a later test that needs it brings it up again."""
    session_labs.end_nodes()
