# SPDX-License-Identifier: Apache-2.0
"""Flags that existing deployments pass are taken; others are still refused by name."""

from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from slinky.cli import serve
from slinky.cli.main import app

#: What the incumbent's programs take, each with a word.
MANAGER = (
    "--health-addr :8081 --metrics-addr 0 --metrics-secure=false --leader-elect=true --leader-elect-namespace slurm "
    "--enable-http2 --namespaces a,b --propagated-node-conditions X --profile --profile-addr localhost:6060 "
    "--accounting-workers 4 --controller-workers 4 --loginset-workers 4 --nodeset-workers 4 --restapi-workers 4 "
    "--token-workers 4 --slurmclient-workers 2 --zap-log-level 4 --zap-devel --zap-encoder json "
    "--zap-stacktrace-level=error --zap-time-encoding iso8601"
)
WEBHOOK = (
    "--health-addr :8081 --metrics-addr 0 --metrics-secure --leader-elect --leader-elect-namespace slurm "
    "--enable-http2=true --namespaces a --server-addr :9443 --zap-log-level error"
)


def parsed(verb: str, flags: str) -> dict[str, Any]:
    command = getattr(get_command(app), "commands", {})[verb]
    found: dict[str, Any] = command.make_context(verb, flags.split()).params
    return found


def test_flags_of_the_manager_mean_what_they_meant() -> None:
    found = parsed("operator", MANAGER)
    assert (found["leader_elect"], found["metrics_secure"], found["log_level"]) == (True, False, "debug")
    assert (found["leader_elect_namespace"], found["namespaces"]) == ("slurm", "a,b")
    assert found["slurmclient_workers"] == 2


def test_flags_of_the_webhook_mean_what_they_meant() -> None:
    found = parsed("webhook", WEBHOOK)
    assert (found["server_addr"], found["metrics_secure"], found["log_level"]) == (":9443", True, "error")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["operator", "--enable-http3"], "--enable-http3"),
        (["webhook", "--nodeset-workers", "4"], "--nodeset-workers"),
        (["operator", "--zap-log-level=loud"], "'loud' is not debug"),
    ],
)
def test_what_nobody_takes_is_refused_by_name(argv: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "run", lambda *_: pytest.fail("it was started"))
    result = CliRunner().invoke(app, argv)
    assert result.exit_code == 2
    assert said in result.output
