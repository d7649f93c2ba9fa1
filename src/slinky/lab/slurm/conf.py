# SPDX-License-Identifier: Apache-2.0
"""The configuration of the Slurm beside Kubernetes, tuned for a small machine.

Fast scheduling, dynamic and external nodes, no cgroups, Slurm keys instead of munge.
"""

REST, SLURMD = 6820, 7000
HOSTNAME = "ctl"
LEAVES = 4


def configuration(address: str, nodes: int) -> dict[str, str]:
    """The files of /etc/slurm, by name."""
    hosts = f"c[1-{nodes}]" if nodes else ""
    static = (
        f"NodeName={hosts} NodeHostname={HOSTNAME} NodeAddr={address} Port=[{SLURMD + 1}-{SLURMD + nodes}] "
        "CPUs=2 RealMemory=1000 State=UNKNOWN\n"
        f"PartitionName=work Nodes={hosts} Default=YES MaxTime=INFINITE State=UP\n"
        if nodes
        else ""
    )
    return {
        "slurm.conf": _SLURM.format(address=address, static=static, leaves=LEAVES),
        "slurmdbd.conf": _SLURMDBD.format(address=address),
        "cgroup.conf": "CgroupPlugin=disabled\n",
        "gres.conf": _GRES,
        "topology.conf": _topology(hosts),
    }


# Daemons bind only to the addresses in parentheses. `defer` is omitted because it makes `allocate` block. NodeSets
# put dynamic and external nodes into partitions by their feature.
_SLURM = """\
ClusterName=lab
SlurmctldHost=ctl({address})
SlurmctldPort=6817
SlurmctldParameters=enable_configless
SlurmUser=slurm
SlurmdUser=root
AuthType=auth/slurm
CredType=auth/slurm
AuthInfo=use_client_ids
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key
StateSaveLocation=/var/lib/slurm/ctld
SlurmdSpoolDir=/var/lib/slurm/d.%n
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.%n.pid
SlurmctldLogFile=/dev/stderr
MpiDefault=none
ProctrackType=proctrack/linuxproc
JobAcctGatherType=jobacct_gather/linux
ReturnToService=2
MaxNodeCount=20000
MaxJobCount=50000
MaxArraySize=20001
MinJobAge=60
SlurmctldTimeout=60
SlurmdTimeout=60
InactiveLimit=0
KillWait=5
SchedulerParameters=batch_sched_delay=0,bf_interval=5,bf_continue,bf_yield_interval=500000,sched_interval=10,default_queue_depth=1000
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PriorityType=priority/multifactor
PriorityWeightFairshare=10000
PriorityWeightQOS=5000
PriorityWeightAge=1000
PreemptType=preempt/qos
PreemptMode=CANCEL
GresTypes=gpu
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={address}
AccountingStoragePort=6819
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations,limits,qos
Licenses=lic:4
MetricsType=metrics/openmetrics
TopologyPlugin=topology/tree
{static}NodeSet=dyn Feature=dyn
NodeSet=ext Feature=ext
PartitionName=all Nodes=ALL MaxTime=INFINITE State=UP
PartitionName=dyn Nodes=dyn MaxTime=INFINITE State=UP
PartitionName=ext Nodes=ext MaxTime=INFINITE State=UP OverSubscribe=NO
"""

_SLURMDBD = """\
AuthType=auth/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key
DbdHost=ctl
DbdAddr={address}
DbdPort=6819
SlurmUser=slurm
LogFile=/dev/stderr
PidFile=/run/slurmdbd/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass=lab
StorageLoc=slurm_acct_db
"""

# Read whenever a node is created. `NodeName=` is required: without it every slurmd waits for the device.
_GRES = """\
AutoDetect=off
NodeName=k[001-999],e[00001-20000] Name=gpu Type=h100 File=/dev/nvidia[0-7]
NodeName=k[001-999],e[00001-20000] Name=gpu Type=a100 File=/dev/nvidia[0-3]
"""


def _topology(hosts: str) -> str:
    leaves = [f"SwitchName=leaf{number}" for number in range(1, LEAVES + 1)]
    if hosts:
        leaves[0] += f" Nodes={hosts}"
    return f"SwitchName=root Switches=leaf[1-{LEAVES}]\n" + "\n".join(leaves) + "\n"
