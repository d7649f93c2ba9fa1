# SPDX-License-Identifier: Apache-2.0
"""What any program needs of Slurm."""

from .changes import Change, Feed, Kind
from .client import Client
from .errors import (
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
from .hostlist import HostlistError, expand, fold
from .jobbook import Whereabouts
from .mirror import Mirror
from .notify import Doorbell, hook
from .pace import Rhythm
from .partitions import Partition
from .records import JobRecord
from .requests import JobRequest, JobSelection, NodeUpdate, ReservationRequest, node_conf
from .results import Conf, Listing, Submitted
from .states import JobState, NodeState
from .statistics import ControllerPing, Diag
from .sync import SyncClient
from .table import Doubt, Presence, Table
from .tokens import FileToken, FixedToken, MintedToken, TokenError, TokenSource, mint
from .transport import Exchange
from .values import INFINITE, ExitCode, Number, Tres, exit_status, number
from .versions import Version
from .views import Gres, Job, JobStatus, License, Node, NodeResources, Reservation, Share

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
