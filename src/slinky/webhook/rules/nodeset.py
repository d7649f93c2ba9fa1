# SPDX-License-Identifier: Apache-2.0
"""Rules for NodeSets."""

from collections.abc import Iterator
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from slinky.api import NodeSet
from slinky.webhook.evaluate import AdmissionChange, Rules
from slinky.webhook.rules import text_checks
from slinky.webhook.rules.slurm_names import (
    ALL_NODES,
    DEFAULT_PARTITION,
    creates_name,
    defined_names,
    host_prefix,
    names_clash,
)

NodeSetChange = AdmissionChange[NodeSet]


def label_is_valid(change: NodeSetChange) -> Iterator[str]:
    """The name of the NodeSet is valid as a label and as the beginning of pod names."""
    name = change.new.metadata.name
    yield from text_checks.valid_name("metadata.name", name, text_checks.LABEL, "a label of its pods")


def host_names_are_valid(change: NodeSetChange) -> Iterator[str]:
    """The host name prefix with the largest ordinal is a valid host name; in DaemonSet mode, the prefix is valid."""
    new = change.new
    name, purpose = (
        (new.slurm_name, "a partition")
        if new.per_node
        else (new.hostname(max(_most_workers(new) - 1, 0)), "a host name with its ordinal")
    )
    yield from text_checks.valid_name(_name_field(new), name, text_checks.LABEL, purpose)


def _most_workers(node_set: NodeSet) -> int:
    policy = node_set.autoscaling
    windows = [window.max_replicas or 0 for window in policy.windows] if policy else []
    return max(node_set.spec.replicas, policy.max_replicas if policy else 0, *windows)


def time_zone_is_known(change: NodeSetChange) -> Iterator[str]:
    """`autoscaling.timeZone` is the name of a time zone."""
    policy = change.new.autoscaling
    if policy is not None and not _is_time_zone(policy.time_zone):
        yield f"spec.autoscaling.timeZone: {policy.time_zone!r} is not a time zone such as UTC or Europe/Zurich"


def _is_time_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return name == "UTC"
    return True


def host_names_are_unique(change: NodeSetChange) -> Iterator[str]:
    """No other NodeSet of the cluster can create a node, node set or partition of the same name in Slurm."""
    new = change.new
    for other in change.context.node_sets:
        if (
            other.metadata.name != new.metadata.name
            and other.controller_key == new.controller_key
            and names_clash(new, other)
        ):
            yield (
                f"spec.template.spec.hostname: NodeSet {other.metadata.name} also uses the prefix"
                f" {host_prefix(other)!r} for its Slurm nodes; choose another prefix"
            )


def names_are_unused(change: NodeSetChange) -> Iterator[str]:
    """`extraConf` of the Controller does not define a node, node set or partition of the same name."""
    new, name = change.new, change.new.controller_key.name
    controllers = [item for item in change.context.controllers if item.key == new.controller_key]
    for keyword, defined in sorted({entry for item in controllers for entry in defined_names(item)}):
        if creates_name(new, keyword, defined):
            yield f"{_name_field(new)}: Controller {name} defines {keyword} {defined} in its extraConf"


def partition_is_not_default(change: NodeSetChange) -> Iterator[str]:
    """The partition is not named `default`, because Slurm uses that name for default settings."""
    if change.new.spec.partition.enabled and change.new.slurm_name == DEFAULT_PARTITION:
        yield (
            f"{_name_field(change.new)}: Slurm uses the partition name {DEFAULT_PARTITION} for default settings;"
            " choose another name"
        )


def _name_field(node_set: NodeSet) -> str:
    """The field that determines the names of its hosts."""
    return "spec.template.spec.hostname" if node_set.spec.template.spec.get("hostname") else "metadata.name"


def extra_conf_is_settings(change: NodeSetChange) -> Iterator[str]:
    """`extraConf` consists of Key=Value pairs, has no characters that are special to a shell, and names no node."""
    yield from text_checks.node_settings("spec.extraConf", change.new.spec.extra_conf)


def partition_config_is_one_line(change: NodeSetChange) -> Iterator[str]:
    """`partition.config` is a single line without `PartitionName` and `Nodes`."""
    yield from text_checks.conf_fragment(
        "spec.partition.config", change.new.spec.partition.config, ("PartitionName", "Nodes")
    )


def ssh_text_is_plain(change: NodeSetChange) -> Iterator[str]:
    """`ssh.extraSshdConfig` contains no control characters."""
    yield from text_checks.plain_text("spec.ssh.extraSshdConfig", change.new.spec.ssh.extra_sshd_config)


def reservation_flags_are_words(change: NodeSetChange) -> Iterator[str]:
    """Flags of the reservation are single words."""
    for flag in change.new.spec.update_strategy.scheduled_update.flags:
        yield from text_checks.conf_word("spec.updateStrategy.scheduledUpdate.flags", flag)


def claim_templates_are_immutable(change: NodeSetChange) -> Iterator[str]:
    """`volumeClaimTemplates` does not change, because existing workers could not follow."""
    if change.old and change.old.spec.volume_claim_templates != change.new.spec.volume_claim_templates:
        yield "spec.volumeClaimTemplates is immutable"


def claim_templates_are_named(change: NodeSetChange) -> Iterator[str]:
    """Each claim template has a valid name, which no other one has."""
    names: set[str] = set()
    for index, claim in enumerate(change.new.spec.volume_claim_templates):
        field = f"spec.volumeClaimTemplates[{index}].metadata.name"
        meta = claim.get("metadata")
        name = str(meta.get("name") or "") if isinstance(meta, dict) else ""
        yield from text_checks.valid_name(field, name, text_checks.LABEL, "a volume")
        if name in names:
            yield f"{field}: {name!r} is used twice"
        names.add(name)


def partition_has_all_nodes(change: NodeSetChange) -> Iterator[str]:
    """A partition named `all` contains every node of the cluster, because Slurm uses that name for all nodes."""
    if change.new.spec.partition.enabled and change.new.slurm_name == ALL_NODES:
        yield (
            f"{_name_field(change.new)}: Slurm uses the name {ALL_NODES} for every node,"
            " so the partition contains all workers of the cluster"
        )


def replicas_have_one_writer(change: NodeSetChange) -> Iterator[str]:
    """Only the autoscaler sets `replicas` of a NodeSet with native autoscaling."""
    policy, others = change.new.autoscaling, sorted(change.context.replicas_managers)
    if policy is not None and policy.mode == "Active" and others:
        yield (
            f"spec.replicas: {others[0]} sets the number of workers, and spec.autoscaling sets it again by the jobs;"
            " leave replicas out (`replicas: null` in the values of the chart)"
        )


def fields_are_unused(change: NodeSetChange) -> Iterator[str]:
    """A field has no effect in the chosen scaling mode or strategy."""
    spec = change.new.spec
    rolling = spec.update_strategy.rolling_update
    table = (
        (change.new.per_node and spec.pin_to_node, "spec.pinToNode", "in DaemonSet mode"),
        (change.new.per_node and rolling.max_surge not in {0, "0%"}, "maxSurge", "in DaemonSet mode"),
        (change.new.per_node and rolling.partition > 0, "rollingUpdate.partition", "in DaemonSet mode"),
        (
            not change.new.per_node and spec.prune_slurm_node_records != "Never",
            "spec.pruneSlurmNodeRecords",
            "in StatefulSet mode",
        ),
        (spec.drain.timeout is None and spec.drain.on_timeout != "Wait", "spec.drain.onTimeout", "without a timeout"),
        (
            bool(spec.partition.config) and not spec.partition.enabled,
            "spec.partition.config",
            "unless the partition is enabled",
        ),
    )
    yield from (f"{field} has no effect {when}" for applies, field, when in table if applies)


RULES = Rules(
    NodeSet,
    refuse=(
        label_is_valid,
        host_names_are_valid,
        host_names_are_unique,
        names_are_unused,
        partition_is_not_default,
        extra_conf_is_settings,
        partition_config_is_one_line,
        ssh_text_is_plain,
        reservation_flags_are_words,
        claim_templates_are_immutable,
        claim_templates_are_named,
        time_zone_is_known,
    ),
    warn=(partition_has_all_nodes, fields_are_unused, replicas_have_one_writer),
)
