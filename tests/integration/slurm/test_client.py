# SPDX-License-Identifier: Apache-2.0
"""Every call of the client against the real daemons."""

import time
from collections.abc import AsyncIterator

import msgspec
import pytest
from tests.support.job_requests import external_job
from tests.support.waiting import eventually

from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import (
    INFINITE,
    AuthError,
    BlockingClient,
    Busy,
    DataParserVersion,
    Denied,
    JobRequest,
    JobSelection,
    NodeUpdate,
    Rejected,
    ReservationRequest,
    SlurmClient,
    SlurmConflict,
    SlurmInvalid,
    SlurmNotFound,
    Tres,
    Unsupported,
    conf,
    expand,
    fold,
    node_conf,
    number,
    wait_status,
)
from slinky.slurm.model import account_requests, accounting_jobs, accounts, qos
from slinky.slurm.model.accounting_jobs import AccountingJob
from slinky.slurm.model.partitions import Partition


@pytest.fixture
async def clean(client: SlurmClient) -> AsyncIterator[SlurmClient]:
    yield client
    await client.cancel_many(JobSelection(user_name="slurm"))


@pytest.mark.parametrize("version", list(DataParserVersion))
async def test_every_version_is_read(slurm: LabSlurm, version: DataParserVersion) -> None:
    async with SlurmClient(slurm.url, slurm.token(), version=version) as client:
        assert any(ping.up for ping in await client.ping())
        nodes = await client.nodes()
        assert nodes is not None
        assert {"c1", "k001"} <= {node.name for node in nodes.items}
        assert (await client.node("k001")).cpus == 16
        partitions = await client.partitions()
        assert partitions is not None
        assert all(partition.up for partition in partitions.items)
        assert await client.reservations() is not None
        assert (await client.licenses())[0].license_name == "lic"
        assert (await client.diag()).req_time_start.whole > 0
        assert (await client.shares())[0].name == "root"
        assert await client.jobs() is not None
        assert {account.name for account in await client.accounting.accounts()} >= {"root", "lab"}
        assert await client.accounting.users()
        assert await client.accounting.associations(account="lab")
        assert await client.accounting.qos()
        assert await client.accounting.tres()
        assert await client.accounting.clusters()


async def test_the_newest_version_is_negotiated(client: SlurmClient) -> None:
    assert await client.version() is max(DataParserVersion)
    assert client.session.server.cluster == "lab"


async def test_a_job_lives_and_ends(clean: SlurmClient) -> None:
    submitted = await clean.allocate(external_job(tres_per_node="gres/gpu:h100:2", comment="uid-1"))
    job = await clean.job(submitted.job_id)
    assert job.state.running
    assert job.comment == "uid-1"
    assert await clean.job(job.sluid) == job
    (place,) = await clean.resources(submitted.job_id)
    assert place.node == job.nodes
    assert [conf.gres.parse_indices(gres.index or "") for gres in place.gres] == [(0, 1)]
    assert [status.state.base for status in await clean.job_states([submitted.job_id])] == ["RUNNING"]
    assert await clean.update_job(submitted.job_id, JobRequest(comment="uid-2", time_limit=number(30))) == ()
    assert (await clean.job(submitted.job_id)).time_limit.value == 30
    await clean.cancel(job.sluid)
    assert (await clean.job(submitted.job_id)).state.base == "CANCELLED"
    with pytest.raises(SlurmConflict):
        await clean.update_job(submitted.job_id, JobRequest(comment="too late"))


async def test_a_batch_job_runs_and_can_be_requeued(clean: SlurmClient) -> None:
    script = "#!/bin/sh\nsleep 60\n"
    job = JobRequest(
        name="batch", script=script, partition="work", account="lab",
        environment=["PATH=/bin:/usr/bin"], current_working_directory="/tmp", hold=True,
    )  # fmt: skip
    submitted = await clean.submit(job)
    assert (await clean.job(submitted.job_id)).state.pending
    with pytest.raises(Rejected):
        await clean.requeue([submitted.job_id])
    await clean.cancel(submitted.job_id)


async def test_a_heterogeneous_job_shows_its_components(clean: SlurmClient) -> None:
    submitted = await clean.submit(external_job(hold=True), external_job(hold=True, name="second"))
    components = await clean.job_components(submitted.job_id)
    assert [job.het_job_offset.whole for job in components] == [0, 1]
    assert components[0].het_job_id.whole == submitted.job_id


async def test_jobs_are_cancelled_in_bulk_and_refusals_are_named(clean: SlurmClient) -> None:
    jobs = [(await clean.submit(external_job(hold=True))).job_id for _ in range(3)]
    refused = await clean.cancel_many(JobSelection(jobs=[*map(str, jobs), "999999"]))
    assert [(problem.number, problem.source) for problem in refused] == [(2017, "999999")]
    states = await clean.job_states(jobs)
    assert [status.state.base for status in states] == ["CANCELLED"] * 3


async def test_refusals_of_slurm_have_types(clean: SlurmClient, slurm: LabSlurm) -> None:
    for refused, kind in (
        (clean.job(999999), SlurmNotFound),
        (clean.cancel(999999), SlurmNotFound),
        (clean.node("nowhere"), SlurmNotFound),
        (clean.reservation("nowhere"), SlurmNotFound),
        (clean.partition("nowhere"), SlurmNotFound),
        (clean.delete_nodes("nowhere"), SlurmNotFound),
        (clean.create_node(node_conf("k001", State="EXTERNAL")), SlurmConflict),
        (clean.submit(JobRequest(flags=["NO_SUCH_FLAG"])), SlurmInvalid),
        (clean.allocate(external_job(partition="nowhere")), Rejected),
        (clean.allocate(external_job(memory_per_node=number(10**9))), Rejected),
    ):
        with pytest.raises(kind):
            await refused
    async with SlurmClient(slurm.url, slurm.token("alice")) as alice:
        with pytest.raises(Denied):
            await alice.update_node("k001", NodeUpdate(comment="mine"))
        held = await clean.submit(external_job(hold=True))
        with pytest.raises(Denied):
            await alice.cancel(held.job_id)


async def test_a_full_cluster_is_reported_at_once(clean: SlurmClient) -> None:
    whole = external_job(nodes="4", tasks=4, shared=["none"])
    await clean.allocate(whole)
    with pytest.raises(Busy):
        await clean.allocate(whole)


async def test_a_job_id_of_our_choice_makes_creation_idempotent(clean: SlurmClient) -> None:
    chosen = 800_000 + int(time.time()) % 100_000
    submitted = await clean.submit(external_job(job_id=chosen, user_id="alice", hold=True))
    assert submitted.job_id == chosen
    with pytest.raises(SlurmConflict):
        await clean.submit(external_job(job_id=chosen, user_id="alice", hold=True))
    await clean.cancel(chosen)


async def test_a_field_that_slurm_ignores_is_a_warning(clean: SlurmClient) -> None:
    submitted = await clean.submit(external_job(hold=True))
    body = JobRequest(script="#!/bin/sh\n")
    assert isinstance(await clean.update_job(submitted.job_id, body), tuple)


async def test_nodes_come_change_and_go(clean: SlurmClient) -> None:
    names = expand("t[01-03]")
    line = node_conf(fold(names), NodeAddr="127.0.0.1", CPUs=4, RealMemory=1000, State="EXTERNAL", Feature="tmp")
    await clean.create_node(line)
    try:
        node = await clean.node("t02")
        assert node.state.external
        assert node.state.dynamic
        await clean.update_node("t01", NodeUpdate(state=["DRAIN"], reason="test: drain", comment="c"))
        await clean.update_nodes(names[1:], NodeUpdate(weight=number(7), features=["a"], features_act=["a"]))
        listing = await clean.nodes()
        assert listing is not None
        hosts = {node.name: node for node in listing.items if node.name in names}
        assert hosts["t01"].state.drained
        assert (hosts["t01"].reason, hosts["t01"].comment) == ("test: drain", "c")
        assert hosts["t03"].weight == 7
        assert hosts["t03"].features == ("a",)
        assert await clean.nodes(since=listing.at + 60) is None
    finally:
        await clean.delete_nodes(*names)
    with pytest.raises(SlurmNotFound):
        await clean.node("t01")


async def test_reservations_come_and_go(clean: SlurmClient) -> None:
    request = ReservationRequest(
        name="maint", start_time=number(int(time.time()) + 3600), duration=number(10),
        node_list=["k001"], users=["slurm"], flags=["MAINT"],
    )  # fmt: skip
    await clean.write_reservation(request)
    try:
        reservation = await clean.reservation("maint")
        assert reservation.node_list == "k001"
        assert {"MAINT", "SPEC_NODES"} <= set(reservation.flags)
        assert not reservation.active(time.time())
        await clean.write_reservation(ReservationRequest(name="maint", duration=number(20)))
        listing = await clean.reservations()
        assert listing is not None
        (again,) = listing.items
        assert again.end_time.whole - again.start_time.whole == 20 * 60
    finally:
        await clean.delete_reservation("maint")


async def test_partitions_come_and_go(clean: SlurmClient, slurm: LabSlurm) -> None:
    assert (await clean.partition("ext")).nodes.configured == "k[001-004]"
    await clean.write_partitions(msgspec.convert({"name": "fresh", "nodes": {"configured": "c1"}}, Partition))
    try:
        assert (await clean.partition("fresh")).nodes.configured == "c1"
    finally:
        await clean.delete_partition("fresh")
    async with SlurmClient(slurm.url, slurm.token(), version=DataParserVersion.V44) as old:
        with pytest.raises(Unsupported):
            await old.delete_partition("fresh")


async def test_the_configuration_has_the_boot_time(clean: SlurmClient) -> None:
    configuration = await clean.conf()
    assert configuration.settings["ClusterName"] == "lab"
    assert configuration.meta.boot_time > 0
    assert configuration.meta.slurm_version.startswith("26.")


async def test_reconfigure_works(clean: SlurmClient) -> None:
    await clean.reconfigure()
    assert await clean.up()


async def test_accounts_users_and_qos_come_and_go(clean: SlurmClient) -> None:
    database = clean.accounting
    new = account_requests.NewAccounts(
        account_requests.AccountsCondition(("k8s",), account_requests.AssociationSettings(parent="root", fairshare=10)),
        account_requests.AccountDescription("pods", "k8s"),
    )
    await database.add_accounts(new)
    await database.add_accounts(new)  # it exists as requested: no error
    try:
        users = account_requests.UsersCondition(("bob",), ("k8s",), account_requests.AssociationSettings())
        await database.add_users(account_requests.NewUsers(users, account_requests.UserSettings(("None",))))
        cap = qos.QosTres(per=accounts.TresPer(user=(Tres("cpu", count=4),)))
        limits = qos.QosLimits(max=qos.QosMax(tres=cap))
        await database.write_qos(qos.Qos("pods", priority=number(10), limits=limits))
        (limit,) = (await database.qos_by_name("pods")).limits.max.tres.per.user
        assert (limit.type, limit.count) == ("cpu", 4)
        (association,) = await database.associations(account="k8s", user="bob")
        await database.write_associations(msgspec.structs.replace(association, qos=("normal", "pods")))
        (association,) = await database.associations(account="k8s", user="bob")
        assert set(association.qos) == {"normal", "pods"}
    finally:
        await database.delete_associations(account="k8s", user="bob")
        await database.delete_qos("pods")
        await database.delete_account("k8s")
    with pytest.raises(SlurmNotFound):
        await database.account("k8s")


async def test_the_outcome_of_a_job_can_be_recorded(clean: SlurmClient) -> None:
    submitted = await clean.allocate(external_job(time_limit=INFINITE))
    sluid = (await clean.job(submitted.job_id)).sluid
    await clean.cancel(submitted.job_id)

    async def ended() -> AccountingJob:
        record = await clean.accounting.job(submitted.job_id)
        assert record.sluid == sluid
        assert record.state.ended
        return record

    await eventually(ended, "the end of the job in accounting")
    for status, code in ((wait_status(3), 3), (wait_status(0, signal=9), 137), (wait_status(0), 0)):
        outcome = accounting_jobs.JobOutcome(extra="{}", derived_exit_code=status)
        await clean.accounting.write_outcome(submitted.job_id, outcome)
        assert (await clean.accounting.job(submitted.job_id)).derived_exit_code.code == code
    with pytest.raises(SlurmNotFound):
        await clean.accounting.write_outcome(2**26, outcome)
    recent = await clean.accounting.jobs(start_time=int(time.time()) - 3600, users=["slurm"])
    assert submitted.job_id in {job.job_id for job in recent}


async def test_a_service_token_acts_for_users(slurm: LabSlurm) -> None:
    async with SlurmClient(slurm.url, slurm.token(), user="alice") as client:
        submitted = await client.submit(external_job(hold=True))
        assert (await client.job(submitted.job_id)).user_name == "alice"
        await client.cancel(submitted.job_id)
    async with SlurmClient(slurm.url, slurm.token("alice"), user="slurm") as client:
        with pytest.raises(AuthError):
            await client.licenses()


async def test_hostlists_are_read_as_slurm_reads_them(slurm: LabSlurm) -> None:
    for text in ("k[001-004]", "a[1-2]b[08-10]c,x[9-11]", "n[1-2]-ib", "a[98-101,7]", "x,y[3]"):
        assert expand(text) == slurm.exec("scontrol", "show", "hostnames", text).split()
    names = ["gpu-0", "gpu-1", "gpu-10", "r07", "r7", "login", "n1-ib"]
    assert set(slurm.exec("scontrol", "show", "hostnames", fold(names)).split()) == set(names)


async def test_slurmctld_reads_the_configuration_that_we_write(slurm: LabSlurm, client: SlurmClient) -> None:
    running = (await client.conf()).settings
    text = conf.SlurmConf(
        cluster_name="lab",
        controllers=(conf.SlurmctldHost("ctl", slurm.address),),
        slurmctld_port=running["SlurmctldPort"],
        cred_type="auth/slurm",
        auth_alt_parameters=("jwt_key=/etc/slurm/jwt_hs256.key",),
        nodes=(conf.NodeLine("c[1-2]", (("CPUs", 2), ("Port", "[23901-23902]"))),),
        node_sets=(conf.NodeSetLine("ext", feature="ext"),),
        partitions=(conf.PartitionLine("work", "c[1-2]", 'MaxTime=60 TRESBillingWeights="CPU=1.0,Mem=0.25G"'),),
        extra="MailProg=/bin/true # none\nGresTypes=gpu",
    ).render()
    script = 'printf "%s" "$1" > /tmp/ours.conf; chmod 644 /tmp/ours.conf; SLURM_CONF=/tmp/ours.conf scontrol ping'
    assert "is UP" in slurm.exec("sh", "-c", script, "sh", text)


def test_scripts_need_no_event_loop(slurm: LabSlurm) -> None:
    with BlockingClient(slurm.url, slurm.token()) as client:
        assert client.node("k001").name == "k001"
        assert client.accounting.account("lab").name == "lab"


async def test_excluded_hosts_are_stored_as_one_hostlist(client: SlurmClient) -> None:
    submitted = await client.submit(external_job(hold=True, excluded_nodes=("k001", "k002", "k004")))
    assert (await client.job(submitted.job_id)).excluded_nodes == "k[001-002,004]"
    await client.update_job(submitted.job_id, JobRequest(excluded_nodes=("k001", "k002", "k003")))
    assert (await client.job(submitted.job_id)).excluded_nodes == "k[001-003]"
    await client.update_job(submitted.job_id, JobRequest(excluded_nodes=("",)))
    assert (await client.job(submitted.job_id)).excluded_nodes == ""
    await client.cancel(submitted.job_id)
