# SPDX-License-Identifier: Apache-2.0
"""What any program needs of Slurm."""

from slinky.slurm.blocking import SyncClient
from slinky.slurm.client import Client
from slinky.slurm.errors import (
    Auth,
    Busy,
    Conflict,
    DatabaseUnreachable,
    Denied,
    Invalid,
    Malformed,
    NotFound,
    Problem,
    Rejected,
    Retryable,
    SlurmError,
    Throttled,
    Transport,
    Unreachable,
    Unsupported,
)
from slinky.slurm.hostlist import HostlistError, expand, fold
from slinky.slurm.mirror.doorbell import Doorbell, hook
from slinky.slurm.mirror.feed import Change, Feed, Kind
from slinky.slurm.mirror.job_record import JobRecord
from slinky.slurm.mirror.job_tracker import Whereabouts
from slinky.slurm.mirror.mirror import Mirror
from slinky.slurm.mirror.observed_table import Doubt, Presence, Table
from slinky.slurm.mirror.polling import Rhythm
from slinky.slurm.model.partitions import Partition
from slinky.slurm.model.requests import JobRequest, JobSelection, NodeUpdate, ReservationRequest, node_conf
from slinky.slurm.model.results import Conf, Listing, Submitted
from slinky.slurm.model.states import JobState, NodeState
from slinky.slurm.model.statistics import ControllerPing, Diag
from slinky.slurm.model.values import INFINITE, ExitCode, Number, Tres, exit_status, number
from slinky.slurm.model.views import Gres, Job, JobStatus, License, Node, NodeResources, Reservation, Share
from slinky.slurm.tokens import FileToken, FixedToken, MintedToken, TokenError, TokenSource, mint
from slinky.slurm.transport.http import Exchange
from slinky.slurm.transport.versions import Version

__all__ = [
    "INFINITE",
    "Auth",
    "Busy",
    "Change",
    "Client",
    "Conf",
    "Conflict",
    "ControllerPing",
    "DatabaseUnreachable",
    "Denied",
    "Diag",
    "Doorbell",
    "Doubt",
    "Exchange",
    "ExitCode",
    "Feed",
    "FileToken",
    "FixedToken",
    "Gres",
    "HostlistError",
    "Invalid",
    "Job",
    "JobRecord",
    "JobRequest",
    "JobSelection",
    "JobState",
    "JobStatus",
    "Kind",
    "License",
    "Listing",
    "Malformed",
    "MintedToken",
    "Mirror",
    "Node",
    "NodeResources",
    "NodeState",
    "NodeUpdate",
    "NotFound",
    "Number",
    "Partition",
    "Presence",
    "Problem",
    "Rejected",
    "Reservation",
    "ReservationRequest",
    "Retryable",
    "Rhythm",
    "Share",
    "SlurmError",
    "Submitted",
    "SyncClient",
    "Table",
    "Throttled",
    "TokenError",
    "TokenSource",
    "Transport",
    "Tres",
    "Unreachable",
    "Unsupported",
    "Version",
    "Whereabouts",
    "exit_status",
    "expand",
    "fold",
    "hook",
    "mint",
    "node_conf",
    "number",
]
