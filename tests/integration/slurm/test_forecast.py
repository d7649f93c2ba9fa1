# SPDX-License-Identifier: Apache-2.0
"""The simulated queue, compared with the plan of the real slurmctld: same order, same starts."""

from collections.abc import Iterator

import pytest
from tests.support.job_requests import external_job
from tests.support.waiting import eventually

from slinky.cli.access.reader import read_snapshot
from slinky.insight.forecast import StartSource, forecast
from slinky.insight.forecast.simulation import simulate
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import JobSelection, SlurmClient, number

#: slurmctld's backfill rounds starts up to a minute (`bf_resolution`); jobs that ended in between shift them again.
ROUNDING = 180

#: Running jobs and then pending ones: nodes, GPUs per node, minutes, priority.
RUNNING = ((2, 8, 60), (1, 8, 120), (1, 8, 180))
PENDING = (
    (4, 8, 60, 900),
    (1, 8, 95, 800),
    (2, 8, 30, 700),
    (1, 4, 300, 600),
    (1, 4, 50, 500),
    (1, 1, 40, 400),
    (2, 8, 20, 1000),
    (3, 8, 240, 300),
    (1, 8, 25, 200),
    (4, 8, 10, 100),
)


@pytest.fixture
def maintenance(slurm: LabSlurm) -> Iterator[None]:
    """A reservation of one host in seven hours, before some of the jobs could end."""
    slurm.exec(
        "scontrol", "create", "reservation", "ReservationName=night", "Nodes=k004", "Users=root",
        "StartTime=now+7hours", "Duration=60", "Flags=MAINT",
    )  # fmt: skip
    yield
    slurm.exec("scontrol", "delete", "ReservationName=night")


async def test_the_simulated_order_is_that_of_slurmctld(client: SlurmClient, maintenance: None) -> None:
    async def submit(nodes: int, gpus: int, minutes: int, priority: int | None = None) -> int:
        request = external_job(
            nodes=str(nodes),
            tasks=nodes,
            tres_per_node=f"gres/gpu:{gpus}",
            time_limit=number(minutes),
            priority=number(priority),
        )
        return (await client.submit(request)).job_id

    async def running() -> bool:
        return all([(await client.job(job)).state.running for job in started])

    started = [await submit(*shape) for shape in RUNNING]
    await eventually(running, "the running jobs")
    pending = [await submit(*shape) for shape in PENDING]

    async def planned() -> QueueSnapshot | None:
        """A snapshot in which slurmctld's last backfill cycle has planned every pending job."""
        snapshot = await read_snapshot(client)
        ranges = forecast(snapshot)
        sources = [ranges[job].source for job in pending if job in ranges]
        return snapshot if sources == [StartSource.SLURMCTLD] * len(pending) else None

    snapshot = await eventually(planned, "slurmctld's plan for every pending job")
    ours = {job: start.begin or 0 for job, start in simulate(snapshot).items() if job in pending}
    theirs = {job: snapshot.jobs_by_id[job].start_time.whole for job in pending}
    await client.cancel_many(JobSelection(user_name="slurm"))
    table = [(job, ours[job] - int(snapshot.now), theirs[job] - int(snapshot.now)) for job in pending]
    assert all(abs(first - second) <= ROUNDING for _, first, second in table), table
    # Jobs whose starts lie within the rounding may be swapped; all others have the same order.
    for one in pending:
        for other in pending:
            if theirs[one] + ROUNDING < theirs[other]:
                assert ours[one] < ours[other], table
