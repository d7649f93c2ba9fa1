# SPDX-License-Identifier: Apache-2.0
"""The job records of slurmdbd, and what can be added to them."""

from slinky.slurm.model.states import JobState
from slinky.slurm.model.values import UNSET, ExitCode, Number, Tres, Value

Words = tuple[str, ...]
Amounts = tuple[Tres, ...]


class AccountingJobState(Value, frozen=True, gc=False):
    """The last recorded state of a job."""

    current: Words = ()
    reason: str = ""


class AccountingJobTime(Value, frozen=True, gc=False):
    """The times of a job, in seconds since 1970; 0 means never."""

    submission: int = 0
    eligible: int = 0
    start: int = 0
    end: int = 0
    elapsed: int = 0
    suspended: int = 0
    limit: Number = UNSET


class AccountingJobTres(Value, frozen=True, gc=False):
    """The resources that a job requested and got."""

    requested: Amounts = ()
    allocated: Amounts = ()


class AccountingJobComment(Value, frozen=True, gc=False):
    """The comments of a job."""

    administrator: str = ""
    job: str = ""
    system: str = ""


class AccountingJob(Value, frozen=True, gc=False, rename={"state_record": "state"}):
    """A job record of the accounting database."""

    job_id: int
    sluid: str = ""
    name: str = ""
    user: str = ""
    group: str = ""
    account: str = ""
    cluster: str = ""
    partition: str = ""
    qos: str = ""
    state_record: AccountingJobState = AccountingJobState()
    time: AccountingJobTime = AccountingJobTime()
    exit_code: ExitCode = ExitCode()
    derived_exit_code: ExitCode = ExitCode()
    nodes: str = ""
    allocation_nodes: int = 0
    failed_node: str = ""
    tres: AccountingJobTres = AccountingJobTres()
    comment: AccountingJobComment = AccountingJobComment()
    extra: str = ""
    flags: Words = ()
    restart_cnt: int = 0

    @property
    def state(self) -> JobState:
        """Base state and flags."""
        return JobState.of(self.state_record.current)


class JobOutcome(Value, frozen=True, gc=False):
    """What can be added to the record of a job after its end (v0.0.44)."""

    comment: AccountingJobComment | None = None
    extra: str | None = None
    derived_exit_code: ExitCode | None = None
    wckey: str | None = None
