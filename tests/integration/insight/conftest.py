# SPDX-License-Identifier: Apache-2.0
"""A Slurm in which jobs wait for every reason of `pending_cases` at the same time."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec
import pytest
from tests.integration.insight.pending_cases import CASES, CLUSTER, PendingCase
from tests.support.job_requests import EXTERNAL_JOB
from tests.support.labs import SessionLabs
from tests.support.waiting import eventually

from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import JobRequest, MintedToken, SlurmClient

HOSTS = 12


@dataclass(frozen=True)
class PendingQueue:
    """The jobs by their titles, and the names of all jobs by id."""

    slurm: LabSlurm
    jobs: Mapping[str, int]
    names: Mapping[int, str]


@pytest.fixture(scope="module")
def pending_queue(session_labs: SessionLabs) -> Iterator[PendingQueue]:
    """A Slurm of its own with a job for each case, once slurmctld has given each its reason.

    The goldens count every job, host and limit of the cluster, so no other test may use it.
    """
    lab = session_labs.make(nodes=0, slurm="alone")
    lab.slurm.add_external_nodes(HOSTS, gpus=8)
    lab.slurm.exec("sh", "-ec", CLUSTER)
    lab.slurm.exec("sh", "-ec", "\n".join(account_commands()))
    yield asyncio.run(submit_cases(lab.slurm))
    session_labs.remove(lab)


def account_commands() -> Iterator[str]:
    """A QOS or an account for each case that has limits."""
    names = ["withdrawn"]
    yield "sacctmgr -i -Q add qos withdrawn GrpJobs=0"
    for case in CASES:
        if case.limits and case.of_account:
            yield f"sacctmgr -i -Q add account {case.reason} {case.limits}"
            yield f"sacctmgr -i -Q add user alice account={case.reason}"
        elif case.limits:
            yield f"sacctmgr -i -Q add qos {case.reason} {case.limits}"
            names.append(case.reason)
    yield f"sacctmgr -i -Q modify user alice where account=lab set qos+={','.join(names)}"


async def submit_cases(slurm: LabSlurm) -> PendingQueue:
    """Submit the job of each case, and wait until slurmctld has given each its reason."""
    jobs: dict[str, int] = {}
    names: dict[int, str] = {}
    async with SlurmClient(slurm.url, MintedToken(lambda: slurm.jwt_key, "alice")) as client:

        async def submit(case: PendingCase, title: str, fields: Mapping[str, object], other: int = 0) -> int:
            job = (await client.submit(request(case, title, fields, other))).job_id
            names[job] = title
            return job

        others = {
            case.title: await submit(case, f"{case.title}-runs", case.runs) for case in CASES if case.runs is not None
        }

        async def running() -> bool:
            listing = await client.jobs()
            states = {job.job_id: job.state.running for job in (listing.items if listing else ())}
            return all(states.get(job) for job in others.values())

        await eventually(running, "the jobs that block others")
        for case in CASES:
            jobs[case.title] = await submit(case, case.title, case.job, others.get(case.title, 0))
        for case in CASES:
            if case.then:
                numbers = f"job={jobs[case.title]}; other={others.get(case.title, 0)}"
                slurm.exec("sh", "-ec", f"{numbers}; {case.then}")

        async def reasons() -> bool:
            listing = await client.jobs()
            found = {job.job_id: job.state_reason for job in (listing.items if listing else ())}
            wrong = {case.title: found.get(jobs[case.title]) for case in CASES}
            wrong = {name: reason for name, reason in wrong.items() if reason != REASONS[name]}
            assert not wrong, wrong
            return True

        await eventually(reasons, "the reason of each case")
    return PendingQueue(slurm, jobs, names)


REASONS = {case.title: case.reason for case in CASES}


def request(case: PendingCase, title: str, fields: Mapping[str, object], other: int) -> JobRequest:
    """The request for a job of a case."""
    owner: dict[str, object] = {}
    if case.limits:
        owner = {"account": case.reason} if case.of_account else {"qos": case.reason}
    values = {**msgspec.to_builtins(EXTERNAL_JOB), "partition": "roomy", "name": title, **owner, **fields}
    if values.get("begin_time"):
        values["begin_time"] = {"set": True, "number": int(time.time()) + int(str(values["begin_time"]))}
    if "dependency" in values:
        values["dependency"] = str(values["dependency"]).replace("$other", str(other))
    return msgspec.convert(values, JobRequest)
