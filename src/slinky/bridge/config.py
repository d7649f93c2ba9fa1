# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012 -- msgspec gives each struct its own copy of an empty default
"""The configuration file of the bridge: the keys of slurm-bridge 1.3 and further ones, all optional.

An unknown key is reported and ignored, so that a file for another version still works. A value of the wrong type stops
the bridge at its start with the path of the key. The descriptions of the settings are rendered into
`docs/bridge/configuration.md` and into the schema of the chart's values.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml

from slinky.bridge import names
from slinky.kube import View
from slinky.kube.label_selector import LabelSelector
from slinky.kube.schema import described
from slinky.observe import ExplainedError

TaintEffect = Literal["NoExecute", "NoSchedule", "PreferNoSchedule", "None"]
PolicyMode = Literal["standard", "strict", "trust-annotations"]


class ConfigError(ExplainedError, ValueError):
    """The configuration is invalid; the message names the key."""


class PolicyRule(View, frozen=True, forbid_unknown_fields=True):
    """Options of the workloads in some namespaces. The first rule that matches a pod applies; `*` matches any text."""

    name: Annotated[str, described("Name of the rule in messages; its position in the list if empty.")] = ""
    namespaces: Annotated[tuple[str, ...], described("Namespaces that the rule matches.")] = ("*",)
    service_accounts: Annotated[tuple[str, ...], described("Service accounts that the rule matches.")] = ("*",)
    force: Annotated[dict[str, str], described("Options that override the annotations.")] = {}
    default: Annotated[dict[str, str], described("Options for workloads without the annotation.")] = {}
    allow: Annotated[dict[str, tuple[str, ...]], described("Allowed values by option.")] = {}
    refuse: Annotated[tuple[str, ...], described("Options that annotations must not set.")] = ()


class Policy(View, frozen=True, forbid_unknown_fields=True):
    """Which job options annotations may set."""

    mode: Annotated[
        PolicyMode,
        described(
            "Options that a rule must allow: user, group, priority, negative nice and reservation (`standard`), also "
            "account, QOS and partition (`strict`), or none (`trust-annotations`)."
        ),
    ] = "standard"
    rules: Annotated[
        tuple[PolicyRule, ...],
        described(
            "The first rule that matches a pod applies. If there are rules, a pod that none matches gets no job."
        ),
    ] = ()


class PriorityRule(View, frozen=True):
    """Options of the pods of a PriorityClass."""

    qos: Annotated[str, described("Quality of service.")] = ""
    priority: Annotated[int | None, described("Explicit priority.")] = None
    nice: Annotated[int | None, described("Adjustment that lowers the priority.")] = None


class DeviceProfile(View, frozen=True, forbid_unknown_fields=True):
    """How Slurm counts the devices of a DRA driver; `devices.profiles` checks which fields can be combined."""

    driver: Annotated[str, described("Name of the DRA driver.")]
    match: Annotated[str, described("CEL expression that selects devices of the driver; all of them if empty.")] = ""
    gres: Annotated[str, described("Name of the GRES.")] = "gpu"
    type: Annotated[
        str, described("Type of the GRES; the name of the driver if `type` and `typeAttribute` are empty.")
    ] = ""
    type_attribute: Annotated[str, described("Attribute of the devices that contains the type of the GRES.")] = ""
    untyped: Annotated[bool, described("The GRES has no type, as in a gres.conf without `Type`.")] = False
    index_attribute: Annotated[str, described("Attribute of the devices that contains their index.")] = "index"
    cores: Annotated[bool, described("The devices are CPUs; Slurm counts them as cores.")] = False
    ignore: Annotated[bool, described("Do not report the devices to Slurm.")] = False


class Backend(View, frozen=True, forbid_unknown_fields=True):
    """How slurm-bridge 1.3 counts the devices of a profile."""

    type: Literal["core-bitmap", "indexed-gres"]
    gres_name: str = "gpu"


class CompatProfile(View, frozen=True, forbid_unknown_fields=True):
    """A device profile in the format of slurm-bridge 1.3."""

    name: str
    driver: str
    backend: Backend
    selector: str = ""

    def to_device_profile(self) -> DeviceProfile:
        """The equivalent profile in the format of this version."""
        if self.backend.type == "core-bitmap":
            return DeviceProfile(driver=self.driver, match=self.selector, cores=True)
        return DeviceProfile(driver=self.driver, match=self.selector, gres=self.backend.gres_name, type=self.name)


class CompatProfiles(View, frozen=True):
    """The device profiles of a configuration file for slurm-bridge 1.3."""

    device_profiles: tuple[CompatProfile, ...]


class BridgeSettings(View, frozen=True):
    """The configuration of one bridge."""

    scheduler_name: Annotated[str, described("Scheduler name of the pods that the bridge schedules.")] = names.SCHEDULER
    slurm_rest_api: Annotated[str, described("URL of slurmrestd.")] = "http://slurm-restapi.slurm:6820"
    managed_namespaces: Annotated[
        tuple[str, ...],
        described("Namespaces whose pods admission assigns to the bridge; unused if there is a selector."),
    ] = ()
    managed_namespace_selector: Annotated[
        LabelSelector, described("Selector of the namespaces whose pods admission assigns to the bridge.")
    ] = LabelSelector()
    mcs_label: Annotated[str, described("MCS label of every job; requires `MCSPlugin=mcs/label`.")] = ""
    partition: Annotated[str, described("Partition of jobs without the option `partition`.")] = "slurm-bridge"

    bridge_id: Annotated[
        str,
        described(
            "Name of the bridge in its jobs, which separates bridges of one cluster; `schedulerName` if empty. "
            "Before a change, see `formerBridgeIds`."
        ),
    ] = ""
    former_bridge_ids: Annotated[
        tuple[str, ...],
        described(
            "Names that this bridge had before `bridgeId` or `schedulerName` was changed: its jobs and nodes with "
            "these names are adopted, or removed if their pods and nodes are gone. No other bridge may use them."
        ),
    ] = ()
    token_file: Annotated[
        str, described("File with the token for slurmrestd, read again when it changes; `$SLURM_JWT_FILE` if empty.")
    ] = ""
    slurm_user: Annotated[str, described("User of the tokens that are signed with `jwtKeyFile`.")] = "slurm"
    jwt_key_file: Annotated[str, described("Key that signs short-lived tokens; replaces `tokenFile`.")] = ""
    tls_folder: Annotated[
        str,
        described(
            "Folder with `ca.crt` and, for client authentication, `tls.crt` and `tls.key`, for https; "
            "read again when they change."
        ),
    ] = ""
    completer_socket: Annotated[
        str,
        described(
            "Socket of slurm-complete, which ends jobs as COMPLETED or FAILED; without it, jobs end as CANCELLED. "
            "See docs/bridge/install.md."
        ),
    ] = ""
    taint: Annotated[TaintEffect, described("Effect of the taint on managed nodes; `None` sets no taint.")] = (
        "NoExecute"
    )
    node_size: Annotated[
        Literal["allocatable", "capacity"],
        described(
            "CPUs and memory of external nodes in Slurm: those that the kubelet allocates, or those of the machine."
        ),
    ] = "allocatable"
    allocate_first: Annotated[
        bool,
        described(
            "Start jobs with an immediate allocation if enough hosts look idle, within milliseconds. Slurm records a "
            "rejected one as a FAILED job, so the next jobs of the partition and account are queued for a while."
        ),
    ] = True
    dead_kubelet_seconds: Annotated[
        float,
        msgspec.Meta(
            ge=0,
            description="Seconds, after the grace period, until the job of a deleted pod on an unreachable node ends.",
        ),
    ] = 120.0
    not_ready_seconds: Annotated[
        float, msgspec.Meta(ge=0, description="Seconds until a node that is not ready is drained in Slurm.")
    ] = 30.0
    stuck_pod_seconds: Annotated[
        float,
        msgspec.Meta(
            ge=0,
            description="Seconds, after the grace period, until a host is drained because a pod of an ended job has "
            "not stopped there.",
        ),
    ] = 180.0
    lost_pods_evicted: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            description="Running pods that may be evicted in ten minutes because Slurm lost their jobs and gave their "
            "nodes to others; 0 evicts none.",
        ),
    ] = 10
    failed_jobs_evicted: Annotated[
        int,
        msgspec.Meta(
            ge=1,
            description="Jobs whose running pods may be evicted in ten minutes because the jobs ended as NODE_FAIL, "
            "BOOT_FAIL or FAILED; more if `failedJobsShare` allows it.",
        ),
    ] = 10
    failed_jobs_share: Annotated[
        float,
        msgspec.Meta(ge=0, le=1, description="The same as a share of all jobs with running pods; the larger counts."),
    ] = 0.25
    lease_namespace: Annotated[str, described("Namespace of the Lease; the namespace of the bridge if empty.")] = ""
    leader_elect: Annotated[bool, described("Use leader election; required with more than one replica.")] = True
    doorbell_port: Annotated[
        int,
        described(
            "UDP port that PrologSlurmctld and EpilogSlurmctld can notify, so that the bridge reacts within "
            "milliseconds; 0 disables it."
        ),
    ] = 0
    policy: Annotated[Policy, described("Which options annotations may set; see below.")] = Policy()
    priority_classes: Annotated[
        dict[str, PriorityRule], described("Options of the pods of a PriorityClass, by its name; see below.")
    ] = {}
    device_profiles: Annotated[
        tuple[DeviceProfile, ...], described("How Slurm counts the devices of DRA drivers; see docs/bridge/devices.md.")
    ] = ()

    @property
    def bridge_name(self) -> str:
        """The name of the bridge in its jobs."""
        return self.bridge_id or self.scheduler_name


SETTING_NAMES = frozenset(field.encode_name for field in msgspec.structs.fields(BridgeSettings))


def parse(text: str) -> tuple[BridgeSettings, tuple[str, ...]]:
    """The settings in `text`, and the unknown keys. Raises `ConfigError`."""
    try:
        values = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ConfigError(f"not YAML: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError("the file must be a mapping of keys to values")
    # An empty `managedNamespaceSelector:` or `managedNamespaces:` is null in YAML, which means the default.
    values = {key: value for key, value in values.items() if value is not None}
    try:
        values |= _convert_compat_profiles(values)
        settings = msgspec.convert(values, BridgeSettings)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error)) from error
    return settings, tuple(sorted(str(key) for key in values if key not in SETTING_NAMES))


def _convert_compat_profiles(values: dict[str, Any]) -> dict[str, Any]:
    """Device profiles in the format of slurm-bridge 1.3, converted to the current one; empty if there are none."""
    profiles = values.get("deviceProfiles")
    if not isinstance(profiles, list) or not any(isinstance(item, dict) and "backend" in item for item in profiles):
        return {}
    converted = msgspec.convert(values, CompatProfiles).device_profiles
    return {"deviceProfiles": [profile.to_device_profile() for profile in converted]}


def load(path: Path) -> tuple[BridgeSettings, tuple[str, ...]]:
    """Read the file. Raises `ConfigError`."""
    try:
        return parse(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (ConfigError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
