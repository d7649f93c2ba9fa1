# SPDX-License-Identifier: Apache-2.0
"""What the command imports at its start: little, so that `slinky --help`, the help of a verb
and completion take under 150 ms of CPU.

The test names modules in place of a time, because a busy machine makes every time wrong.
"""

import json
import subprocess
import sys

import pytest

#: Libraries that cost more than the rest of the start together, and packages of servers.
EXPENSIVE = ("aiohttp", "asyncio", "cryptography", "textual", "prometheus_client", "rich.console", "slinky.kube.client")
#: What the start of the command itself does not need.
UNNEEDED = (*EXPENSIVE, "yaml", "msgspec", "slinky.insight.forecast", "slinky.slurm")

#: The verbs for people; each loads a client when it has read its flags.
VERBS = ("explain", "forecast", "whatif", "queue", "nodes", "status", "top", "logs", "shell", "version", "hold",
         "release", "cancel", "drain", "undrain", "doctor", "gather", "convert")  # fmt: skip


def loaded_modules(code: str) -> list[str]:
    code = f"import json, sys; {code}; json.dump(sorted(sys.modules), sys.stdout)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


def test_the_start_imports_no_expensive_library() -> None:
    assert [name for name in loaded_modules("import slinky.cli.main") if name.startswith(UNNEEDED)] == []


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_loads_no_client_before_it_has_read_its_flags(verb: str) -> None:
    modules = loaded_modules(f"from slinky.cli.main import SlinkyGroup; SlinkyGroup.load({verb!r})")
    assert [name for name in modules if name.startswith(EXPENSIVE)] == []
