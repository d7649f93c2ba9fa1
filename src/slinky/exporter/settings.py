# SPDX-License-Identifier: Apache-2.0
"""Settings of the exporter; `slinky exporter` has one flag per field."""

from typing import Annotated

import msgspec
from msgspec import Meta


class ExporterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that an administrator can change."""

    slurm_rest_api: Annotated[
        str, Meta(min_length=1, description="Address of slurmrestd: http, https, or unix:/path.")
    ] = "http://localhost:6820"
    token_file: Annotated[
        str, Meta(description="File with a token of slurmrestd; the environment variable SLURM_JWT_FILE if empty.")
    ] = ""
    jwt_key_file: Annotated[
        str, Meta(description="File with a JWT key, to sign short-lived tokens instead of reading them from a file.")
    ] = ""
    slurm_user: Annotated[str, Meta(min_length=1, description="User of the tokens that are signed.")] = "slurm"
    ca_file: Annotated[
        str, Meta(description="Certificate authority of slurmrestd; the system's authorities if empty.")
    ] = ""
    slurmctld_metrics: Annotated[
        str,
        Meta(
            description="Address of slurmctld, http://host:6817, to read its own metrics of the scheduler too; needs "
            "`MetricsType=metrics/openmetrics` in slurm.conf. Not read if empty."
        ),
    ] = ""
    cluster: Annotated[
        str, Meta(description="Value of the label `cluster`; the name that slurmctld reports if empty.")
    ] = ""
    accounts: Annotated[bool, Meta(description="Export series for each account.")] = True
    users: Annotated[bool, Meta(description="Export series for each user.")] = False
    jobs: Annotated[bool, Meta(description="Export series for each running job, and which nodes it has.")] = False
    nodes_max: Annotated[
        int, Meta(ge=0, description="Export series for each node of clusters with up to this many nodes.")
    ] = 1000
    series_max: Annotated[
        int, Meta(ge=2, description="Maximum number of series of one family; the rest is added up as `other`.")
    ] = 5000
    jobs_max: Annotated[
        int, Meta(ge=1, description="Maximum number of jobs whose details are read; others count by state only.")
    ] = 50_000
