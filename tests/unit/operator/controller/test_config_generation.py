# SPDX-License-Identifier: Apache-2.0
"""Which configuration slurmctld is to run."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.operator.samples import accounting, controller

from slinky.api.names import metadata
from slinky.bounds import CONFIG_COPY_BYTES_MAX
from slinky.kube.types import ObjectMeta
from slinky.kube.views import ConfigMap, Pod, ReplicaStatus, Unstructured
from slinky.operator.build.config_files import Files, collect_files
from slinky.operator.build.pod_parts import Images
from slinky.operator.controller import config_trial
from slinky.operator.controller.conf import loaded_generation, slurm_conf
from slinky.operator.controller.config_generation import (
    USABLE,
    Decision,
    Generation,
    GenerationHistory,
    GenerationState,
    Observation,
    decide,
    unneeded_generations,
    unread_images,
)
from slinky.operator.controller.status import config_condition, health
from slinky.operator.framework.crash_message import Crash, find_crash, summarize_output, with_location
from slinky.operator.framework.failure_causes import Failure, FailureCause
from slinky.operator.slurm.snapshot import SlurmSnapshot
from slinky.operator.upgrades.rules import UpgradeAction, UpgradeVerdict

V = GenerationState
NEW = Generation(3, "c", {"slurm.conf": "new"}, created=100.0)


def made(number: int, verdict: GenerationState = V.LOADED) -> Generation:
    return Generation(number, "abcdefgh"[number - 1], {}, verdict)


OLD = made(1)


def history(
    *generations: Generation, used: Generation | None = OLD, good: Generation | None = OLD
) -> GenerationHistory:
    return GenerationHistory(generations, used.id if used else "", good.id if good else "", 50.0)


def observed(**more: Any) -> Observation:
    return Observation(now=110.0, trial_timeout=60.0)._replace(**more)


# law, wanted, history, observation, expected state of the wanted generation, expected number in use
CHOICES: list[tuple[str, Generation, GenerationHistory, Observation, GenerationState, int | None]] = [
    ("nothing is used before it was tried", NEW, history(used=None, good=None), observed(), V.UNTRIED, None),
    ("the old one runs while the new one is tried", NEW, history(OLD), observed(), V.UNTRIED, 1),
    ("what was tried well is used", NEW, history(OLD), observed(trial=V.GOOD), V.GOOD, 3),
    ("what slurmctld refused is held back", NEW, history(OLD), observed(trial=V.BAD), V.BAD, 1),
    ("a bad first one is not used at all", NEW, history(used=None, good=None), observed(trial=V.BAD), V.BAD, None),
    ("a trial that cannot run holds nothing up", NEW, history(OLD), observed(trial=V.UNKNOWN), V.UNKNOWN, 3),
    ("nor one that does not end", NEW, history(OLD), observed(now=160.0), V.UNKNOWN, 3),
    ("a verdict stands", made(2, V.BAD), history(OLD, made(2, V.BAD)), observed(trial=V.GOOD), V.BAD, 1),
    ("what fails is taken back", made(2, V.GOOD), history(OLD, made(2, V.GOOD), used=made(2)), observed(crash="x"),
     V.FAILED, 1),
    ("and stays so", made(2, V.FAILED), history(OLD, made(2, V.FAILED)), observed(loaded=OLD.id), V.FAILED, 1),
    ("an edit tries again", NEW, history(OLD, made(2, V.FAILED)), observed(trial=V.GOOD), V.GOOD, 3),
    ("what has run before is not blamed", OLD, history(OLD, made(2)), observed(crash="x"), V.LOADED, 1),
    ("nor what nothing could replace", made(2, V.GOOD), history(made(2, V.GOOD), used=made(2), good=None),
     observed(crash="x"), V.GOOD, 2),
    ("a killed operator goes on: failed, not yet taken back", made(2, V.FAILED),
     history(OLD, made(2, V.FAILED), used=made(2)), observed(), V.FAILED, 1),
    ("a failed one gives way though another is wanted by now", NEW, history(OLD, made(2, V.GOOD), used=made(2)),
     observed(crash="x"), V.UNTRIED, 1),
]  # fmt: skip


@pytest.mark.parametrize(("law", "wanted", "before", "now", "state", "used"), CHOICES, ids=[c[0] for c in CHOICES])
def test_the_choice(
    law: str,
    wanted: Generation,
    before: GenerationHistory,
    now: Observation,
    state: GenerationState,
    used: int | None,
) -> None:
    found = decide(wanted, before, now)
    assert found.wanted.state is state
    assert (found.used.number if found.used else None) == used


def test_the_generation_that_slurmctld_reports_becomes_loaded() -> None:
    used = made(2, V.GOOD)
    found = decide(used, history(OLD, used, used=used), observed(loaded=used.id))
    assert (found.wanted.state, found.last_loaded) == (V.LOADED, used.id)
    # An answer of the slurmctld before is none about this one.
    assert decide(used, history(OLD, used, used=used), observed(loaded=OLD.id)).last_loaded == OLD.id


def test_a_rollback_restores_the_last_loaded_generation_not_the_highest_number() -> None:
    bad = made(4, V.GOOD)
    before = history(made(1), made(2), made(3), bad, used=bad, good=made(2))
    assert decide(bad, before, observed(crash="x")).used == made(2)


RUNNING = OLD._replace(image="old", version="25.11.2")
ASKED = NEW._replace(image="new")
READING = UpgradeVerdict(UpgradeAction.WAIT, "ReadingVersion", "reading")


@pytest.mark.parametrize(
    ("law", "wanted", "now", "used", "reason"),
    [
        ("an image waits until its version is known", ASKED, observed(unread=READING), 1, "ReadingVersion"),
        ("an older one is refused", ASKED, observed(versions={"new": "24.11.5"}), 1, "DowngradeRefused"),
        ("an upgrade is allowed", ASKED, observed(versions={"new": "26.05.5"}), 3, ""),
        ("files without another image do not wait", ASKED._replace(image="old"), observed(unread=READING), 3, ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("trial", [{"trial": V.UNKNOWN}, {"now": 160.0}], ids=["impossible", "too late"])
def test_the_order_of_an_upgrade_holds_when_the_trial_failed(
    law: str, wanted: Generation, now: Observation, used: int, reason: str, trial: dict[str, Any]
) -> None:
    found = decide(wanted, history(RUNNING), now._replace(**trial))
    assert found.used is not None
    assert (found.used.number, found.upgrade.reason) == (used, reason)


def test_versions_that_no_trial_has_told_are_read_once_for_each_image() -> None:
    asked = ASKED._replace(state=V.UNKNOWN)
    assert unread_images(history(RUNNING), asked) == ["new"]
    assert unread_images(history(RUNNING._replace(version="")), asked) == ["new", "old"]
    assert unread_images(history(RUNNING), ASKED) == [], "its trial has not ended"
    found = decide(asked, history(RUNNING, asked), observed(versions={"new": "26.05.5"}))
    assert found.wanted.version == "26.05.5"
    assert found.changed == (found.wanted,), "it is recorded"
    other = NEW._replace(number=4, digest="d", image="new")
    assert decide(other, history(found.wanted), observed(trial=V.UNKNOWN)).wanted.version == "26.05.5"


@given(st.lists(st.sampled_from(list(V)), min_size=1, max_size=5), st.integers(0, 4), st.integers(0, 4), st.data())
def test_laws_of_every_choice(verdicts: list[GenerationState], used: int, good: int, data: st.DataObject) -> None:
    known = [made(number, verdict) for number, verdict in enumerate(verdicts, 1)]
    before = history(*known, used=known[used % len(known)], good=known[good % len(known)])
    wanted = data.draw(st.sampled_from([*known, NEW._replace(number=9)]))
    now = observed(
        trial=data.draw(st.sampled_from([None, V.GOOD, V.BAD, V.UNKNOWN])),
        loaded=data.draw(st.sampled_from([None, *(found.id for found in known)])),
        crash=data.draw(st.sampled_from([None, "x"])),
    )
    found = decide(wanted, before, now)
    assert found.used is None or found.used.state is not V.BAD or found.used.id == before.last_loaded
    again = decide(found.wanted, before._replace(generations=_with(before, found), last_loaded=found.last_loaded), now)
    assert again.wanted == found.wanted, "a choice is stable: no flapping"
    assert {g.id for g in unneeded_generations(before, found)}.isdisjoint(
        {found.wanted.id, before.used, before.last_loaded}
    )
    if found.wanted.state in USABLE:
        assert found.used == found.wanted


def _with(before: GenerationHistory, found: Decision) -> tuple[Generation, ...]:
    new = {g.id: g for g in found.changed}
    return (*(new.pop(g.id, g) for g in before.generations), *new.values())


SAID: list[tuple[str, Generation, str | None, bool | None, str]] = [
    ("loaded", OLD, OLD.id, True, "Loaded"),
    ("written, not loaded", made(2, V.GOOD), OLD.id, False, "Rolling"),
    ("nobody to ask", made(2, V.GOOD), None, None, "NotKnown"),
    ("tried", NEW, OLD.id, False, "Trying"),
    ("refused", NEW._replace(state=V.BAD, message="no such"), OLD.id, False, "Refused"),
    ("taken back", NEW._replace(state=V.FAILED, message="no such"), OLD.id, False, "RolledBack"),
]


@pytest.mark.parametrize(("law", "wanted", "loaded", "value", "reason"), SAID, ids=[c[0] for c in SAID])
def test_the_condition_config_synced(
    law: str, wanted: Generation, loaded: str | None, value: bool | None, reason: str
) -> None:
    found = config_condition(Decision(wanted, OLD, OLD.id), loaded)
    assert (found.value, found.reason) == (value, reason)
    assert wanted.message in found.message
    assert wanted.id in found.message
    assert not found.message.endswith("; ")


def test_the_condition_ready_tells_what_slurmctld_waits_for() -> None:
    parent = controller(accountingRef={"name": "slurm"})
    choice, none = Decision(OLD, OLD, OLD.id), ReplicaStatus()
    said = health(parent, none, True, SlurmSnapshot(), choice, None, None, accounting())
    assert said.ready.reason == "WaitingForAccounting"
    failure = Failure(FailureCause.CRASH_LOOP, ("slurm-controller-0",), "no disk", "slurmctld")
    failing = health(parent, none, True, SlurmSnapshot(), choice, None, failure, accounting())
    assert failing.ready.reason == failing.degraded.reason == "CrashLoop"
    assert (
        health(parent, none, True, SlurmSnapshot(), Decision(NEW, None, ""), None, None, accounting()).ready.reason
        == "Trying"
    )


OUTPUT = """
[2026-11-16T05:14:05.078] error: Configured MailProg is invalid
slurmctld: error: ################################################
slurmctld: error: CPUs value "abc" is not a valid number
slurmctld: error: Parse error in file /etc/slurm/slurm.conf line 25: " CPUs=abc"
slurmctld: fatal: Unable to process configuration file
slurmctld: error: something after
"""


def test_the_crash_message_is_slurmctlds_own_without_noise() -> None:
    assert summarize_output(OUTPUT) == (
        'CPUs value "abc" is not a valid number; Parse error in file /etc/slurm/slurm.conf line 25: " CPUs=abc"; '
        "Unable to process configuration file"
    )
    assert summarize_output("") == ""


def test_an_unrecognized_key_is_located_in_the_files() -> None:
    said = with_location("Parsing error at unrecognized key: Nonsense; fatal", {"slurm.conf": "A=1\nB=2 nonsense=3\n"})
    assert said.endswith("(slurm.conf line 2)")


def pod(phase: str = "Running", **container: Any) -> Unstructured:
    return Unstructured(
        ObjectMeta(name="x"), status={"phase": phase, "containerStatuses": [{"name": "slurmctld", **container}]}
    )


ENDED = {"exitCode": 1, "finishedAt": "2026-11-16T05:14:05Z", "message": OUTPUT}


def find(**container: Any) -> Crash | None:
    statuses = [{"name": "slurmctld", **container}]
    body = {"metadata": {"name": "x"}, "spec": {}, "status": {"containerStatuses": statuses}}
    return find_crash(msgspec.convert(body, Pod), "slurmctld")


def test_only_a_container_that_keeps_exiting_crashes() -> None:
    assert find(state={"running": {}}, lastState={"terminated": ENDED}) is None
    assert find(state={"terminated": {"exitCode": 0}}) is None
    found = find(state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState={"terminated": ENDED})
    assert found is not None
    assert "line 25" in found.message
    assert found.time > 0


ENDS: list[tuple[str, Unstructured, GenerationState | None]] = [
    ("goes on", pod("Running", state={"running": {}}), None),
    ("started", pod("Succeeded"), V.GOOD),
    ("refused", pod("Failed", state={"terminated": {**ENDED, "exitCode": config_trial.EXIT_REJECTED}}), V.BAD),
    ("ended without a word", pod("Failed", state={"terminated": {"exitCode": config_trial.EXIT_REJECTED}}), V.UNKNOWN),
    ("has no program", pod("Failed", state={"terminated": {"exitCode": 128, "reason": "StartError"}}), V.BAD),
    ("was killed", pod("Failed", state={"terminated": {**ENDED, "exitCode": 137}}), V.UNKNOWN),
    ("was never run", Unstructured(ObjectMeta(name="x"), status={"phase": "Failed", "reason": "Evicted"}), V.UNKNOWN),
]


@pytest.mark.parametrize(("law", "found", "verdict"), ENDS, ids=[c[0] for c in ENDS])
def test_only_a_fatal_error_of_slurmctld_is_bad(law: str, found: Unstructured, verdict: GenerationState | None) -> None:
    result = config_trial.trial_result(found, NEW)
    assert (result[0] if result else None) is verdict


def test_a_trial_whose_image_cannot_be_pulled_waits_for_it() -> None:
    late = observed(now=NEW.created + 1000)
    assert decide(NEW, history(OLD), late).wanted.state is V.UNKNOWN
    waits = decide(NEW, history(OLD), late._replace(trial_blocked=True))
    assert (waits.wanted.state, waits.used) == (V.UNTRIED, OLD)


def test_the_trial_pod_has_no_key_no_state_no_privileges_and_no_text_from_a_spec() -> None:
    volumes = [{"name": "certs", "secret": {"secretName": "tls"}}, {"name": "big", "persistentVolumeClaim": {}}]
    mounts = [{"name": "certs", "mountPath": "/certs"}, {"name": "big", "mountPath": "/big"}]
    parent = controller(
        extraConf="SchedulerParameters=$(reboot)",
        slurmctld={"volumeMounts": mounts},
        template={"spec": {"volumes": volumes, "nodeSelector": {"a": "b"}}},
    )
    made_pod = config_trial.pod(parent, NEW, "slurm-config-3", Files(), Images("reg/{daemon}:1"))
    spec, text = made_pod["spec"], str(made_pod)
    assert "slurm-auth-slurm" not in text
    assert "slurm-auth-jwt" not in text
    assert "statesave" not in text
    assert "reboot" not in text
    assert [volume["name"] for volume in spec["volumes"]] == ["candidate", "slurm-etc", "run", "tmp", "certs"]
    assert spec["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert spec["activeDeadlineSeconds"] > 0
    # No Service, budget or StatefulSet of the cluster takes it for a slurmctld.
    assert made_pod["metadata"]["labels"][metadata.APP_NAME] != "slurmctld"


def test_slurm_conf_contains_its_generation_and_slurmctld_reports_it() -> None:
    parent = controller(extraConf="SlurmctldParameters=idle_on_node_suspend")
    text = slurm_conf(parent, None, (), Files(), "7-abc")
    line = text.splitlines()[-1]
    assert line.startswith("SlurmctldParameters=")
    assert loaded_generation(line.partition("=")[2].split(",")) == "7-abc"
    assert loaded_generation(["enable_configless"]) == ""


def test_texts_are_copied_as_long_as_they_fit() -> None:
    parent = controller(configFileRefs=[{"name": "a"}])
    small = collect_files(parent, {"a": ConfigMap(ObjectMeta(name="a"), {"gres.conf": "x"}, {"blob": "eA=="})})
    assert (small.copied, small.mounted) == ({"gres.conf": "x"}, (("a", ("blob",)),))
    large = collect_files(
        parent, {"a": ConfigMap(ObjectMeta(name="a"), {"gres.conf": "x" * (CONFIG_COPY_BYTES_MAX + 1)})}
    )
    assert (large.copied, large.mounted) == ({}, (("a", ()),))
