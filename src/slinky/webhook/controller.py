# SPDX-License-Identifier: Apache-2.0
"""What a Controller may be."""

from collections.abc import Iterator

from slinky.api import Controller, LocalRef
from slinky.api.names.wellknown import OWN_FILES, SITE_FILES
from slinky.slurm.conf import ConfError, cluster_name, parse
from slinky.webhook import text_checks
from slinky.webhook.evaluate import AdmissionChange, Rules
from slinky.webhook.slurm_names import defined, makes

SCRIPTS = (
    ("prologScriptRefs", "prolog_script_refs"),
    ("epilogScriptRefs", "epilog_script_refs"),
    ("prologSlurmctldScriptRefs", "prolog_slurmctld_script_refs"),
    ("epilogSlurmctldScriptRefs", "epilog_slurmctld_script_refs"),
)

#: Settings that follow from the rest of the object; one in extraConf fights with it.
DECIDED = frozenset(
    {
        "clustername",
        "slurmctldhost",
        "slurmctldport",
        "slurmctldaddr",
        "slurmuser",
        "statesavelocation",
        "authtype",
        "credtype",
        "authalttypes",
        "accountingstoragetype",
        "accountingstoragehost",
        "accountingstorageport",
    }
)


def names_fit(change: AdmissionChange[Controller]) -> Iterator[str]:
    """The names of its StatefulSet and its Services, which follow from its own, are names that those may have."""
    new, longest = change.new, text_checks.LONGEST_LABEL
    yield from text_checks.named(
        "metadata.name", new.worker_service_name, text_checks.SERVICE, longest, "as a Service must"
    )
    if not new.spec.external:
        why = "which the StatefulSet of slurmctld needs"
        yield from text_checks.named(
            "metadata.name", new.workload_name, text_checks.SERVICE, text_checks.LONGEST_STATEFUL_SET, why
        )
        yield from text_checks.named(
            "metadata.name", new.internal_service_name, text_checks.SERVICE, longest, "as a Service must"
        )


def cluster_name_fits(change: AdmissionChange[Controller]) -> Iterator[str]:
    """The name of the cluster, given or `<namespace>_<name>`, is one that Slurm takes: at most 40 characters."""
    try:
        cluster_name(change.new.cluster_name)
    except ConfError as error:
        yield f"spec.clusterName: {error}"


def extra_conf_is_readable(change: AdmissionChange[Controller]) -> Iterator[str]:
    """`extraConf` is text that Slurm can read, line by line, and includes no other file."""
    yield from text_checks.conf_text("spec.extraConf", change.new.spec.extra_conf)


def names_are_unique(change: AdmissionChange[Controller]) -> Iterator[str]:
    """The site's text does not define a host, a node set or a partition that a NodeSet makes."""
    for nodes in change.world.node_sets:
        if nodes.controller_key == change.new.key:
            for kind, name in sorted(defined(change.new)):
                if makes(nodes, kind, name):
                    yield f"spec.extraConf: {kind} {name} is made by NodeSet {nodes.metadata.name} already"


def config_files_are_there(change: AdmissionChange[Controller]) -> Iterator[str]:
    """Every ConfigMap exists, and none of them replaces a file that is generated."""
    for name in _names(change.new.spec.config_file_refs):
        keys = change.world.config_maps.get(name)
        if keys is None:
            yield f"spec.configFileRefs: ConfigMap {name} does not exist"
        for key in sorted((keys or frozenset()) & OWN_FILES):
            yield f"spec.configFileRefs: ConfigMap {name} has {key}, which is generated; use extraConf"


def scripts_are_there(change: AdmissionChange[Controller]) -> Iterator[str]:
    """Every ConfigMap of scripts exists and its keys are plain file names."""
    for field, attribute in SCRIPTS:
        for name in _names(getattr(change.new.spec, attribute)):
            keys = change.world.config_maps.get(name)
            if keys is None:
                yield f"spec.{field}: ConfigMap {name} does not exist"
            for key in sorted(keys or ()):
                yield from text_checks.conf_word(f"spec.{field}: ConfigMap {name}", key)


def outside_is_a_word(change: AdmissionChange[Controller]) -> Iterator[str]:
    """The address of a slurmctld outside is a single word."""
    yield from text_checks.outside(change.new.spec.external_config)


def standbys_share_a_volume(change: AdmissionChange[Controller]) -> Iterator[str]:
    """With `ha`, the claim offers ReadWriteMany if it exists already."""
    claim = change.new.spec.persistence.existing_claim
    modes = change.world.claims.get(claim)
    if change.new.spec.ha.enabled and modes is not None and "ReadWriteMany" not in modes:
        yield f"spec.persistence.existingClaim: claim {claim} must offer ReadWriteMany for ha"


def identity_stays(change: AdmissionChange[Controller]) -> Iterator[str]:
    """Cluster name, `jwtKeyRef` and persistence stay as they were; the value that counts, not its spelling."""
    old, new = change.old, change.new
    if old is None:
        return
    if old.cluster_name != new.cluster_name:
        yield f"spec.clusterName is immutable (it is {old.cluster_name})"
    if old.spec.jwt_key and new.spec.jwt_key and old.spec.jwt_key.target != new.spec.jwt_key.target:
        yield "spec.jwtKeyRef is immutable"
    if old.spec.persistence.enabled != new.spec.persistence.enabled:
        yield "spec.persistence.enabled is immutable"
    if new.spec.persistence.enabled and old.spec.persistence.existing_claim != new.spec.persistence.existing_claim:
        yield "spec.persistence.existingClaim is immutable while persistence is enabled"


def unknown_files(change: AdmissionChange[Controller]) -> Iterator[str]:
    """Files that Slurm is not known to read."""
    for name in _names(change.new.spec.config_file_refs):
        for key in sorted(change.world.config_maps.get(name, frozenset()) - SITE_FILES - OWN_FILES):
            yield f"spec.configFileRefs: ConfigMap {name} has {key}, which is not a file Slurm is known to read"


def service_ips(change: AdmissionChange[Controller]) -> Iterator[str]:
    """`externalIPs` of its Service, which are dropped (CVE-2020-8554)."""
    yield from text_checks.external_ips("spec.service.spec", change.new.spec.service.spec)


def decided_settings(change: AdmissionChange[Controller]) -> Iterator[str]:
    """Settings in `extraConf` that follow from the rest of the object, such as ClusterName."""
    try:
        keys = {setting.key for line in parse(change.new.spec.extra_conf) for setting in line}
    except ConfError:
        return
    for key in sorted(key for key in keys if key.lower() in DECIDED):
        yield f"spec.extraConf: {key} follows from the rest of this object; setting it may break the cluster"


def moves_out(change: AdmissionChange[Controller]) -> Iterator[str]:
    """A slurmctld that is taken out of Kubernetes: the one inside goes."""
    yield from text_checks.moved(change.old.spec.external if change.old else None, change.new.spec.external)


def idle_fields(change: AdmissionChange[Controller]) -> Iterator[str]:
    """Fields without effect on a controller that runs elsewhere."""
    spec = change.new.spec
    if spec.external and (spec.ha.enabled or spec.extra_conf or spec.slurmctld):
        yield "spec.external: ha, extraConf and slurmctld have no effect on a controller outside of Kubernetes"
    if spec.external_config and not spec.external:
        yield "spec.externalConfig has no effect unless external is true"


def _names(refs: tuple[LocalRef, ...]) -> list[str]:
    return [ref.name for ref in refs]


RULES = Rules(
    Controller,
    refuse=(
        names_fit,
        cluster_name_fits,
        extra_conf_is_readable,
        names_are_unique,
        config_files_are_there,
        scripts_are_there,
        outside_is_a_word,
        standbys_share_a_volume,
        identity_stays,
    ),
    warn=(unknown_files, service_ips, decided_settings, moves_out, idle_fields),
)
