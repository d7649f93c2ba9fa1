# SPDX-License-Identifier: Apache-2.0
import secrets
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.e2e.operator.site import Operator, Site, cluster, until

from slinky.lab.lab import Lab


@pytest.fixture(scope="module")
def site(lab: Lab) -> Iterator[Site]:
    """A namespace with the manifests of a cluster."""
    crds = subprocess.run([sys.executable, "-m", "slinky.api.crds"], capture_output=True, text=True, check=True)
    lab.kubectl("apply", "--server-side", "-f", "-", input=crds.stdout)
    name = f"op-{secrets.token_hex(3)}"
    lab.kubectl("create", "namespace", name)
    yield Site(lab, name)
    lab.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="module")
def operator(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """The operator, working in that namespace only."""
    found = Operator(site.lab, site.namespace, tmp_path_factory.mktemp("operator") / "log")
    found.start()
    yield found
    # While the operator lives: it holds what has workers by finalizers until they are drained, or somebody forces it.
    site.kubectl("annotate", "nodesets", "--all", "--overwrite", "nodeset.slinky.slurm.net/force-delete=true")
    site.kubectl("delete", "nodesets,controllers,restapis,accountings", "--all", "--timeout=240s")
    found.stop()


@pytest.fixture(scope="module")
def slurm_site(site: Site, operator: Operator) -> Site:
    """The cluster, up."""
    site.apply(*cluster())
    until(lambda: site.settled(2), "two workers", 120)
    return site
