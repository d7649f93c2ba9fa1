# SPDX-License-Identifier: Apache-2.0
"""One site per file, which each file fills by its function `build`; a failed test gives the next one a new site."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from tests.e2e.operator.site import OperatorSite, operator_site
from tests.support.shared_stage import SharedStage, lend

from slinky.lab.lab import Lab


@contextmanager
def built_site(lab: Lab, folder: Path, module: ModuleType) -> Iterator[OperatorSite]:
    """A site that the function `build` of the test file has filled."""
    with operator_site(lab, folder) as site:
        module.build(site)
        yield site


@pytest.fixture(scope="module")
def shared_site(
    request: pytest.FixtureRequest, lab: Lab, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedStage[OperatorSite]]:
    shared = SharedStage(partial(built_site, lab, tmp_path_factory.mktemp("operator"), request.module))
    yield shared
    shared.close()


@pytest.fixture
def site(request: pytest.FixtureRequest, shared_site: SharedStage[OperatorSite]) -> Iterator[OperatorSite]:
    """The site of this file, with its cluster running."""
    yield from lend(shared_site, request.node)
