# SPDX-License-Identifier: Apache-2.0
"""Whether slurmctld loads a generation while it runs, or is restarted with it. Pure.

The pods of slurmctld carry the digest of the generation that they have to be started with. A generation that only
changes settings that `scontrol reconfigure` can change keeps that digest, so that no pod is replaced; the sidecar
`reconfigure` then loads the files.
"""

from typing import NamedTuple

from slinky.api.names import wellknown
from slinky.operator.controller.config_generation import Generation, GenerationHistory
from slinky.slurm.conf import changed_restart_keys

#: What changed if the image did.
IMAGE = "image"
#: Seconds after which a slurmctld that runs should have loaded the files of its generation.
LOAD_SECONDS = 180.0


class StartGeneration(NamedTuple):
    """The digest of the generation that the pods have to be started with.

    `reloaded` tells that they load the generation in use while they run; `restart_keys` are settings that prevented it.
    """

    digest: str
    reloaded: bool = False
    restart_keys: tuple[str, ...] = ()


class Load(NamedTuple):
    """How slurmctld comes to run the generation in use."""

    in_place: bool = False  # it loads the files while it runs
    restart_keys: tuple[str, ...] = ()  # the settings for which it is restarted
    seconds: float = 0.0  # since when


AT_START = Load()


def start_generation(history: GenerationHistory, used: Generation, *, in_place: bool) -> StartGeneration:
    """Return what the pods have to be started with to run `used`.

    `in_place` tells whether slurmctld can load files while it runs and report that it did.
    """
    previous = history.find(history.used)
    if previous is None:
        return StartGeneration(used.digest)
    if previous.id == used.id:
        return StartGeneration(history.started or used.digest, history.reloaded, history.restart_keys)
    keys = restart_keys(previous, used)
    if keys or not in_place:
        return StartGeneration(used.digest, restart_keys=keys)
    return StartGeneration(history.started or previous.digest, reloaded=True)


def restart_keys(old: Generation, new: Generation) -> tuple[str, ...]:
    """Return what differs between two generations and needs a restart of slurmctld."""
    files = changed_restart_keys(old.data.get(wellknown.SLURM_CONF, ""), new.data.get(wellknown.SLURM_CONF, ""))
    # The keys that tokens are verified with belong to the authentication mechanism.
    keys = (wellknown.JWKS,) if old.data.get(wellknown.JWKS) != new.data.get(wellknown.JWKS) else ()
    image = (IMAGE,) if old.image and new.image and old.image != new.image else ()
    return (*files, *keys, *image)
