# SPDX-License-Identifier: Apache-2.0
"""The long-running verbs end with a sentence, not a trace, when a person has to mend something."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from slinky.cli.main import app
from slinky.observe import log

QUIET = ("--health-addr", "127.0.0.1:0", "--metrics-addr", "0")


def run(*argv: str) -> Result:
    return CliRunner().invoke(app, list(argv))


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["operator", "--log-level", "loud"], "'loud' is not debug, info, warning or error"),
        (["operator", "--metrics-addr", "abc"], "'abc' is not HOST:PORT or :PORT"),
        (["operator", "--metrics-secure", "--metrics-addr", ":8081"], "a port of their own"),
        (["webhook", "--server-addr", ":70000"], "is not HOST:PORT"),
        (["bridge"], "--config"),
    ],
)
def test_a_wrong_flag_is_named(argv: list[str], message: str) -> None:
    result = run(*argv)
    assert (result.exit_code, message in result.output) == (2, True), result.output


@pytest.mark.parametrize("verb", ["bridge", "bridge-admission"])
@pytest.mark.parametrize(
    ("text", "message"), [(b"taint: Sometimes", "$.taint"), (b"\xff", "utf-8"), (None, "No such file")]
)
def test_an_unusable_configuration_is_reported_with_its_file(
    verb: str, text: bytes | None, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    if text is not None:
        file.write_bytes(text)
    result = run(verb, "--config", str(file))
    assert result.exit_code == 1
    assert f"slinky: {file}: " in result.output
    assert message in result.output


MISTAKES = {
    "policy: {rules: [{force: {acount: physics}}]}": "acount",
    "priorityClasses: {urgent: {}}": "urgent",
    "deviceProfiles: [{driver: gpu.example.com, match: '1 +'}]": "match",
    "tlsFolder: /nonexistent\ntokenFile: /dev/null": "no kubeconfig",
    "partition: p": "no token: set tokenFile, jwtKeyFile, or the environment variable SLURM_JWT_FILE",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_that_shows_only_at_the_start_ends_the_bridge_with_a_message(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(log, "setup_logging", lambda level: None)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.delenv("SLURM_JWT_FILE", raising=False)
    file = tmp_path / "config.yaml"
    file.write_text(text)
    assert run("bridge", *QUIET, "--config", str(file)).exit_code == 1
    assert MISTAKES[text] in message(caplog)


def test_without_a_kubeconfig_the_operator_ends_with_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(log, "setup_logging", lambda level: None)
    missing = tmp_path / "kubeconfig"
    assert run("operator", *QUIET, "--kubeconfig", str(missing)).exit_code == 1
    assert f"there is no kubeconfig at {missing}; set KUBECONFIG to the path of one" in message(caplog)


def message(caplog: pytest.LogCaptureFixture) -> str:
    """The one sentence of a process that ended."""
    (line,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert line.exc_info is None
    return str(line.__dict__["fields"]["why"])
