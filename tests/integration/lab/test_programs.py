# SPDX-License-Identifier: Apache-2.0
"""The lab's own Go programs, and the bare control plane."""

import io
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from slinky.lab.errors import LabError
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.lab.prepare import golang
from slinky.lab.prepare.inventory import ArtifactInventory
from slinky.lab.progress import Progress


def go() -> golang.GoToolchain:
    return golang.go(ArtifactInventory.of().store, Progress(io.StringIO()))


def test_the_go_programs_pass_vet_and_their_own_tests() -> None:
    go().check()


def test_an_unreachable_module_proxy_is_reported_with_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOPROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("GOMODCACHE", str(tmp_path))
    with pytest.raises(LabError, match="compiled packages are kept"):
        go().build(["./cmd/lab-gpu"], tmp_path, [])


def test_the_plain_control_plane_needs_no_privilege() -> None:
    script = (
        "from slinky.lab.kubernetes.bare_plane import BarePlane\nwith BarePlane.running() as plane: print(plane.url)"
    )
    bare = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
    done = subprocess.run([*bare, sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("https://127.0.0.1:"), done.stderr


def test_objects_survive_a_restart_of_the_api_server(own_plane: BarePlane) -> None:
    def kubectl(*argv: str) -> str:
        command = [str(own_plane.kubectl), f"--kubeconfig={own_plane.kubeconfig}", *argv]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    kubectl("create", "namespace", "kept")
    own_plane.restart_apiserver()
    assert "kept" in kubectl("get", "namespaces")


def test_a_port_in_use_is_reported_with_the_message_of_the_daemon() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(LabError, match="address already in use"), BarePlane.running(port=taken.getsockname()[1]):
            pass
