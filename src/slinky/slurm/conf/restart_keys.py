# SPDX-License-Identifier: Apache-2.0
"""The settings of slurm.conf that a running slurmctld cannot change, and which of them differ between two files.

Since 23.11 `scontrol reconfigure` replaces the process of slurmctld by a new one that reads all files and keeps its
sockets and its credentials. Therefore every other setting is changed without a restart. The sources are the manuals
slurm.conf(5) and scontrol(1) of 26.05; an integration test compares the table with the real slurmctld.
"""

from collections.abc import Mapping
from typing import NamedTuple

from slinky.slurm.conf.text import ConfError, parse

LISTENING = "slurm.conf(5): changes to TCP listening settings require a restart"
AUTHENTICATION = "scontrol(1): reconfigure does not change the authentication mechanism"
REGISTRATION = "slurmctld registers with slurmdbd when it starts"
IDENTITY = "slurmctld finds its state and its role by this setting when it starts"


class RestartKey(NamedTuple):
    """A setting that needs a restart of slurmctld, and the reason."""

    name: str
    reason: str


#: Settings that need a restart; all others are changed by `scontrol reconfigure`.
RESTART_KEYS = (
    RestartKey("SlurmctldPort", LISTENING),
    RestartKey("SlurmdPort", LISTENING),
    RestartKey("CommunicationParameters", LISTENING),
    RestartKey("TLSType", LISTENING),
    RestartKey("TLSParameters", LISTENING),
    RestartKey("AuthType", AUTHENTICATION),
    RestartKey("AuthInfo", AUTHENTICATION),
    RestartKey("AuthAltTypes", AUTHENTICATION),
    RestartKey("AuthAltParameters", AUTHENTICATION),
    RestartKey("CredType", AUTHENTICATION),
    RestartKey("AccountingStorageType", REGISTRATION),
    RestartKey("AccountingStorageHost", REGISTRATION),
    RestartKey("AccountingStorageBackupHost", REGISTRATION),
    RestartKey("AccountingStoragePort", REGISTRATION),
    RestartKey("ClusterName", IDENTITY),
    RestartKey("SlurmUser", IDENTITY),
    RestartKey("SlurmctldHost", IDENTITY),
    RestartKey("StateSaveLocation", IDENTITY),
)


def changed_restart_keys(old: str, new: str) -> tuple[str, ...]:
    """Return the settings that differ between two slurm.conf and need a restart.

    A file that cannot be read counts as one that differs in `slurm.conf`.
    """
    try:
        before, after = _settings(old), _settings(new)
    except ConfError:
        return ("slurm.conf",)
    return tuple(key.name for key in RESTART_KEYS if before.get(key.name.lower()) != after.get(key.name.lower()))


def _settings(text: str) -> Mapping[str, tuple[str, ...]]:
    """Return the values of each setting that begins a line, by lower-case name."""
    values: dict[str, tuple[str, ...]] = {}
    for first, *_ in parse(text):
        key = first.key.lower()
        values[key] = (*values.get(key, ()), first.value)
    return values
