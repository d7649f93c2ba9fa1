# SPDX-License-Identifier: Apache-2.0
"""Whether slurmctld loads a generation while it runs, or is restarted with it."""

from typing import Any

import pytest
from tests.unit.operator.samples import controller

from slinky.kube.views import ReplicaStatus
from slinky.operator.controller.config_generation import Decision, Generation, GenerationHistory, GenerationState
from slinky.operator.controller.reconfiguration import LOAD_SECONDS, Load, StartGeneration, start_generation
from slinky.operator.controller.status import health
from slinky.operator.slurm.snapshot import SlurmSnapshot


def made(number: int, conf: str = "", image: str = "x", **files: str) -> Generation:
    return Generation(number, f"d{number}", {"slurm.conf": conf, **files}, GenerationState.LOADED, image=image)


OLD = made(1, "FirstJobId=1\n")
PLAIN = made(2, "FirstJobId=2\n")
PORT = made(3, "FirstJobId=1\nSlurmctldPort=7\n")


def after(used: Generation, **more: Any) -> GenerationHistory:
    return GenerationHistory((OLD, PLAIN, PORT), used.id, used.id, **more)


@pytest.mark.parametrize(
    ("law", "history", "used", "in_place", "expected"),
    [
        ("the first generation is a start", GenerationHistory(), OLD, True, StartGeneration("d1")),
        ("an operator that is upgraded replaces no pod", after(OLD), OLD, True, StartGeneration("d1")),
        ("settings that can be reloaded are", after(OLD), PLAIN, True, StartGeneration("d1", reloaded=True)),
        ("and stay so", after(PLAIN, started="d1", reloaded=True), PLAIN, True, StartGeneration("d1", reloaded=True)),
        ("also on the way back", after(PLAIN, started="d1", reloaded=True), OLD, True,
         StartGeneration("d1", reloaded=True)),
        ("others need a restart", after(OLD), PORT, True, StartGeneration("d3", restart_keys=("SlurmctldPort",))),
        ("whose cause is kept", after(PORT, started="d3", restart_keys=("SlurmctldPort",)), PORT, True,
         StartGeneration("d3", restart_keys=("SlurmctldPort",))),
        ("nothing is reloaded if slurmctld cannot say so", after(OLD), PLAIN, False, StartGeneration("d2")),
        ("keys of tokens need a restart", after(OLD), made(4, "FirstJobId=1\n", **{"jwks.json": "{}"}), True,
         StartGeneration("d4", restart_keys=("jwks.json",))),
        ("another image needs a restart", after(OLD), made(4, "FirstJobId=1\n", image="y"), True,
         StartGeneration("d4", restart_keys=("image",))),
        ("another file does not", after(OLD), made(4, "FirstJobId=1\n", **{"gres.conf": "x"}), True,
         StartGeneration("d1", reloaded=True)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_the_pods_have_to_be_started_with(
    law: str, history: GenerationHistory, used: Generation, in_place: bool, expected: StartGeneration
) -> None:
    assert start_generation(history, used, in_place=in_place) == expected, law


def condition(load: Load, loaded: Generation = OLD) -> Any:
    status = ReplicaStatus(replicas=1, ready_replicas=1, updated_replicas=1)
    decision = Decision(PLAIN, PLAIN, OLD.id)
    return health(controller(), status, True, SlurmSnapshot(), decision, loaded.id, load=load)


def test_the_condition_says_how_a_generation_is_loaded_and_which_settings_ask_for_a_restart() -> None:
    reloading = condition(Load(in_place=True))
    assert (reloading.config.reason, reloading.progressing.value) == ("Reconfiguring", True)
    assert not reloading.degraded.value
    restarting = condition(Load(restart_keys=("SlurmctldPort", "AuthType")))
    assert restarting.config.reason == "Rolling"
    assert "cannot change SlurmctldPort, AuthType" in restarting.config.message
    assert "scontrol reconfigure" in condition(Load(in_place=True), PLAIN).config.message


def test_files_that_slurmctld_does_not_load_degrade_the_cluster() -> None:
    late = condition(Load(in_place=True, seconds=LOAD_SECONDS))
    assert (late.degraded.value, late.degraded.reason) == (True, "NotLoaded")
    assert not condition(Load(in_place=True, seconds=LOAD_SECONDS), PLAIN).degraded.value
