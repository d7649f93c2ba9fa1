# SPDX-License-Identifier: Apache-2.0
"""Laws of finding the server and the credentials."""

import base64
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from slinky.kube import Misconfigured, connect
from slinky.kube.auth import BearerTokenFile, ExecSpec, ExecToken
from slinky.kube.config import find_access, from_kubeconfig, in_cluster
from slinky.observe import ManualClock


def kubeconfig(path: Path, user: dict[str, Any], name: str = "one", **cluster: Any) -> Path:
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": name,
                "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "home"}}],
                "clusters": [{"name": name, "cluster": {"server": f"https://{name}.test/", **cluster}}],
                "users": [{"name": name, "user": user}],
            }
        )
    )
    return path


async def test_a_kubeconfig_gives_server_trust_and_token(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "c", {"token": "t"}, **{"certificate-authority": "ca.crt"})
    access = find_access(path)
    assert (access.server, access.namespace) == ("https://one.test", "home")
    assert access.ca.path == tmp_path / "ca.crt"  # relative to the file it is named in
    assert await access.tokens.token() == "t"


@pytest.mark.parametrize("insecure", [True, False])
async def test_a_server_that_is_not_verified_is_logged(
    insecure: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster: dict[str, Any] = {"insecure-skip-tls-verify": insecure}
    path = kubeconfig(tmp_path / "c", {"token": "t"}, **cluster)
    async with connect(path):
        assert ("not verified" in caplog.text) is insecure


def test_data_inside_the_file_wins_over_a_path(tmp_path: Path) -> None:
    data = base64.b64encode(b"PEM").decode()
    path = kubeconfig(tmp_path / "c", {"client-certificate": "x", "client-certificate-data": data})
    assert find_access(path).certificate.read() == b"PEM"


async def test_several_files_are_merged_and_the_first_entry_wins(tmp_path: Path) -> None:
    first = kubeconfig(tmp_path / "a", {"token": "first"})
    second = kubeconfig(tmp_path / "b", {"token": "second"}, name="two")
    env = {"KUBECONFIG": f"{first}:{tmp_path / 'missing'}:{second}"}
    assert await find_access(env=env).tokens.token() == "first"
    assert await find_access(context="two", env=env).tokens.token() == "second"


def test_a_relative_command_is_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    for command, expected in {
        "./plugin": f"{tmp_path}/plugin",
        "plugin": "plugin",
        "/bin/p": "/bin/p",
    }.items():
        tokens = find_access(kubeconfig(tmp_path / "c", {"exec": {"command": command}})).tokens
        assert isinstance(tokens, ExecToken)
        assert tokens._spec.command == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "is not a kubeconfig"),
        ("{", "while parsing"),
        ("current-context: x", "no context 'x'"),
        ("{current-context: prodd, contexts: [{name: prod}]}", r"did you mean prod\?"),
        ("contexts: [{name: '', context: {cluster: 7}}]", "Expected `str`"),
        ("contexts: [{name: '', context: {cluster: c}}]", "no cluster 'c'"),
    ],
)
def test_an_invalid_kubeconfig_has_a_clear_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c").write_text(text)
    with pytest.raises(Misconfigured, match=message):
        from_kubeconfig([tmp_path / "c"])


async def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    for name, text in {"token": "t\n", "ca.crt": "PEM", "namespace": "slurm\n"}.items():
        (tmp_path / name).write_text(text)
    env = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    access = in_cluster(env, tmp_path)
    assert (access.server, access.namespace) == ("https://[fd00::1]:443", "slurm")
    assert await access.tokens.token() == "t"


async def test_a_rotated_token_file_is_read_again(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", ManualClock()
    path.write_text("one")
    tokens = BearerTokenFile(path, clock)
    assert await tokens.token() == "one"
    path.write_text("two")
    assert await tokens.token() == "one"  # not yet: files are not read on every request
    await clock.advance(11.0)
    assert await tokens.token() == "two"
    path.write_text("three")
    tokens.invalidate()
    assert await tokens.token() == "three"


async def test_a_missing_token_file_keeps_the_last_token(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", ManualClock()
    path.write_text("one")
    tokens = BearerTokenFile(path, clock)
    await tokens.token()
    path.unlink()
    await clock.advance(60.0)
    assert await tokens.token() == "one"
    with pytest.raises(Misconfigured):
        await BearerTokenFile(tmp_path / "never").token()


PLUGIN = """
import json, os, pathlib, sys
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
count = pathlib.Path(sys.argv[1])
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": {
    "token": f"{os.environ['WORD']}-{number}", "expirationTimestamp": "2026-01-01T01:00:00Z"}}))
"""


async def test_an_exec_plugin_runs_again_only_when_its_token_expires(tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text(PLUGIN)
    spec = ExecSpec(
        sys.executable,
        [str(tmp_path / "plugin.py"), str(tmp_path / "count")],
        [{"name": "WORD", "value": "token"}],
    )
    clock = ManualClock()
    tokens = ExecToken(spec, {}, clock)
    assert [await tokens.token(), await tokens.token()] == ["token-1", "token-1"]
    clock.jump(3600)
    assert await tokens.token() == "token-2"
    clock.jump(-3600)
    tokens.invalidate()
    assert await tokens.token() == "token-3"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise SystemExit('no such account')", "no such account"),
        ("print('hello')", "did not print an ExecCredential"),
        ('print(\'{"apiVersion": "x/v0", "status": {}}\')', "printed x/v0"),
        ("import time; time.sleep(60)", "did not end"),
    ],
)
async def test_the_error_of_an_exec_plugin_names_the_command(code: str, message: str) -> None:
    with pytest.raises(Misconfigured, match=message):
        await ExecToken(ExecSpec(sys.executable, ["-c", code]), {}, deadline=1.0).token()


async def test_the_error_of_a_missing_exec_plugin_has_its_install_hint() -> None:
    spec = ExecSpec("/nonexistent/plugin", install_hint="get it from your cloud")
    with pytest.raises(Misconfigured, match="get it from your cloud"):
        await ExecToken(spec, {}).token()
