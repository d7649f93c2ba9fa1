# SPDX-License-Identifier: Apache-2.0
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from tests.unit.slurm.scripted import respond, respond_ping, serve

from slinky.slurm import SlurmClient, SlurmNotFound, mint_token, wait_status
from slinky.slurm.accounting import AccountingClient
from slinky.slurm.model.account_requests import (
    AccountDescription,
    AccountsCondition,
    AssociationSettings,
    NewAccounts,
    NewUsers,
    UsersCondition,
    UserSettings,
)
from slinky.slurm.model.accounting_jobs import JobOutcome
from slinky.slurm.model.accounts import Account, Association, Cluster, User, Wckey
from slinky.slurm.model.qos import Qos

TOKEN = mint_token(b"k" * 32, "slurm", lifetime=3600)
NEW_ACCOUNTS = NewAccounts(AccountsCondition(("a",), AssociationSettings()), AccountDescription("text", "org"))
NEW_USERS = NewUsers(UsersCondition(("u",), ("a",), AssociationSettings()), UserSettings())
CONTENT: dict[str, Any] = {
    "accounts": [{"name": "a"}],
    "users": [{"name": "u"}],
    "associations": [{"account": "a"}],
    "qos": [{"name": "q"}],
    "jobs": [{"job_id": 7, "time": {"submission": 1}}, {"job_id": 7, "time": {"submission": 2}}],
    "clusters": [{"name": "c"}],
    "wckeys": [{"name": "w"}],
    "TRES": [{"type": "cpu"}],
    "pings": [{"hostname": "dbd", "responding": True}],
    "results": ["changed"],
}

Call = Callable[[AccountingClient], Awaitable[Any]]
# method, call, request without the version
CALLS: list[tuple[str, Call, str]] = [
    ("ping", lambda client: client.ping(), "GET ping/"),
    ("accounts", lambda client: client.accounts(), "GET accounts/"),
    ("account", lambda client: client.account("a"), "GET account/a"),
    ("add_accounts", lambda client: client.add_accounts(NEW_ACCOUNTS), "POST accounts_association/"),
    ("write_accounts", lambda client: client.write_accounts(Account("a")), "POST accounts/"),
    ("delete_account", lambda client: client.delete_account("a"), "DELETE account/a"),
    ("users", lambda client: client.users(), "GET users/"),
    ("user", lambda client: client.user("u"), "GET user/u"),
    ("add_users", lambda client: client.add_users(NEW_USERS), "POST users_association/"),
    ("write_users", lambda client: client.write_users(User("u")), "POST users/"),
    ("delete_user", lambda client: client.delete_user("u"), "DELETE user/u"),
    ("associations", lambda client: client.associations(user="u"), "GET associations/?user=u"),
    ("write_associations", lambda client: client.write_associations(Association("a")), "POST associations/"),
    ("delete_associations", lambda client: client.delete_associations(account="a"), "DELETE associations/?account=a"),
    ("qos", lambda client: client.qos(), "GET qos/"),
    ("qos_by_name", lambda client: client.qos_by_name("q"), "GET qos/q"),
    ("write_qos", lambda client: client.write_qos(Qos("q")), "POST qos/"),
    ("delete_qos", lambda client: client.delete_qos("q"), "DELETE qos/q"),
    ("jobs", lambda client: client.jobs(start_time=5), "GET jobs/?start_time=5&skip_steps=true"),
    ("job", lambda client: client.job(7), "GET job/7"),
    (
        "write_outcome",
        lambda client: client.write_outcome(7, JobOutcome(derived_exit_code=wait_status(3))),
        "POST job/7",
    ),
    ("tres", lambda client: client.tres(), "GET tres/"),
    ("clusters", lambda client: client.clusters(), "GET clusters/"),
    ("cluster", lambda client: client.cluster("c"), "GET cluster/c"),
    ("write_clusters", lambda client: client.write_clusters(Cluster("c")), "POST clusters/"),
    ("delete_cluster", lambda client: client.delete_cluster("c"), "DELETE cluster/c"),
    ("wckeys", lambda client: client.wckeys(), "GET wckeys/"),
    ("write_wckeys", lambda client: client.write_wckeys(Wckey("w")), "POST wckeys/"),
    ("delete_wckey", lambda client: client.delete_wckey(3), "DELETE wckey/3"),
]


@pytest.mark.parametrize(("call", "request_line"), [row[1:] for row in CALLS], ids=[row[0] for row in CALLS])
async def test_a_method_sends_one_request_to_slurmdbd(call: Call, request_line: str) -> None:
    requests: list[str] = []

    def script(request: web.Request) -> web.Response:
        if request.path.startswith("/slurm/"):
            return respond_ping()
        requests.append(f"{request.method} {request.path_qs.split('/', 3)[3]}")
        return respond(**CONTENT)

    async with serve(script) as url, SlurmClient(url, TOKEN) as client:
        await call(client.accounting)
    assert requests == [request_line]


def test_every_method_is_tested_here() -> None:
    methods = {name for name, _ in inspect.getmembers(AccountingClient, inspect.iscoroutinefunction)}
    assert methods == {name for name, _, _ in CALLS}


async def test_of_several_jobs_with_one_id_the_last_submitted_is_returned() -> None:
    async with serve(lambda _: respond(**CONTENT)) as url, SlurmClient(url, TOKEN) as client:
        assert (await client.accounting.job(7)).time.submission == 2


async def test_an_empty_list_for_one_object_means_not_found() -> None:
    empty = {name: [] for name in CONTENT} | {"pings": CONTENT["pings"]}
    async with serve(lambda _: respond(**empty)) as url, SlurmClient(url, TOKEN) as client:
        for call in (client.accounting.account, client.accounting.user, client.accounting.qos_by_name):
            with pytest.raises(SlurmNotFound, match=r"no .* x"):
                await call("x")


async def test_deleting_associations_needs_a_filter() -> None:
    async with SlurmClient("http://127.0.0.1:1", TOKEN) as client:
        with pytest.raises(ValueError, match="a filter is required"):
            await client.accounting.delete_associations()
