# SPDX-License-Identifier: Apache-2.0
"""The structs of slurmrestd's responses, one per endpoint; `slinky.slurm.transport.decode` decodes bytes into them.

A field that a response may lack is None by default and never an empty list. A caller that needs the field uses
`decode.require`.
"""

from typing import Any

from msgspec import Raw

from slinky.slurm.errors import Problem
from slinky.slurm.model.partitions import Partition
from slinky.slurm.model.statistics import ConfMeta, ControllerPing, Diag
from slinky.slurm.model.values import UNSET, Number, Value
from slinky.slurm.model.views import Host, Job, JobStatus, License, NodeResources, Reservation, Share


class ErrorEntry(Value, frozen=True, gc=False):
    """An entry of `errors[]`."""

    description: str | None = None
    error_number: int = 0
    error: str | None = None
    source: str | None = None

    def problem(self) -> Problem:
        """The entry as a `Problem`."""
        texts = [text for text in (self.error, self.description) if text and text != "No error"]
        return Problem(self.error_number, ": ".join(dict.fromkeys(texts)), self.source or "")


class WarningEntry(Value, frozen=True, gc=False):
    """An entry of `warnings[]`."""

    description: str | None = None
    source: str | None = None


class KillError(Value, frozen=True, gc=False):
    """Why a cancel did not end one job."""

    code: int = 0
    string: str = ""
    message: str | None = None


class KillStatus(Value, frozen=True, gc=False):
    """An entry of the `status[]` of a cancel; only failures have a meaningful one."""

    error: KillError = KillError()
    step_id: str = ""


class JobResult(Value, frozen=True, gc=False):
    """The result of an update or requeue for one job or array task."""

    job_id: int = 0
    step_id: str = ""
    error: str | None = None
    error_code: int = 0
    why: str | None = None

    def problem(self) -> Problem:
        """The result as a `Problem`."""
        return Problem(self.error_code, self.why or self.error or "", self.step_id)


class SlurmMeta(Value, frozen=True, gc=False):
    """Release and cluster of the server."""

    release: str = ""
    cluster: str = ""


class ResponseMeta(Value, frozen=True, gc=False):
    """The envelope of a response; a response without it is not from slurmrestd."""

    slurm: SlurmMeta = SlurmMeta()


class Response(Value, frozen=True, gc=False):
    """The common fields of every response of slurmrestd."""

    meta: ResponseMeta | None = None
    errors: tuple[ErrorEntry, ...] | None = None
    warnings: tuple[WarningEntry, ...] | None = None

    @property
    def problems_from_warnings(self) -> tuple[Problem, ...]:
        """The warnings as problems: an unknown field in a request is reported nowhere else."""
        return tuple(Problem(0, entry.description or "", entry.source or "") for entry in self.warnings or ())


class JobsResponse(Response, frozen=True, gc=False):
    """`jobs/`, `job/{id}`."""

    jobs: tuple[Job, ...] | None = None
    last_update: Number = UNSET


class StatesResponse(Response, frozen=True, gc=False):
    """`jobs/state/`."""

    jobs: tuple[JobStatus, ...] | None = None


class NodesResponse(Response, frozen=True, gc=False):
    """`node/{name}`."""

    nodes: tuple[Host, ...] | None = None
    last_update: Number = UNSET


class RawNodes(Response, frozen=True, gc=False):
    """`nodes/`, with the nodes not decoded yet."""

    nodes: tuple[Raw, ...] | None = None
    last_update: Number = UNSET


class RawJobs(Response, frozen=True, gc=False):
    """`jobs/`, with the jobs not decoded yet."""

    jobs: tuple[Raw, ...] | None = None
    last_update: Number = UNSET


class PartitionsResponse(Response, frozen=True, gc=False):
    """`partitions/`."""

    partitions: tuple[Partition, ...] | None = None
    last_update: Number = UNSET


class ReservationsResponse(Response, frozen=True, gc=False):
    """`reservations/`."""

    reservations: tuple[Reservation, ...] | None = None
    last_update: Number = UNSET


class LicensesResponse(Response, frozen=True, gc=False):
    """`licenses/`."""

    licenses: tuple[License, ...] | None = None


class ResourcesResponse(Response, frozen=True, gc=False):
    """`resources/{id}`."""

    nodes: tuple[NodeResources, ...] | None = None


class PingResponse(Response, frozen=True, gc=False):
    """`ping/`."""

    pings: tuple[ControllerPing, ...] | None = None


class DiagResponse(Response, frozen=True, gc=False):
    """`diag/`."""

    statistics: Diag | None = None


class ShareList(Value, frozen=True, gc=False):
    """Slurm nests the list of shares in an object."""

    shares: tuple[Share, ...] = ()


class SharesResponse(Response, frozen=True, gc=False):
    """`shares`."""

    shares: ShareList | None = None


class ConfResponse(Response, frozen=True, gc=False):
    """`conf`."""

    slurm_conf: dict[str, Any] | None = None
    slurm_conf_meta: ConfMeta | None = None


class SubmitResponse(Response, frozen=True, gc=False):
    """`job/submit`, `job/allocate`."""

    job_id: int = 0
    job_submit_user_msg: str | None = None


class UpdateResponse(Response, frozen=True, gc=False):
    """`job/{id}` after an update."""

    results: tuple[JobResult, ...] | None = None


class CancelResponse(Response, frozen=True, gc=False):
    """A cancel of one or many jobs."""

    status: tuple[KillStatus, ...] | None = None


class RequeueResponse(Response, frozen=True, gc=False):
    """`jobs/requeue`."""

    status: tuple[tuple[JobResult, ...], ...] | None = None
