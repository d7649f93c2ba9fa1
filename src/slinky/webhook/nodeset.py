# SPDX-License-Identifier: Apache-2.0
"""What a NodeSet may be."""

from collections.abc import Iterator

from slinky.api import NodeSet
from slinky.webhook import text_checks
from slinky.webhook.evaluate import AdmissionChange, Rules
from slinky.webhook.slurm_names import DEFAULTS, EVERYTHING, clash, defined, makes, prefix

Sets = AdmissionChange[NodeSet]


def hosts_can_be_named(change: Sets) -> Iterator[str]:
    """Prefix and largest ordinal together are a host name; without ordinals, the prefix still names a partition."""
    new = change.new
    name, why = (
        (new.slurm_name, "as the name of a partition must")
        if new.per_node
        else (new.hostname(max(new.spec.replicas - 1, 0)), "as a host name with its ordinal must")
    )
    yield from text_checks.named(_naming(new), name, text_checks.LABEL, text_checks.LONGEST_LABEL, why)


def children_can_be_named(change: Sets) -> Iterator[str]:
    """Its name fits into a label and starts the names of its pods."""
    yield from text_checks.named(
        "metadata.name",
        change.new.metadata.name,
        text_checks.LABEL,
        text_checks.LONGEST_LABEL,
        "as the label of its pods must",
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


def names_are_free(change: Sets) -> Iterator[str]:
    """The Controller's own text does not define the same host, node set or partition."""
    new, name = change.new, change.new.controller_key.name
    taken = {entry for found in change.world.controllers if found.key == new.controller_key for entry in defined(found)}
    for kind, what in sorted(taken):
        if makes(new, kind, what):
            yield f"{_naming(new)}: Controller {name} defines {kind} {what} in its extraConf"


def partition_is_a_partition(change: Sets) -> Iterator[str]:
    """A partition is not called `default`: Slurm takes that for the defaults of the others."""
    if change.new.spec.partition.enabled and change.new.slurm_name == DEFAULTS:
        yield f"{_naming(change.new)}: Slurm takes a partition called {DEFAULTS} for the defaults of all others"


def _naming(of: NodeSet) -> str:
    """The field that names its hosts."""
    return "spec.template.spec.hostname" if of.spec.template.spec.get("hostname") else "metadata.name"


def settings_are_data(change: Sets) -> Iterator[str]:
    """`extraConf` is Key=Value, with characters that no shell acts on, and does not name the node."""
    yield from text_checks.node_settings("spec.extraConf", change.new.spec.extra_conf)


def partition_is_one_line(change: Sets) -> Iterator[str]:
    """`partition.config` is part of one line, and names neither the partition nor its nodes."""
    yield from text_checks.conf_fragment(
        "spec.partition.config", change.new.spec.partition.config, ("PartitionName", "Nodes")
    )


def sshd_text_is_plain(change: Sets) -> Iterator[str]:
    """Text for sshd has no control characters."""
    yield from text_checks.plain_text("spec.ssh.extraSshdConfig", change.new.spec.ssh.extra_sshd_config)


def reservation_flags_are_words(change: Sets) -> Iterator[str]:
    """Flags of the reservation are single words."""
    for flag in change.new.spec.update_strategy.scheduled_update.flags:
        yield from text_checks.conf_word("spec.updateStrategy.scheduledUpdate.flags", flag)


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
        yield from text_checks.named(field, name, text_checks.LABEL, text_checks.LONGEST_LABEL, "as a volume must")
        if name in seen:
            yield f"{field}: {name!r} is there twice"
        seen.add(name)


def partition_of_all(change: Sets) -> Iterator[str]:
    """A partition called `all`, which has every host of the cluster, since Slurm takes the name for them."""
    if change.new.spec.partition.enabled and change.new.slurm_name == EVERYTHING:
        yield f"{_naming(change.new)}: Slurm takes {EVERYTHING} for every node, so the partition has all workers"


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
        names_are_free,
        partition_is_a_partition,
        settings_are_data,
        partition_is_one_line,
        sshd_text_is_plain,
        reservation_flags_are_words,
        claims_stay,
        claims_are_named,
    ),
    warn=(partition_of_all, idle_fields),
)
