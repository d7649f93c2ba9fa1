# SPDX-License-Identifier: Apache-2.0
"""`spec.drain` of a NodeSet: how long workers wait for their jobs, and what happens to the jobs afterwards."""

from typing import Annotated, Literal

from slinky.api.fields.amounts import Duration, seconds
from slinky.kube.schema import described
from slinky.kube.types import View

OnTimeout = Literal["Wait", "Requeue", "Cancel"]


class Drain(View, frozen=True):
    """How jobs are treated when the operator removes their worker."""

    timeout: Annotated[
        Duration | None,
        described(
            "How long a worker that the operator removes may keep running its jobs."
            " If unset, the operator waits until the jobs end."
        ),
    ] = None
    on_timeout: Annotated[
        OnTimeout,
        described(
            "What happens to the jobs after the timeout."
            " Wait: they keep running. Requeue: Slurm requeues them. Cancel: Slurm cancels them."
        ),
    ] = "Wait"
    deletion_deadline: Annotated[
        Duration | None,
        described(
            "How long the deletion of the NodeSet waits for running jobs before its workers are deleted anyway."
            " If unset, the deletion waits until the jobs end; with 0s it does not wait."
            " A NodeSet whose Controller no longer exists never waits."
        ),
    ] = None
    protect_idle: Annotated[
        bool,
        described(
            "Also refuse the eviction of idle workers until Slurm has drained them."
            " This prevents the eviction of a worker whose job has only just started."
        ),
    ] = False

    @property
    def timeout_seconds(self) -> float | None:
        """The timeout in seconds; None: no limit."""
        return None if self.timeout is None else seconds(self.timeout)

    @property
    def deletion_seconds(self) -> float | None:
        """The deletion deadline in seconds; None: no limit."""
        return None if self.deletion_deadline is None else seconds(self.deletion_deadline)
