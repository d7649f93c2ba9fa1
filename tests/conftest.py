# SPDX-License-Identifier: Apache-2.0
"""Fixtures that tests share: one bare control plane and two labs per test process, a namespace per test.

All daemons are real. A component that is not prepared is a failure, never a skip. Which lab a folder uses:

| folder | fixture | what it brings up |
| --- | --- | --- |
| tests/e2e | `lab` | two nodes and Slurm, 15 s on an idle machine |
| tests/integration/{bridge,slurm} | `slurm` | Slurm without Kubernetes, 2 s |
| tests/integration/{api,kube,operator,bridge}, tests/chart | `plane` | etcd and kube-apiserver, 3 s |

`make test` starts tests/e2e first; the first integration test of a process ends its lab with nodes.
"""

import secrets
import signal
from collections.abc import Callable, Generator, Iterator

import pytest
from hypothesis import settings
from tests.support.kubernetes_minor import MINOR
from tests.support.labs import SessionLabs
from tests.support.task_stacks import task_stacks

from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.lab.lab import Lab
from slinky.lab.slurm.cluster import LabSlurm

# Examples have no deadline: a busy machine is no failure, and no test asserts a duration.
settings.register_profile("slinky", deadline=None)
settings.load_profile("slinky")

# A shell that starts the tests in the background ignores SIGINT, and programs that the tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

MakeLab = Callable[..., Lab]

#: The labs of this test process.
LABS = pytest.StashKey[SessionLabs]()


class FailureNames:
    """Prints the name of a failed test when it fails: the summary comes only after the last test."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._terminal.write_line(f"\nfailed in its {report.when}: {report.nodeid}", red=True)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Print the names of failed tests in the process that shows them."""
    if not hasattr(config, "workerinput"):
        terminal: pytest.TerminalReporter = config.pluginmanager.getplugin("terminalreporter")
        config.pluginmanager.register(FailureNames(terminal))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show which daemons of labs have ended when a test fails, and where tasks hang when pytest-timeout ends it."""
    report = yield
    labs = item.config.stash.get(LABS, None)
    if report.failed and labs is not None and (ended := labs.ended_daemons()):
        report.sections.append(("daemons that have ended", ended))
    if call.excinfo is not None and str(call.excinfo.value).startswith("Timeout"):
        report.sections.append(("asyncio tasks", task_stacks()))
    return report


@pytest.fixture(scope="session")
def plane() -> Iterator[BarePlane]:
    """Etcd and kube-apiserver; a test that breaks its control plane uses `own_plane`."""
    with BarePlane.running(MINOR) as plane:
        yield plane


@pytest.fixture
def own_plane() -> Iterator[BarePlane]:
    """A control plane that the test may break."""
    with BarePlane.running(MINOR) as plane:
        yield plane


@pytest.fixture(scope="session")
def session_labs(pytestconfig: pytest.Config) -> Iterator[SessionLabs]:
    """The labs of this test process; they end with the session."""
    labs = pytestconfig.stash[LABS] = SessionLabs()
    yield labs
    labs.end()


@pytest.fixture(scope="session")
def make_lab(session_labs: SessionLabs) -> MakeLab:
    """Brings up another lab, for a test that breaks its lab."""
    return session_labs.make


@pytest.fixture(scope="module")
def lab(session_labs: SessionLabs) -> Lab:
    """The shared lab: two real nodes and Slurm. Tests restore what they change."""
    return session_labs.with_nodes()


@pytest.fixture(scope="session")
def slurm_lab(session_labs: SessionLabs) -> Lab:
    """The shared lab of tests that need only Slurm."""
    return session_labs.with_slurm()


@pytest.fixture(scope="session")
def slurm(slurm_lab: Lab) -> LabSlurm:
    """Slurm for tests that need no Kubernetes of a lab. Tests restore what they change."""
    return slurm_lab.slurm


@pytest.fixture
def namespace(lab: Lab) -> Iterator[str]:
    """A namespace that is deleted after the test."""
    name = f"test-{secrets.token_hex(4)}"
    lab.kubectl("create", "namespace", name)
    yield name
    lab.kubectl("delete", "namespace", name, "--wait=false")
