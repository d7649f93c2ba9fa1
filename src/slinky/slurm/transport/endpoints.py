# SPDX-License-Identifier: Apache-2.0
"""The table of every slurmrestd path that this library uses.

A row has the method, the path below `/slurm/v0.0.NN/` or `/slurmdb/v0.0.NN/`, the oldest data parser that serves it,
and the deadline of a request. While slurmctld is down every request takes 10 seconds to fail, so no deadline is
shorter than 12 seconds except that of `ping/`.
"""

from typing import NamedTuple
from urllib.parse import quote

from slinky.slurm.transport.versions import DataParserVersion

V42, V43, V44, V45 = DataParserVersion.V42, DataParserVersion.V43, DataParserVersion.V44, DataParserVersion.V45


class Endpoint(NamedTuple):
    """One row of the table."""

    method: str
    path: str
    since: DataParserVersion = V42
    deadline: float = 30.0
    api: str = "slurm"

    def url(self, version: DataParserVersion, **names: str | int) -> str:
        """The path on the server, with percent-encoded names: the brackets of a hostlist are safe."""
        quoted = {key: quote(str(value), safe="") for key, value in names.items()}
        return f"/{self.api}/{version}/{self.path.format(**quoted)}"


class Slurmctld:
    """Paths that slurmctld answers."""

    PING = Endpoint("GET", "ping/", deadline=8)
    DIAG = Endpoint("GET", "diag/", deadline=15)
    CONF = Endpoint("GET", "conf", V45, 15)
    RECONFIGURE = Endpoint("GET", "reconfigure/", deadline=60)
    LICENSES = Endpoint("GET", "licenses/", deadline=15)
    SHARES = Endpoint("GET", "shares")
    JOBS = Endpoint("GET", "jobs/", deadline=180)
    CANCEL_MANY = Endpoint("DELETE", "jobs/", deadline=60)
    JOB_STATES = Endpoint("GET", "jobs/state/")
    REQUEUE = Endpoint("POST", "jobs/requeue", V45)
    SUBMIT = Endpoint("POST", "job/submit")
    ALLOCATE = Endpoint("POST", "job/allocate")
    JOB = Endpoint("GET", "job/{job_id}")
    UPDATE_JOB = Endpoint("POST", "job/{job_id}")
    CANCEL = Endpoint("DELETE", "job/{job_id}")
    RESOURCES = Endpoint("GET", "resources/{job_id}", V44)
    NODES = Endpoint("GET", "nodes/", deadline=60)
    UPDATE_NODES = Endpoint("POST", "nodes/")
    NODE = Endpoint("GET", "node/{node_name}")
    UPDATE_NODE = Endpoint("POST", "node/{node_name}")
    DELETE_NODES = Endpoint("DELETE", "node/{node_name}")
    CREATE_NODE = Endpoint("POST", "new/node/", V44, 60)
    PARTITIONS = Endpoint("GET", "partitions/", deadline=15)
    PARTITION = Endpoint("GET", "partition/{partition_name}")
    WRITE_PARTITIONS = Endpoint("POST", "partitions/", V45)
    DELETE_PARTITION = Endpoint("DELETE", "partition/{partition_name}", V45)
    RESERVATIONS = Endpoint("GET", "reservations/")
    RESERVATION = Endpoint("GET", "reservation/{reservation_name}")
    WRITE_RESERVATION = Endpoint("POST", "reservation", V43)
    WRITE_RESERVATIONS = Endpoint("POST", "reservations/", V43)
    DELETE_RESERVATION = Endpoint("DELETE", "reservation/{reservation_name}")


class Slurmdbd:
    """Paths that slurmdbd answers."""

    PING = Endpoint("GET", "ping/", deadline=15, api="slurmdb")
    ACCOUNTS = Endpoint("GET", "accounts/", api="slurmdb")
    ACCOUNT = Endpoint("GET", "account/{account_name}", api="slurmdb")
    WRITE_ACCOUNTS = Endpoint("POST", "accounts/", api="slurmdb")
    ADD_ACCOUNTS = Endpoint("POST", "accounts_association/", api="slurmdb")
    DELETE_ACCOUNT = Endpoint("DELETE", "account/{account_name}", api="slurmdb")
    USERS = Endpoint("GET", "users/", api="slurmdb")
    USER = Endpoint("GET", "user/{name}", api="slurmdb")
    WRITE_USERS = Endpoint("POST", "users/", api="slurmdb")
    ADD_USERS = Endpoint("POST", "users_association/", api="slurmdb")
    DELETE_USER = Endpoint("DELETE", "user/{name}", api="slurmdb")
    ASSOCIATIONS = Endpoint("GET", "associations/", api="slurmdb")
    WRITE_ASSOCIATIONS = Endpoint("POST", "associations/", api="slurmdb")
    DELETE_ASSOCIATIONS = Endpoint("DELETE", "associations/", api="slurmdb")
    QOS = Endpoint("GET", "qos/", api="slurmdb")
    QOS_BY_NAME = Endpoint("GET", "qos/{qos}", api="slurmdb")
    WRITE_QOS = Endpoint("POST", "qos/", api="slurmdb")
    DELETE_QOS = Endpoint("DELETE", "qos/{qos}", api="slurmdb")
    JOBS = Endpoint("GET", "jobs/", deadline=180, api="slurmdb")
    JOB = Endpoint("GET", "job/{job_id}", api="slurmdb")
    WRITE_OUTCOME = Endpoint("POST", "job/{job_id}", V44, api="slurmdb")
    TRES = Endpoint("GET", "tres/", api="slurmdb")
    CLUSTERS = Endpoint("GET", "clusters/", api="slurmdb")
    CLUSTER = Endpoint("GET", "cluster/{cluster_name}", api="slurmdb")
    WRITE_CLUSTERS = Endpoint("POST", "clusters/", api="slurmdb")
    DELETE_CLUSTER = Endpoint("DELETE", "cluster/{cluster_name}", api="slurmdb")
    WCKEYS = Endpoint("GET", "wckeys/", api="slurmdb")
    WRITE_WCKEYS = Endpoint("POST", "wckeys/", api="slurmdb")
    DELETE_WCKEY = Endpoint("DELETE", "wckey/{id}", api="slurmdb")


#: Every row by name, such as `jobs` or `accounting.jobs`, for the contract test and the reference page.
ENDPOINTS = {
    f"{prefix}{name.lower()}": row
    for prefix, table in (("", Slurmctld), ("accounting.", Slurmdbd))
    for name, row in vars(table).items()
    if isinstance(row, Endpoint)
}
