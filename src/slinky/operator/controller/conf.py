# SPDX-License-Identifier: Apache-2.0
"""slurm.conf and cgroup.conf of a cluster. Pure.

All text that a person can write (extraConf, partition lines, host names) goes through `slinky.slurm.conf`, which checks
each value and parses the result back. It raises `ConfError` with a message for the status.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from slinky.api.accounting import Accounting
from slinky.api.controller import Controller
from slinky.api.names import wellknown
from slinky.api.nodeset import NodeSet
from slinky.operator.build.config_files import Files
from slinky.operator.build.worker_description import has_topology, largest_size, potential_nodes
from slinky.operator.controller.confinement import cgroup_conf, confinement_settings, setting_keys
from slinky.slurm import conf

LineT = TypeVar("LineT", conf.NodeLine, conf.NodeSetLine, conf.PartitionLine)

#: Smallest MaxNodeCount; Slurm allocates for this many nodes, and a reserve costs little.
MIN_NODE_COUNT = 1024
#: Settings that differ from Slurm's defaults unless extraConf has them. A host that was down returns when its slurmd
#: registers: otherwise every crash of a node would need an administrator. A host that has to stay out is drained.
DEFAULTS = {"ReturnToService": 2}
#: A SlurmctldParameters option that slurmctld ignores, and reports with the configuration that it has loaded.
GENERATION_OPTION = "slinky_generation="


def slurm_conf(
    controller: Controller,
    accounting: Accounting | None,
    node_sets: Iterable[NodeSet],
    files: Files,
    generation: str = "",
    *,
    jwks: bool = False,
) -> str:
    """Return slurm.conf; `generation` is the id of the configuration, `jwks` tells that it has a JWKS document."""
    spec = controller.spec
    # A NodeSet that is being deleted stays in the file until its last job has ended: a job needs its partition.
    sets = sorted(node_sets, key=lambda node_set: node_set.metadata.name)
    text = conf.SlurmConf(
        cluster_name=controller.cluster_name,
        controllers=_controllers(controller),
        slurmctld_port=controller.port if spec.external else wellknown.SLURMCTLD_PORT,
        slurmctld_address=_address(controller),
        state_save_location=None if spec.external else controller.state_folder,
        slurmd_spool_dir=wellknown.SPOOL,
        max_node_count=None if spec.external else _max_node_count(sets),
        slurmctld_log=f"{wellknown.LOGS}/slurmctld.log",
        sched_log=f"{wellknown.LOGS}/slurmctld.log",
        slurmd_log=f"{wellknown.LOGS}/slurmd.log",
        auth_alt_parameters=_auth_alt_parameters(controller, jwks),
        slurmctld_parameters=_slurmctld_parameters(controller, generation),
        metrics=spec.metrics.enabled,
        accounting_host=accounting.host if accounting else None,
        accounting_port=accounting.port if accounting else wellknown.SLURMDBD_PORT,
        prolog=files.prolog,
        epilog=files.epilog,
        prolog_slurmctld=tuple(f"{wellknown.ETC}/{name}" for name in files.prolog_slurmctld),
        epilog_slurmctld=tuple(f"{wellknown.ETC}/{name}" for name in files.epilog_slurmctld),
        nodes=() if spec.external or has_topology(spec.extra_conf, files) else _potential_nodes(sets),
        node_sets=() if spec.external else tuple(_node_set_line(node_set) for node_set in sets),
        partitions=() if spec.external else tuple(_partition_line(s) for s in sets if s.spec.partition.enabled),
        settings=()
        if spec.external
        else (*_defaults(spec.extra_conf), *confinement_settings(spec.extra_conf, files, sets)),
        extra=spec.extra_conf,
    ).render()
    if problems := conf.find_problems(text):
        raise conf.ConfError("; ".join(problems))
    return text


def config_data(
    controller: Controller, slurm: str, files: Files, node_sets: Iterable[NodeSet], jwks: str = ""
) -> Mapping[str, str]:
    """Return the data of the ConfigMap; a site's own cgroup.conf replaces the operator's."""
    if controller.spec.external:
        return {wellknown.SLURM_CONF: slurm}
    cgroup = {} if wellknown.CGROUP_CONF in files.config else {wellknown.CGROUP_CONF: cgroup_conf(node_sets)}
    keys = {wellknown.JWKS: jwks} if jwks else {}
    return {**files.copied, wellknown.SLURM_CONF: slurm, **cgroup, **keys}


def loaded_generation(parameters: Iterable[str]) -> str:
    """Return the generation in the SlurmctldParameters that slurmctld reports; empty if there is none."""
    prefix = GENERATION_OPTION
    return next((parameter.removeprefix(prefix) for parameter in parameters if parameter.startswith(prefix)), "")


def _slurmctld_parameters(controller: Controller, generation: str) -> tuple[str, ...]:
    if controller.spec.external:
        return ()
    option = (f"{GENERATION_OPTION}{generation}",) if generation else ()
    return ("enable_configless", "reconfig_on_restart", *option)


def _address(controller: Controller) -> str | None:
    """Return the Service, through which clients find the active slurmctld.

    Clients connect to the Service with slurmctld's own port. If the Service has another port, they have to try the
    controllers one by one.
    """
    if controller.spec.external or controller.port != wellknown.SLURMCTLD_PORT:
        return None
    return controller.host


def _controllers(controller: Controller) -> tuple[conf.SlurmctldHost, ...]:
    if controller.spec.external:
        return (conf.SlurmctldHost(controller.host),)
    return tuple(conf.SlurmctldHost(pod, controller.pod_address(pod)) for pod in controller.pod_names)


def _auth_alt_parameters(controller: Controller, jwks: bool) -> tuple[str, ...]:
    key = (f"jwt_key={wellknown.ETC}/{wellknown.JWT_KEY}",) if controller.spec.jwt_key else ()
    return (*key, f"jwks={wellknown.ETC}/{wellknown.JWKS}") if jwks else key


def _defaults(extra_conf: str) -> Iterable[tuple[str, int]]:
    own = setting_keys(extra_conf)
    return ((key, value) for key, value in DEFAULTS.items() if key.lower() not in own)


def _max_node_count(node_sets: Iterable[NodeSet]) -> int:
    nodes = sum(map(_most_nodes, node_sets))
    count = MIN_NODE_COUNT
    while count < 2 * nodes:
        count *= 2
    return count


def _most_nodes(node_set: NodeSet) -> int:
    """How many nodes a NodeSet may have; with autoscaling, and while it advertises nodes that it could have."""
    policy = node_set.autoscaling
    largest = max(node_set.spec.replicas, node_set.status.desired)
    return largest if policy is None else max(largest, largest_size(policy))


def _potential_nodes(node_sets: Iterable[NodeSet]) -> tuple[conf.NodeLine, ...]:
    lines = ((node_set, potential_nodes(node_set)) for node_set in node_sets)
    return tuple(_checked(node_set, line) for node_set, line in lines if line is not None)


def _node_set_line(node_set: NodeSet) -> conf.NodeSetLine:
    return _checked(node_set, conf.NodeSetLine(node_set.slurm_name, feature=node_set.slurm_name))


def _partition_line(node_set: NodeSet) -> conf.PartitionLine:
    settings = node_set.spec.partition.config
    if limit := _most_workers_of_a_job(node_set):
        settings = f"{settings} MaxNodes={limit}".strip()
    return _checked(node_set, conf.PartitionLine(node_set.slurm_name, node_set.slurm_name, settings))


def _most_workers_of_a_job(node_set: NodeSet) -> int:
    """The maximum of a NodeSet with potential nodes, for its own partition; 0 if the user sets a limit.

    slurmctld counts potential nodes and workers together. Without the limit, a job that needs more workers than there
    can be would look like one that waits for nodes, and jobs behind it would be left to backfill.
    """
    policy = node_set.autoscaling
    if policy is None or potential_nodes(node_set) is None:
        return 0
    return 0 if "maxnodes=" in node_set.spec.partition.config.lower() else largest_size(policy)


def _checked(node_set: NodeSet, line: LineT) -> LineT:
    """Return the line; an error names the NodeSet, because the message appears on the Controller."""
    try:
        line.to_line()
    except conf.ConfError as error:
        raise conf.ConfError(f"NodeSet {node_set.metadata.name}: {error}") from error
    return line
