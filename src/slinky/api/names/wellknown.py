# SPDX-License-Identifier: Apache-2.0
"""The API group, ports, user ids, file names and folders that the operator, images and charts share."""

# --- the API group

GROUP = "slinky.slurm.net"
VERSION = "v1beta1"
API_VERSION = f"{GROUP}/{VERSION}"

#: `kubectl get slinky` lists the objects of every kind.
CATEGORIES = ("slinky",)

# --- ports

SLURMCTLD_PORT = 6817
SLURMD_PORT = 6818
SLURMDBD_PORT = 6819
SLURMRESTD_PORT = 6820
#: Where slurmrestd listens behind the container that terminates TLS.
SLURMRESTD_LOOPBACK_PORT = 6821
SSH_PORT = 22
MYSQL_PORT = 3306
HEALTH_PORT = 8081
METRICS_PORT = 8080
WEBHOOK_PORT = 9443
PROFILE_PORT = 6060

PORTS = {
    "slurmctld": SLURMCTLD_PORT,
    "slurmd": SLURMD_PORT,
    "slurmdbd": SLURMDBD_PORT,
    "slurmrestd": SLURMRESTD_PORT,
    "ssh": SSH_PORT,
    "mysql": MYSQL_PORT,
    "health": HEALTH_PORT,
    "metrics": METRICS_PORT,
    "webhook": WEBHOOK_PORT,
    "profile": PROFILE_PORT,
}

# --- user and group ids

SLURM_ID = 401
SLURMRESTD_ID = 65534

# --- keys of ConfigMaps and Secrets, which are also file names

SLURM_CONF = "slurm.conf"
CGROUP_CONF = "cgroup.conf"
SLURMDBD_CONF = "slurmdbd.conf"
SLURM_KEY = "slurm.key"
JWT_KEY = "jwt.key"
JWKS = "jwks.json"
SSHD_CONFIG = "sshd_config"
AUTHORIZED_KEYS = "authorized_keys"
SSSD_CONF = "sssd.conf"
TOKEN_KEY = "SLURM_JWT"  # noqa: S105 -- the name of a key, not a token

#: Files that only the operator may write.
OWN_FILES = frozenset({SLURM_CONF, SLURMDBD_CONF})
#: Configuration files of Slurm that a site may add; admission warns about any other name.
SITE_FILES = frozenset(
    {
        "acct_gather.conf",
        "burst_buffer.conf",
        "cgroup.conf",
        "cli_filter.lua",
        "gres.conf",
        "helpers.conf",
        "job_container.conf",
        "job_submit.lua",
        "mpi.conf",
        "namespace.yaml",
        "oci.conf",
        "plugstack.conf",
        "topology.conf",
        "topology.yaml",
    }
)

# --- folders

ETC = "/etc/slurm"
STATE = "/var/spool/slurmctld"
SPOOL = "/var/spool/slurmd"
LOGS = "/var/log/slurm"

# --- volumes

STATE_VOLUME = "statesave"
ETC_VOLUME = "slurm-etc"

# --- Deployments of the charts

#: Values of the label `app.kubernetes.io/name`.
PROCESSES = (
    "slurm-operator",
    "slurm-operator-webhook",
    "slurm-bridge-scheduler",
    "slurm-bridge-admission",
    "slurm-exporter",
)

#: The field manager of the operator.
FIELD_MANAGER = "slinky-operator"
