# SPDX-License-Identifier: Apache-2.0
"""`make compat-host`: the lab on an ordinary machine, which has systemd and cgroup version 2 only.

The machine runs in QEMU, without KVM many times slower than a real one. It runs the scripts below in this order; each
test reads what one of them has printed.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.support.ordinary_host import OrdinaryHost, ScriptResult, require_clean

from slinky.lab.prepare.images import reference
from slinky.lab.prepare.inventory import ArtifactInventory
from slinky.lab.progress import Progress

pytestmark = [pytest.mark.lab, pytest.mark.timeout(7200)]
ROOT = Path(__file__).parents[2]
SECONDS = 6600
LIMIT = 64 << 20


def eater(name: str, megabytes: int) -> str:
    """A pod that uses so much memory, and may use 64 MiB."""
    container = {
        "name": "main",
        "image": reference("busybox"),
        "command": ["sh", "-c", f"cat /sys/fs/cgroup/memory.max; dd if=/dev/zero of=/dev/null bs={megabytes}M count=1"],
        "resources": {"limits": {"memory": str(LIMIT), "cpu": "500m"}},
    }
    spec = {"restartPolicy": "Never", "containers": [container]}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


KUBECTL = "slinky lab exec --name t control kubectl"
#: A namespace of cgroups of its own, as a container has.
CONTAINER = "systemd-run -q --scope -p Delegate=yes unshare --cgroup --mount bash -euc"
MOUNT = "umount /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup"
SCRIPTS = {
    "10-facts": "stat -fc %T /sys/fs/cgroup; cat /proc/self/cgroup; cat /proc/1/comm; uname -r; slinky lab check",
    # The root of its cgroup namespace has processes, so no controller can be delegated.
    "20-container": f"! {CONTAINER} '{MOUNT}; slinky lab up --name c --nodes 1'",
    "21-container-read-only": f"! {CONTAINER} '{MOUNT} -o ro; slinky lab up --name c --nodes 1'",
    "22-container-check": f"! {CONTAINER} '{MOUNT} -o ro; slinky lab check'",
    "30-prepare": 'rm -r "$SLINKY_CACHE"/image-pause/*/; slinky lab prepare',
    "40-up": "slinky lab up --name t --nodes 1; slinky lab status --name t",
    "50-pods": f"""\
{KUBECTL} apply -f - <<'END'
{eater("eats", 200)}---
{eater("fits", 30)}END
{KUBECTL} wait pod/fits --for=jsonpath='{{.status.phase}}'=Succeeded --timeout=300s
{KUBECTL} wait pod/eats --for=jsonpath='{{.status.phase}}'=Failed --timeout=300s
{KUBECTL} get pod eats -o jsonpath='{{.status.containerStatuses[0].state.terminated.reason}}'
{KUBECTL} logs fits
cat /sys/fs/cgroup/slinky-t/node1/cgroup.controllers
""",
    "60-down": "slinky lab down --name t; ls -d /sys/fs/cgroup/slinky* || echo no cgroup is left",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ScriptResult]]:
    """What every script has printed."""
    require_clean(ROOT)
    host = OrdinaryHost(tmp_path_factory.mktemp("host"), ArtifactInventory.of(), Progress())
    host.build(ROOT)
    found = host.run(SCRIPTS, SECONDS)
    for name, result in found.items():
        print(f"{name}: exit code {result.code} after {result.seconds} s")
    yield found
    (host.folder / "disk.img").unlink()  # gigabytes, which pytest would keep


def output(results: dict[str, ScriptResult], name: str) -> str:
    """What a script has printed, which must have succeeded."""
    result = results[name]
    assert result.code == 0, f"exit code {result.code} after {result.seconds} s\n{result.output[-6000:]}"
    return result.output


def test_it_is_an_ordinary_machine(results: dict[str, ScriptResult]) -> None:
    text = output(results, "10-facts")
    assert "cgroup2fs" in text
    assert re.search(r"^0::/user\.slice/.*session-.*\.scope$", text, re.MULTILINE), "in a session of systemd"
    assert "\nsystemd\n" in text
    assert "missing" not in text


@pytest.mark.parametrize("name", [name for name in SCRIPTS if "container" in name])
def test_a_container_without_rights_over_its_cgroups_is_told_at_once(
    results: dict[str, ScriptResult], name: str
) -> None:
    text = output(results, name)
    assert re.search(r"/sys/fs/cgroup (is not writable|contains processes, so it cannot delegate)", text)
    assert "give it its own cgroup namespace with write access" in text
    assert "..." not in text, "nothing was started"


def test_images_are_built(results: dict[str, ScriptResult]) -> None:
    assert re.search(r"ok +image pause", output(results, "30-prepare"))


def test_a_lab_comes_up(results: dict[str, ScriptResult]) -> None:
    assert "node1" in output(results, "40-up")


def test_limits_of_pods_are_enforced(results: dict[str, ScriptResult]) -> None:
    text = output(results, "50-pods")
    assert "OOMKilled" in text
    assert f"\n{LIMIT}\n" in text
    assert {"cpu", "cpuset", "memory", "pids"} <= set(text.splitlines()[-1].split())


def test_nothing_is_left(results: dict[str, ScriptResult]) -> None:
    assert "no cgroup is left" in output(results, "60-down")
