# SPDX-License-Identifier: Apache-2.0
"""slurm.conf and cgroup.conf of a cluster. Pure.

Everything a person can write (extraConf, partition lines, host names) goes through `slinky.slurm.conf`, which checks
each value and reads the result back; what it refuses is a `ConfError` with a sentence for the status.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from slinky.api.accounting import Accounting
from slinky.api.controller import Controller
from slinky.api.names import wellknown
from slinky.api.nodeset import NodeSet
from slinky.operator.controller.files import Files
from slinky.slurm import conf

LineT = TypeVar("LineT", conf.NodeSetLine, conf.PartitionLine)

#: Slurm wants to know how many nodes may ever join; room for more costs little.
LEAST_NODES = 1024
#: An option that means nothing to slurmctld and that it reports with the rest of what it has loaded.
MARK = "slinky_generation="


def slurm_conf(
    of: Controller,
    accounting: Accounting | None,
    node_sets: Iterable[NodeSet],
    files: Files,
    mark: str = "",
    *,
    jwks: bool = False,
) -> str:
    """The file that slurmctld reads and hands to everybody else; `mark` says which generation it is, `jwks` that there
    is a document of keys beside it.
    """
    # One that is being deleted stays until its last job has ended: a job cannot live without its partition.
    sets = sorted(node_sets, key=lambda found: found.metadata.name)
    text = conf.SlurmConf(
        cluster_name=of.cluster_name,
        controllers=_controllers(of),
        slurmctld_port=of.port if of.spec.external else wellknown.SLURMCTLD_PORT,
        slurmctld_address=_address(of),
        state_save_location=None if of.spec.external else of.state_folder,
        slurmd_spool_dir=wellknown.SPOOL,
        max_node_count=None if of.spec.external else _room(sets),
        slurmctld_log=f"{wellknown.LOGS}/slurmctld.log",
        sched_log=f"{wellknown.LOGS}/slurmctld.log",
        slurmd_log=f"{wellknown.LOGS}/slurmd.log",
        auth_alt_parameters=_jwt(of, jwks),
        slurmctld_parameters=_parameters(of, mark),
        metrics=of.spec.metrics.enabled,
        accounting_host=accounting.host if accounting else None,
        accounting_port=accounting.port if accounting else wellknown.SLURMDBD_PORT,
        prolog=files.prolog,
        epilog=files.epilog,
        prolog_slurmctld=tuple(f"{wellknown.ETC}/{name}" for name in files.prolog_slurmctld),
        epilog_slurmctld=tuple(f"{wellknown.ETC}/{name}" for name in files.epilog_slurmctld),
        node_sets=() if of.spec.external else tuple(_node_set(found) for found in sets),
        partitions=() if of.spec.external else tuple(_partition(s) for s in sets if s.spec.partition.enabled),
        extra=of.spec.extra_conf,
    ).render()
    if wrong := conf.find_problems(text):
        raise conf.ConfError("; ".join(wrong))
    return text


def config_data(of: Controller, slurm: str, files: Files, jwks: str = "") -> Mapping[str, str]:
    """What the ConfigMap holds; a site's own cgroup.conf replaces ours."""
    if of.spec.external:
        return {wellknown.SLURM_CONF: slurm}
    own = {} if wellknown.CGROUP_CONF in files.config else {wellknown.CGROUP_CONF: conf.CgroupConf().render()}
    keys = {wellknown.JWKS: jwks} if jwks else {}
    return {**files.copied, wellknown.SLURM_CONF: slurm, **own, **keys}


def loaded_mark(parameters: Iterable[str]) -> str:
    """Which generation a slurmctld with these SlurmctldParameters runs; empty for one without a mark."""
    return next((found.removeprefix(MARK) for found in parameters if found.startswith(MARK)), "")


def _parameters(of: Controller, mark: str) -> tuple[str, ...]:
    if of.spec.external:
        return ()
    return ("enable_configless", "reconfig_on_restart", *((f"{MARK}{mark}",) if mark else ()))


def _address(of: Controller) -> str | None:
    """The Service, by which clients find whoever is in charge. They call it at slurmctld's own port: where the Service
    has another one, they are left to ask the controllers themselves.
    """
    return None if of.spec.external or of.port != wellknown.SLURMCTLD_PORT else of.host


def _controllers(of: Controller) -> tuple[conf.SlurmctldHost, ...]:
    if of.spec.external:
        return (conf.SlurmctldHost(of.host),)
    return tuple(conf.SlurmctldHost(pod, of.pod_address(pod)) for pod in of.pod_names)


def _jwt(of: Controller, jwks: bool) -> tuple[str, ...]:
    key = (f"jwt_key={wellknown.ETC}/{wellknown.JWT_KEY}",) if of.spec.jwt_key else ()
    return (*key, f"jwks={wellknown.ETC}/{wellknown.JWKS}") if jwks else key


def _room(sets: Iterable[NodeSet]) -> int:
    wanted = sum(max(found.spec.replicas, found.status.desired) for found in sets)
    room = LEAST_NODES
    while room < 2 * wanted:
        room *= 2
    return room


def _node_set(of: NodeSet) -> conf.NodeSetLine:
    return _blamed(of, conf.NodeSetLine(of.slurm_name, feature=of.slurm_name))


def _partition(of: NodeSet) -> conf.PartitionLine:
    return _blamed(of, conf.PartitionLine(of.slurm_name, of.slurm_name, of.spec.partition.config))


def _blamed(of: NodeSet, found: LineT) -> LineT:
    """A line whose fault, if it has one, is put down to its NodeSet: the sentence stands on the Controller."""
    try:
        found.to_line()
    except conf.ConfError as error:
        raise conf.ConfError(f"NodeSet {of.metadata.name}: {error}") from error
    return found
