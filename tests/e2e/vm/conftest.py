# SPDX-License-Identifier: Apache-2.0
"""One lab and one cluster serve all tests."""

from collections.abc import Iterator

import pytest
from tests.conftest import MakeLab
from tests.e2e.operator.site import operator_site
from tests.e2e.vm.confinement_site import ConfinementSite

from slinky.lab.lab import Lab


@pytest.fixture(scope="package")
def vm_lab(make_lab: MakeLab) -> Lab:
    return make_lab(nodes=1, vms=1, gpus=1)


@pytest.fixture(scope="package")
def workers(vm_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConfinementSite]:
    with operator_site(vm_lab, tmp_path_factory.mktemp("confinement")) as site:
        built = ConfinementSite(site)
        built.build()
        yield built
