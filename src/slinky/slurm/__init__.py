# SPDX-License-Identifier: Apache-2.0
"""A client for slurmrestd and a live mirror of a Slurm cluster."""

from typing import TYPE_CHECKING

from slinky.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from slinky.slurm.blocking import BlockingClient
    from slinky.slurm.client import SlurmClient
    from slinky.slurm.errors import (
        AuthError,
        Busy,
        DatabaseUnreachable,
        Denied,
        Malformed,
        Problem,
        Rejected,
        Retryable,
        SlurmConflict,
        SlurmctldUnreachable,
        SlurmError,
        SlurmInvalid,
        SlurmNotFound,
        Throttled,
        TransportError,
        Unsupported,
        UntrustedServer,
    )
    from slinky.slurm.hostlist import HostlistError, expand, fold
    from slinky.slurm.mirror.doorbell import Doorbell, hook_script
    from slinky.slurm.mirror.feed import Change, Feed, ObjectKind
    from slinky.slurm.mirror.job_record import JobRecord
    from slinky.slurm.mirror.job_tracker import JobLookup
    from slinky.slurm.mirror.mirror import Mirror
    from slinky.slurm.mirror.observed_table import ObservedTable, Presence, UnconfirmedLoss
    from slinky.slurm.mirror.polling import PollingIntervals
    from slinky.slurm.model.partitions import Partition
    from slinky.slurm.model.requests import JobRequest, JobSelection, NodeUpdate, ReservationRequest, node_conf
    from slinky.slurm.model.results import Conf, Listing, SubmittedJob
    from slinky.slurm.model.states import JobState, NodeState
    from slinky.slurm.model.statistics import ControllerPing, Diag
    from slinky.slurm.model.values import INFINITE, ExitCode, Number, Tres, number, wait_status
    from slinky.slurm.model.views import Gres, Host, Job, JobStatus, License, NodeResources, Reservation, Share
    from slinky.slurm.native_metrics import NativeMetrics
    from slinky.slurm.tokens import (
        FileToken,
        FixedToken,
        MintedToken,
        TokenError,
        TokenSource,
        configured_tokens,
        mint_token,
    )
    from slinky.slurm.transport.request_transport import RequestRecord
    from slinky.slurm.transport.versions import DataParserVersion

__all__ = [
    "INFINITE",
    "AuthError",
    "BlockingClient",
    "Busy",
    "Change",
    "Conf",
    "ControllerPing",
    "DataParserVersion",
    "DatabaseUnreachable",
    "Denied",
    "Diag",
    "Doorbell",
    "ExitCode",
    "Feed",
    "FileToken",
    "FixedToken",
    "Gres",
    "Host",
    "HostlistError",
    "Job",
    "JobLookup",
    "JobRecord",
    "JobRequest",
    "JobSelection",
    "JobState",
    "JobStatus",
    "License",
    "Listing",
    "Malformed",
    "MintedToken",
    "Mirror",
    "NativeMetrics",
    "NodeResources",
    "NodeState",
    "NodeUpdate",
    "Number",
    "ObjectKind",
    "ObservedTable",
    "Partition",
    "PollingIntervals",
    "Presence",
    "Problem",
    "Rejected",
    "RequestRecord",
    "Reservation",
    "ReservationRequest",
    "Retryable",
    "Share",
    "SlurmClient",
    "SlurmConflict",
    "SlurmError",
    "SlurmInvalid",
    "SlurmNotFound",
    "SlurmctldUnreachable",
    "SubmittedJob",
    "Throttled",
    "TokenError",
    "TokenSource",
    "TransportError",
    "Tres",
    "UnconfirmedLoss",
    "Unsupported",
    "UntrustedServer",
    "configured_tokens",
    "expand",
    "fold",
    "hook_script",
    "mint_token",
    "node_conf",
    "number",
    "wait_status",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "blocking": "BlockingClient",
        "client": "SlurmClient",
        "errors": (
            "AuthError Busy DatabaseUnreachable Denied Malformed Problem Rejected Retryable SlurmConflict "
            "SlurmctldUnreachable SlurmError SlurmInvalid SlurmNotFound Throttled TransportError Unsupported "
            "UntrustedServer"
        ),
        "hostlist": "HostlistError expand fold",
        "mirror.doorbell": "Doorbell hook_script",
        "mirror.feed": "Change Feed ObjectKind",
        "mirror.job_record": "JobRecord",
        "mirror.job_tracker": "JobLookup",
        "mirror.mirror": "Mirror",
        "mirror.observed_table": "ObservedTable Presence UnconfirmedLoss",
        "mirror.polling": "PollingIntervals",
        "model.partitions": "Partition",
        "model.requests": "JobRequest JobSelection NodeUpdate ReservationRequest node_conf",
        "model.results": "Conf Listing SubmittedJob",
        "model.states": "JobState NodeState",
        "model.statistics": "ControllerPing Diag",
        "model.values": "INFINITE ExitCode Number Tres number wait_status",
        "model.views": "Gres Host Job JobStatus License NodeResources Reservation Share",
        "native_metrics": "NativeMetrics",
        "tokens": "FileToken FixedToken MintedToken TokenError TokenSource configured_tokens mint_token",
        "transport.request_transport": "RequestRecord",
        "transport.versions": "DataParserVersion",
    },
)
