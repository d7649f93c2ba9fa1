# SPDX-License-Identifier: Apache-2.0
"""The long-running verbs take the flags that existing installations pass."""

from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from slinky.cli.main import app
from slinky.operator.settings import OperatorSettings

FAMILIAR = {
    "operator": "--health-addr=:8081 --metrics-addr=:8080 --metrics-secure=false --leader-elect=true"
    " --leader-elect-namespace=slinky --enable-http2=false --namespaces=a,b --propagated-node-conditions=Bad"
    " --profile=true --profile-addr=localhost:6060 --accounting-workers=4 --controller-workers=4 --loginset-workers=4"
    " --nodeset-workers=4 --restapi-workers=4 --token-workers=4 --slurmclient-workers=2 --zap-log-level=debug"
    " --zap-devel --zap-encoder console --zap-stacktrace-level=error --zap-time-encoding=iso8601",
    "webhook": "--health-addr=:8081 --metrics-addr=0 --metrics-secure --leader-elect --leader-elect-namespace slinky"
    " --enable-http2 --namespaces=a,b --server-addr=:9443 --zap-log-level info",
}


class Started:
    """What a verb would have run."""

    def __init__(self) -> None:
        self.settings = OperatorSettings()
        self.level = ""
        self.addresses: list[tuple[str, int]] = []
        self.servers = 0


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    result = Started()

    def run(main: Callable[[Any], Any], addresses: Any, servers: Any) -> int:
        result.addresses, result.servers = list(addresses), len(list(servers))
        main(None)
        return 0

    def operate(settings: OperatorSettings, _: object) -> None:
        result.settings = settings

    monkeypatch.setattr("slinky.cli.serving.run_process", run)
    monkeypatch.setattr("slinky.operator.app.main", operate)
    monkeypatch.setattr("slinky.webhook.server.main", lambda settings, health: None)
    monkeypatch.setattr("slinky.observe.log.setup_logging", lambda level: setattr(result, "level", level))
    return result


def call(*argv: str) -> Result:
    return CliRunner().invoke(app, list(argv))


@pytest.mark.parametrize("verb", FAMILIAR)
def test_the_flags_of_slurm_operator_are_accepted(started: Started, verb: str) -> None:
    done = call(verb, *FAMILIAR[verb].split())
    assert done.exit_code == 0, done.output
    assert "the flag --enable-http2 has no effect and is ignored" in done.output


def test_the_flags_of_slurm_operator_take_effect(started: Started) -> None:
    call("operator", *FAMILIAR["operator"].split())
    assert started.settings.leader_elect
    assert started.settings.leader_elect_namespace == "slinky"
    assert started.settings.namespaces == ("a", "b")
    assert started.settings.propagated_node_conditions == ("Bad",)
    assert started.settings.workers("slurmclient") == 2
    assert started.level == "debug"
    assert [port for _, port in started.addresses] == [8081, 8080]
    assert started.servers == 1, "the profile"


@pytest.mark.parametrize(
    ("words", "elect"),
    [
        (["--leader-elect"], True),
        (["--leader-elect=1"], True),
        (["--leader-elect=False"], False),
        (["--leader-elect", "--leader-elect=false"], False),
        ([], False),
    ],
)
def test_the_last_value_of_a_switch_counts(started: Started, words: list[str], elect: bool) -> None:
    assert call("operator", *words).exit_code == 0
    assert started.settings.leader_elect is elect


@pytest.mark.parametrize(
    ("message", "level"), [("warn", "warning"), ("panic", "error"), ("0", "info"), ("4", "debug"), ("error", "error")]
)
def test_log_levels_of_slurm_operator_are_translated(started: Started, message: str, level: str) -> None:
    assert call("operator", f"--zap-log-level={message}").exit_code == 0
    assert started.level == level


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--leader-elect=perhaps"], "--leader-elect"),
        (["--health-addr=8081x"], "is not HOST:PORT"),
        (["--log-level=loud"], "is not debug, info, warning or error"),
        (["--zap-log-level=loud"], "is not debug, info, warning or error"),
        (["--metrics-secure", "--metrics-addr=:8081"], "a port of their own"),
        (["--frobnicate"], "No such option"),
    ],
)
def test_an_invalid_flag_is_rejected_by_name(started: Started, words: list[str], why: str) -> None:
    done = call("operator", *words)
    assert done.exit_code == 2
    assert why in done.output
