# SPDX-License-Identifier: Apache-2.0
"""What the command imports at its start: little, so that `slinky --help` and completion take under 150 ms of CPU.

The test names modules in place of a time, because a busy machine makes every time wrong.
"""

import json
import subprocess
import sys

import pytest

#: Libraries that cost more than the rest of the start together, and packages of servers.
EXPENSIVE = ("aiohttp", "cryptography", "yaml", "textual", "jinja2", "prometheus_client", "slinky.kube", "slinky.slurm")

#: Verbs that may run without Kubernetes; its client is the most expensive import.
PLAIN = ("explain", "forecast", "whatif", "queue", "nodes", "status", "top", "version", "hold", "doctor", "gather")


def test_the_start_imports_no_expensive_library() -> None:
    code = "import json, sys; import slinky.cli.main; json.dump(sorted(sys.modules), sys.stdout)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = json.loads(done.stdout)
    assert [name for name in modules if name.startswith(EXPENSIVE)] == []


@pytest.mark.parametrize("verb", PLAIN)
def test_a_verb_for_a_plain_slurm_does_not_import_the_kubernetes_client(verb: str) -> None:
    code = f"import json, sys; from slinky.cli.main import SlinkyGroup; SlinkyGroup.load({verb!r})"
    code += "; json.dump(sorted(sys.modules), sys.stdout)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in json.loads(done.stdout) if name.startswith(("slinky.kube", "textual"))] == []
