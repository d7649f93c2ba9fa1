# SPDX-License-Identifier: Apache-2.0
"""What tests share: one plain control plane and one lab per session, a namespace per test.

Everything is real. What is not prepared is a failure, never a skip. The lab belongs to the test process: however that
ends, the lab goes with it.
"""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from hypothesis import settings

from slinky.lab import bringup
from slinky.lab.bringup import LabOptions
from slinky.lab.kubernetes.bare_plane import PlainPlane
from slinky.lab.lab import Lab
from slinky.lab.progress import Progress
from slinky.lab.slurm.cluster import Beside

# A busy machine is no failure: no test asserts a time, and none of hypothesis' examples does.
settings.register_profile("slinky", deadline=None)
settings.load_profile("slinky")

MakeLab = Callable[..., Lab]


@pytest.fixture(scope="session")
def plane() -> Iterator[PlainPlane]:
    """Etcd and kube-apiserver, nothing else; for tests that must not disturb others, see `own_plane`."""
    with PlainPlane.running() as running:
        yield running


@pytest.fixture
def own_plane() -> Iterator[PlainPlane]:
    """A control plane that the test may break."""
    with PlainPlane.running() as running:
        yield running


@pytest.fixture(scope="session")
def make_lab() -> Iterator[MakeLab]:
    """Makes labs that end with the session; each has a name of its own."""
    made: list[Lab] = []

    def make(**wanted: object) -> Lab:
        options = LabOptions(name=f"test-{secrets.token_hex(3)}", owner=os.getpid(), **wanted)  # type: ignore[arg-type]
        made.append(bringup.up(options, Progress()))
        return made[-1]

    with ExitStack() as stack:
        yield make
        for lab in made:
            stack.callback(bringup.down, lab.name)


@pytest.fixture(scope="session")
def lab(make_lab: MakeLab) -> Lab:
    """The shared lab: two real nodes and a Slurm beside them. Tests leave it as they found it."""
    return make_lab(nodes=2, slurm="beside")


@pytest.fixture(scope="session")
def slurm(lab: Lab) -> Beside:
    """The Slurm of the shared lab."""
    return lab.slurm


@pytest.fixture
def namespace(lab: Lab) -> Iterator[str]:
    """A namespace that is deleted after the test."""
    name = f"test-{secrets.token_hex(4)}"
    lab.kubectl("create", "namespace", name)
    yield name
    lab.kubectl("delete", "namespace", name, "--wait=false")
