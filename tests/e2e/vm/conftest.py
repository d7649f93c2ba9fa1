# SPDX-License-Identifier: Apache-2.0
"""One lab and one cluster serve all tests of a file."""

from collections.abc import Iterator

import pytest
from tests.e2e.operator.site import operator_site
from tests.e2e.vm.confinement_site import ConfinementSite
from tests.support.labs import SessionLabs

from slinky.lab.lab import Lab


@pytest.fixture(scope="module")
def vm_lab(session_labs: SessionLabs) -> Iterator[Lab]:
    """A lab with a virtual machine; it ends with the tests of a file: an idle guest takes half a core."""
    lab = session_labs.make(nodes=1, vms=1, gpus=1)
    yield lab
    session_labs.remove(lab)


@pytest.fixture(scope="module")
def workers(vm_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConfinementSite]:
    with operator_site(vm_lab, tmp_path_factory.mktemp("confinement")) as site:
        built = ConfinementSite(site)
        built.build()
        yield built
