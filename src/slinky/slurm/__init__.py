# SPDX-License-Identifier: Apache-2.0
"""What any program needs of Slurm."""

from slinky.slurm.changes import Change, Feed, Kind
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
from slinky.slurm.jobbook import Whereabouts
from slinky.slurm.mirror import Mirror
from slinky.slurm.notify import Doorbell, hook
from slinky.slurm.pace import Rhythm
from slinky.slurm.partitions import Partition
from slinky.slurm.records import JobRecord
from slinky.slurm.requests import JobRequest, JobSelection, NodeUpdate, ReservationRequest, node_conf
from slinky.slurm.results import Conf, Listing, Submitted
from slinky.slurm.states import JobState, NodeState
from slinky.slurm.statistics import ControllerPing, Diag
from slinky.slurm.sync import SyncClient
from slinky.slurm.table import Doubt, Presence, Table
from slinky.slurm.tokens import FileToken, FixedToken, MintedToken, TokenError, TokenSource, mint
from slinky.slurm.transport import Exchange
from slinky.slurm.values import INFINITE, ExitCode, Number, Tres, exit_status, number
from slinky.slurm.versions import Version
from slinky.slurm.views import Gres, Job, JobStatus, License, Node, NodeResources, Reservation, Share

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
