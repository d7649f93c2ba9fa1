# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012 -- msgspec gives each struct its own copy of an empty default
"""The configuration file: the keys that existing installations have, and ours, all of them optional.

A key that nobody knows is reported and otherwise ignored, so that a file written for another version still
starts; a key of a wrong type refuses to start with the path of the mistake.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml

from slinky.bridge import names
from slinky.bridge.feasibility.label_selector import LabelSelector
from slinky.kube import View
from slinky.observe import ExplainedError

Effect = Literal["NoExecute", "NoSchedule", "PreferNoSchedule", "None"]
Seconds = Annotated[float, msgspec.Meta(ge=0)]


class ConfigError(ExplainedError, ValueError):
    """The file cannot be used; the message says where it is wrong."""


class PolicyRule(View, frozen=True):
    """What the workloads of some namespaces are in Slurm: `force` wins over annotations, `allow` bounds them.

    The first rule that fits decides. Names may end with `*`.
    """

    namespaces: tuple[str, ...] = ("*",)
    service_accounts: tuple[str, ...] = ("*",)
    force: dict[str, str] = {}
    default: dict[str, str] = {}
    allow: dict[str, tuple[str, ...]] = {}
    refuse: tuple[str, ...] = ()


class PriorityRule(View, frozen=True):
    """What a PriorityClass means in Slurm."""

    qos: str = ""
    priority: int | None = None
    nice: int | None = None


class DeviceProfile(View, frozen=True, forbid_unknown_fields=True):
    """What the devices of a DRA driver are in Slurm; see `profiles` for what fits together."""

    driver: str
    # Which of its devices are meant, in CEL; all of them without it.
    match: str = ""
    gres: str = "gpu"
    # The GRES type: fixed, or what devices tell under an attribute; the driver's name without either.
    type: str = ""
    type_attribute: str = ""
    untyped: bool = False  # no type at all, as in a gres.conf without
    index_attribute: str = "index"
    # The devices are CPUs, which Slurm counts as such.
    cores: bool = False
    # Slurm is not told of them, and no pod gets them by Slurm.
    ignore: bool = False


class Backend(View, frozen=True, forbid_unknown_fields=True):
    """How devices of a familiar profile are counted."""

    type: Literal["core-bitmap", "indexed-gres"]
    gres_name: str = "gpu"


class CompatProfile(View, frozen=True, forbid_unknown_fields=True):
    """A device profile as slurm-bridge 1.3 writes it."""

    name: str
    driver: str
    backend: Backend
    selector: str = ""

    def ours(self) -> DeviceProfile:
        """The same in our words."""
        if self.backend.type == "core-bitmap":
            return DeviceProfile(driver=self.driver, match=self.selector, cores=True)
        return DeviceProfile(driver=self.driver, match=self.selector, gres=self.backend.gres_name, type=self.name)


class CompatProfiles(View, frozen=True):
    """The part of such a file that has them."""

    device_profiles: tuple[CompatProfile, ...]


class BridgeSettings(View, frozen=True):
    """How one bridge works."""

    scheduler_name: str = names.SCHEDULER
    slurm_rest_api: str = "http://slurm-restapi.slurm:6820"
    managed_namespaces: tuple[str, ...] = ()
    managed_namespace_selector: LabelSelector = LabelSelector()
    mcs_label: str = ""
    partition: str = "slurm-bridge"

    # Tells this bridge's jobs from those of other bridges on the same Slurm; the cluster is told by its own id.
    bridge_id: str = ""
    token_file: str = ""
    slurm_user: str = "slurm"
    jwt_key_file: str = ""
    # For https: a folder with ca.crt and, where slurmrestd asks for them, tls.crt and tls.key; followed as they change.
    tls_folder: str = ""
    # Where slurm-complete answers, which ends jobs as COMPLETED or FAILED; without it they end as CANCELLED.
    completer_socket: str = ""
    taint: Effect = "NoExecute"
    # What an external node offers: what the kubelet will admit, or all that the machine has.
    node_size: Literal["allocatable", "capacity"] = "allocatable"
    allocate_first: bool = True
    # After its grace, a pod on a node that does not answer is given up this many seconds later.
    dead_kubelet_seconds: Seconds = 120.0
    # Nodes that stop answering are drained in Slurm after this many seconds.
    not_ready_seconds: Seconds = 30.0
    # Of running pods whose jobs vanished and cannot be replaced, so many may be deleted in ten minutes.
    lost_pods_evicted: Annotated[int, msgspec.Meta(ge=0)] = 10
    lease_namespace: str = ""
    leader_elect: bool = True
    # Where PrologSlurmctld and EpilogSlurmctld may ring (UDP); 0 is off.
    doorbell_port: int = 0
    policy: tuple[PolicyRule, ...] = ()
    priority_classes: dict[str, PriorityRule] = {}
    device_profiles: tuple[DeviceProfile, ...] = ()

    @property
    def bridge_name(self) -> str:
        """The bridge's name in its jobs."""
        return self.bridge_id or self.scheduler_name


SETTING_NAMES = frozenset(field.encode_name for field in msgspec.structs.fields(BridgeSettings))


def parse(text: str) -> tuple[BridgeSettings, tuple[str, ...]]:
    """The settings in `text`, and the keys that mean nothing to us. Raises `ConfigError`."""
    try:
        found = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ConfigError(f"not YAML: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError("the file must be a mapping of keys to values")
    # An empty `managedNamespaceSelector:` or `managedNamespaces:` reads as null: the same as absent.
    given = {key: value for key, value in found.items() if value is not None}
    try:
        given |= _translated(given)
        settings = msgspec.convert(given, BridgeSettings)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error)) from error
    return settings, tuple(sorted(str(key) for key in given if key not in SETTING_NAMES))


def _translated(given: dict[str, Any]) -> dict[str, Any]:
    """Device profiles in the familiar words, in ours; nothing if there are none."""
    profiles = given.get("deviceProfiles")
    if not isinstance(profiles, list) or not any(isinstance(one, dict) and "backend" in one for one in profiles):
        return {}
    return {"deviceProfiles": [one.ours() for one in msgspec.convert(given, CompatProfiles).device_profiles]}


def load(path: Path) -> tuple[BridgeSettings, tuple[str, ...]]:
    """Read the file. Raises `ConfigError`."""
    try:
        return parse(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (ConfigError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
