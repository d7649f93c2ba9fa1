# SPDX-License-Identifier: Apache-2.0
"""What a NodeSet may be."""

from collections.abc import Iterator

from slinky.api import NodeSet
from slinky.webhook import text
from slinky.webhook.controller import defined
from slinky.webhook.judge import Change, Rules

Sets = Change[NodeSet]

#: Settings that name a node; the operator gives the name.
NAMING = ("NodeName", "NodeHostname", "NodeAddr")


def hosts_can_be_named(change: Sets) -> Iterator[str]:
    """Prefix and largest ordinal together are a host name."""
    new = change.new
    if new.per_node:
        return
    given = bool(new.spec.template.spec.get("hostname"))
    field = "spec.template.spec.hostname" if given else "metadata.name"
    largest = max(new.spec.replicas - 1, 0)
    yield from text.named(
        field, new.hostname(largest), text.LABEL, text.LONGEST_LABEL, "as a host name with its ordinal must"
    )


def children_can_be_named(change: Sets) -> Iterator[str]:
    """Its name is the value of a label and the start of pod names."""
    yield from text.named(
        "metadata.name", change.new.metadata.name, text.LABEL, text.LONGEST_LABEL, "as the label of its pods must"
    )


def hosts_are_unique(change: Sets) -> Iterator[str]:
    """No other NodeSet of the cluster can make a worker, node set or partition of the same name."""
    new = change.new
    for other in change.world.node_sets:
        if (
            other.metadata.name != new.metadata.name
            and other.controller_key == new.controller_key
            and clash(new, other)
        ):
            yield (
                f"spec.template.spec.hostname: NodeSet {other.metadata.name} names its Slurm nodes {prefix(other)!r}"
                " too; give each a prefix of its own"
            )


def prefix(of: NodeSet) -> str:
    """What its host names start with."""
    return str(of.spec.template.spec.get("hostname") or f"{of.metadata.name}-")


def clash(one: NodeSet, other: NodeSet) -> bool:
    """Can both have the same name in Slurm: `a-` with 10 is `a-1` with 0."""
    if one.slurm_name == other.slurm_name:
        return True
    if one.per_node or other.per_node:
        return False
    short, long = sorted((prefix(one), prefix(other)), key=len)
    rest = long.removeprefix(short)
    return rest != long and rest.isascii() and rest.isdigit()


def partition_is_unique(change: Sets) -> Iterator[str]:
    """The Controller's own text does not define the same partition or node set."""
    new, name = change.new, change.new.controller_key.name
    taken = {entry for found in change.world.controllers if found.key == new.controller_key for entry in defined(found)}
    if new.spec.partition.enabled and ("partitionname", new.slurm_name) in taken:
        yield f"spec.partition: Controller {name} defines partition {new.slurm_name} in its extraConf"
    if ("nodeset", new.slurm_name) in taken:
        yield f"metadata.name: Controller {name} defines node set {new.slurm_name} in its extraConf"


def settings_are_data(change: Sets) -> Iterator[str]:
    """Node settings are Key=Value and nothing else."""
    yield from text.node_settings("spec.extraConf", change.new.spec.extra_conf, NAMING)


def partition_is_one_line(change: Sets) -> Iterator[str]:
    """Partition settings stay inside their line."""
    yield from text.conf_fragment("spec.partition.config", change.new.spec.partition.config, ("PartitionName", "Nodes"))


def sshd_text_is_plain(change: Sets) -> Iterator[str]:
    """Text for sshd has no control characters."""
    yield from text.plain_text("spec.ssh.extraSshdConfig", change.new.spec.ssh.extra_sshd_config)


def reservation_flags_are_words(change: Sets) -> Iterator[str]:
    """Flags of the reservation are plain words."""
    for flag in change.new.spec.update_strategy.scheduled_update.flags:
        yield from text.conf_word("spec.updateStrategy.scheduledUpdate.flags", flag)


def claims_stay(change: Sets) -> Iterator[str]:
    """Claims are neither added nor taken away: workers that exist could not follow."""
    if change.old and change.old.spec.volume_claim_templates != change.new.spec.volume_claim_templates:
        yield "spec.volumeClaimTemplates is immutable"


def claims_are_named(change: Sets) -> Iterator[str]:
    """Each claim has a name of its own."""
    seen: set[str] = set()
    for index, claim in enumerate(change.new.spec.volume_claim_templates):
        field = f"spec.volumeClaimTemplates[{index}].metadata.name"
        meta = claim.get("metadata")
        name = str(meta.get("name") or "") if isinstance(meta, dict) else ""
        yield from text.named(field, name, text.LABEL, text.LONGEST_LABEL, "as a volume must")
        if name in seen:
            yield f"{field}: {name!r} is there twice"
        seen.add(name)


def idle_fields(change: Sets) -> Iterator[str]:
    """Fields without effect in the scaling mode or strategy that was chosen."""
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
        children_can_be_named,
        hosts_can_be_named,
        hosts_are_unique,
        partition_is_unique,
        settings_are_data,
        partition_is_one_line,
        sshd_text_is_plain,
        reservation_flags_are_words,
        claims_stay,
        claims_are_named,
    ),
    warn=(idle_fields,),
)
