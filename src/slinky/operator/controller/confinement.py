# SPDX-License-Identifier: Apache-2.0
"""How Slurm confines jobs to their cores, memory and devices: the settings of slurm.conf and cgroup.conf. Pure.

The defaults confine. A key that the administrator sets is left alone, and a site's own cgroup.conf is used as it is.
Settings that contradict each other stop slurmd, so those that need cgroups are written only where cgroups are used.
"""

from collections.abc import Iterable, Mapping, Set

from slinky.api.names import wellknown
from slinky.api.nodeset import NodeSet
from slinky.operator.build.config_files import Files
from slinky.slurm import conf

#: Settings that need cgroups, and the settings of a site that has switched cgroups off.
_WITH_CGROUPS: Mapping[str, str] = {
    "ProctrackType": "proctrack/cgroup",
    "TaskPlugin": "task/cgroup,task/affinity",
    "PrologFlags": "Contain",
    "JobAcctGatherType": "jobacct_gather/cgroup",
}
_WITHOUT_CGROUPS: Mapping[str, str] = {
    "ProctrackType": "proctrack/linuxproc",
    "JobAcctGatherType": "jobacct_gather/linux",
}


def confinement_settings(
    extra_conf: str, site_files: Files, node_sets: Iterable[NodeSet]
) -> tuple[tuple[str, str], ...]:
    """The settings of slurm.conf that confine jobs, without those that `extra_conf` sets."""
    own = _settings(extra_conf)
    tracking = own.get("proctracktype", "proctrack/cgroup").lower()
    if _cgroups_are_disabled(site_files):
        wanted = _WITHOUT_CGROUPS
    elif tracking == "proctrack/cgroup":
        wanted = _WITH_CGROUPS
    else:
        # The administrator has chosen process tracking without cgroups, and with it everything that depends on it.
        return ()
    if _shares_nodes(node_sets):
        wanted = {key: value.removesuffix(",task/affinity") for key, value in wanted.items()}
    return tuple((key, value) for key, value in wanted.items() if key.lower() not in own)


def setting_keys(text: str) -> Set[str]:
    """The lower-case keys of a file."""
    return _settings(text).keys()


def cgroup_conf(node_sets: Iterable[NodeSet]) -> str:
    """The operator's cgroup.conf.

    Cores are not constrained where a NodeSet lets workers share a node: every slurmd counts the cores of the machine
    for itself, so that the jobs of all of them would get the same cores.
    """
    return conf.CgroupConf(
        constrain_cores=not _shares_nodes(node_sets),
        constrain_devices=True,
        constrain_memory=True,
        constrain_swap=True,
    ).render()


def _shares_nodes(node_sets: Iterable[NodeSet]) -> bool:
    return any(node_set.spec.oversubscribe_node for node_set in node_sets)


def _cgroups_are_disabled(files: Files) -> bool:
    """Whether the site's own cgroup.conf switches cgroups off; a file that cannot be read switches nothing off."""
    texts = [text for path, text in files.contents.items() if path.rpartition("/")[2] == wellknown.CGROUP_CONF]
    return any(_settings(text).get("cgroupplugin", "").lower() == "disabled" for text in texts)


def _settings(text: str) -> dict[str, str]:
    """The values of a file by lower-case key; the last one counts. Text that is no configuration has none."""
    try:
        lines = conf.parse(text)
    except conf.ConfError:
        return {}
    return {setting.key.lower(): setting.value for line in lines for setting in line}
