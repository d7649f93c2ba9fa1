# SPDX-License-Identifier: Apache-2.0
"""Generations of a configuration, and the choice of the one that slurmctld runs. Pure.

Every different set of files, together with the image of slurmctld, is a generation with a number. It is tried before it
is used, marked as loaded when the active slurmctld reports it, and rolled back if slurmctld fails with it. The state
belongs to these files and this image: the same are never tried twice, and an edit creates another generation.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from slinky.operator.upgrades.rules import ALLOWED, Peer, UpgradeVerdict, judge_upgrade
from slinky.slurm.releases import parse_version

#: Generations that are kept besides those in use, so that people can look at them.
KEPT = 5


class GenerationState(StrEnum):
    """What is known of a generation."""

    UNTRIED = "untried"  # the trial has not ended
    GOOD = "good"  # a trial slurmctld started with it
    UNKNOWN = "unknown"  # the trial was not possible, which does not prevent its use
    BAD = "bad"  # a trial slurmctld exited with a fatal error
    LOADED = "loaded"  # the active slurmctld has run it
    FAILED = "failed"  # the active slurmctld crashed with it


USABLE = frozenset({GenerationState.GOOD, GenerationState.UNKNOWN, GenerationState.LOADED})


class Generation(NamedTuple):
    """One set of files and an image, with their state and the message that explains the state."""

    number: int
    digest: str
    data: Mapping[str, str]
    state: GenerationState = GenerationState.UNTRIED
    message: str = ""
    created: float = 0.0
    image: str = ""  # empty if an earlier operator recorded the generation
    version: str = ""  # of slurmctld in the image; empty if no trial has told

    @property
    def id(self) -> str:
        """The id in the files, which slurmctld reports for the files that it has loaded."""
        return generation_id(self.number, self.digest)


class GenerationHistory(NamedTuple):
    """The recorded generations, the id of the one in use and since when, and the id of the last one that was loaded.

    `started` is the digest of the generation that the pods have to be started with (see `reconfiguration`),
    `reloaded` tells that they load the one in use while they run, and `restart_keys` are settings that prevented it.
    """

    generations: tuple[Generation, ...] = ()
    used: str = ""
    last_loaded: str = ""
    used_since: float = 0.0
    started: str = ""
    reloaded: bool = False
    restart_keys: tuple[str, ...] = ()

    def find(self, generation: str) -> Generation | None:
        """Return the generation with this id."""
        return next((record for record in self.generations if record.id == generation), None)

    def find_digest(self, digest: str) -> Generation | None:
        """Return the generation with exactly these files."""
        return next((record for record in self.generations if record.digest == digest), None)

    @property
    def next_number(self) -> int:
        """The number of a new generation."""
        return max((record.number for record in self.generations), default=0) + 1


class Observation(NamedTuple):
    """What was observed now."""

    trial: GenerationState | None = None  # the result of the trial, if it has ended
    trial_message: str = ""
    trial_version: str = ""
    trial_blocked: bool = False  # the image cannot be pulled now, so that the trial does not time out
    loaded: str | None = None  # the generation that slurmctld reports
    crash: str | None = None  # the error of a slurmctld that cannot start with the generation in use
    now: float = 0.0
    trial_timeout: float = 0.0
    versions: Mapping[str, str] = {}  # of slurmctld by image, where pods other than a trial have told
    unread: UpgradeVerdict = ALLOWED  # why a wanted image whose version is not known cannot replace another one
    slurmdbd: Peer | None = None  # its version, if it is known
    clients: tuple[Peer, ...] = ()  # versions of daemons that talk to slurmctld


class Decision(NamedTuple):
    """The wanted generation, the one to run (None: none yet), the last loaded one, and records that have changed."""

    wanted: Generation
    used: Generation | None
    last_loaded: str
    changed: tuple[Generation, ...] = ()
    upgrade: UpgradeVerdict = ALLOWED  # whether the version of the wanted generation may run now

    @property
    def trial_needed(self) -> bool:
        """Whether a trial of the wanted generation has to run."""
        return self.wanted.state is GenerationState.UNTRIED


def generation_id(number: int, digest: str) -> str:
    """Return the id of a generation."""
    return f"{number}-{digest}"


def decide(wanted: Generation, history: GenerationHistory, observation: Observation) -> Decision:
    """Update the states of the used and the wanted generation, and choose the one to run."""
    used, last_loaded = history.find(history.used), history.last_loaded
    if used is not None and observation.loaded == used.id:
        used, last_loaded = used._replace(state=GenerationState.LOADED, message=""), used.id
    elif used is not None and observation.crash is not None and _can_roll_back(used, history):
        used = used._replace(state=GenerationState.FAILED, message=observation.crash)
    used = _with_version(used, history, observation) if used is not None else None
    if used is not None and used.digest == wanted.digest:
        wanted = used
    wanted = _with_version(_with_trial_result(wanted, observation), history, observation)
    upgrade = _judge_image(used, wanted, observation)
    chosen = wanted if wanted.state in USABLE and upgrade.allowed else _fallback(used, history)
    changed = {
        record.id: record for record in (used, wanted) if record is not None and history.find(record.id) != record
    }
    return Decision(wanted, chosen, last_loaded, tuple(changed.values()), upgrade)


def unread_images(history: GenerationHistory, wanted: Generation) -> list[str]:
    """Return the images of the wanted and the used generation whose version no trial has told, the wanted one first."""
    records = (wanted, history.find(history.used))
    images = (item.image for item in records if item is not None and item.state in USABLE and not item.version)
    return list(dict.fromkeys(filter(None, images)))


def unneeded_generations(history: GenerationHistory, decision: Decision) -> list[Generation]:
    """Return the generations that can be deleted."""
    used = decision.used.id if decision.used else ""
    needed = {decision.wanted.id, used, decision.last_loaded, history.used}
    others = (record for record in history.generations if record.id not in needed)
    return sorted(others, key=lambda record: -record.number)[KEPT:]


def _can_roll_back(used: Generation, history: GenerationHistory) -> bool:
    """Return whether a crash is attributed to the used generation.

    A generation that was loaded before is not the cause, and without another loaded generation there is nothing to
    return to.
    """
    return (
        used.state is not GenerationState.LOADED
        and history.last_loaded not in {"", used.id}
        and history.find(history.last_loaded) is not None
    )


def _with_trial_result(wanted: Generation, observation: Observation) -> Generation:
    if wanted.state is not GenerationState.UNTRIED:
        return wanted
    if observation.trial is not None:
        version = observation.trial_version
        return wanted._replace(state=observation.trial, message=observation.trial_message, version=version)
    if not observation.trial_blocked and observation.now - wanted.created >= observation.trial_timeout:
        return wanted._replace(state=GenerationState.UNKNOWN, message="the trial did not end in time")
    return wanted


def _with_version(record: Generation, history: GenerationHistory, observation: Observation) -> Generation:
    """Add the version that another generation of the same image has, or that a pod has told."""
    if record.version or not record.image or record.state not in USABLE:
        return record
    same_image = (other.version for other in history.generations if other.image == record.image and other.version)
    return record._replace(version=next(same_image, observation.versions.get(record.image, "")))


def _judge_image(used: Generation | None, wanted: Generation, observation: Observation) -> UpgradeVerdict:
    """Return whether another image may run now."""
    version = parse_version(wanted.version)
    if used is None or used.image == wanted.image or wanted.state not in USABLE:
        return ALLOWED
    if version is None:
        return observation.unread
    return judge_upgrade("slurmctld", parse_version(used.version), version, observation.slurmdbd, observation.clients)


def _fallback(used: Generation | None, history: GenerationHistory) -> Generation | None:
    return used if used is not None and used.state in USABLE else history.find(history.last_loaded)
