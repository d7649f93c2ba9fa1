# SPDX-License-Identifier: Apache-2.0
"""What the command imports at its start: little, so that `slinky --help`, the help of a verb, completion,
and a verb until its first request take under 150 ms of CPU.

The test names modules in place of a time, because a busy machine makes every time wrong.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

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


#: What no verb needs until the server has answered: aiohttp reads all certificate authorities of the system.
UNNEEDED_BEFORE_AN_ANSWER = ("aiohttp", "cryptography", "textual", "prometheus_client", "rich.console",
                             "slinky.insight.forecast", "slinky.insight.explain", "slinky.operator")  # fmt: skip
#: Verbs that only read, as new users type them.
READERS = (["queue"], ["explain", "1"], ["nodes"], ["status"], ["forecast"], ["version"])
REFUSING = "127.0.0.1:1"


def modules_after(argv: list[str], env: dict[str, str]) -> list[str]:
    """The modules that a verb has loaded when no server has answered its first request."""
    code = (
        "import json, sys\n"
        f"sys.argv = {['slinky', *argv]!r}\n"
        "from slinky.cli.main import run\n"
        "try: run()\n"
        "except SystemExit as end: json.dump([end.code, *sorted(sys.modules)], sys.stdout)\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **env})
    status, *modules = json.loads(done.stdout.splitlines()[-1])
    assert (status, "Connection refused" in done.stderr) == (4, True), done.stderr
    return list(modules)


@pytest.mark.parametrize("argv", READERS, ids=" ".join)
def test_a_verb_of_a_plain_slurm_asks_before_it_loads_what_reads_the_answer(argv: list[str]) -> None:
    modules = modules_after([*argv, "--url", f"http://{REFUSING}"], {"SLURM_JWT": "token"})
    unneeded = (*UNNEEDED_BEFORE_AN_ANSWER, "yaml", "slinky.api", "slinky.kube.client")
    assert [name for name in modules if name.startswith(unneeded)] == []


@pytest.mark.parametrize("argv", READERS, ids=" ".join)
def test_a_verb_of_a_cluster_on_kubernetes_asks_before_it_loads_what_reads_the_answer(
    argv: list[str], tmp_path: Path
) -> None:
    config = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": f"https://{REFUSING}"}}],
        "users": [{"name": "a", "user": {"token": "secret"}}],
    }
    (tmp_path / "config").write_text(json.dumps(config))
    modules = modules_after(argv, {"KUBECONFIG": str(tmp_path / "config"), "SLINKY_SLURM_URL": ""})
    assert [name for name in modules if name.startswith(UNNEEDED_BEFORE_AN_ANSWER)] == []
