# SPDX-License-Identifier: Apache-2.0
import pytest
from aiohttp import web
from tests.unit.slurm.scripted import respond, respond_error, respond_ping, serve

from slinky.slurm import (
    AuthError,
    BlockingClient,
    DatabaseUnreachable,
    DataParserVersion,
    Denied,
    JobRequest,
    JobSelection,
    Malformed,
    NodeUpdate,
    RequestRecord,
    SlurmClient,
    SlurmctldUnreachable,
    SlurmNotFound,
    TransportError,
    Unsupported,
    mint_token,
)

V45 = DataParserVersion.V45
TOKEN = mint_token(b"k" * 32, "slurm", lifetime=3600)


def respond_not_served(request: web.Request) -> web.Response:
    return web.Response(status=404, text="Unable to find requested URL endpoint. Please query ...")


class TokenSequence:
    """A token source that offers these tokens one after the other."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)

    def token(self) -> str:
        return self.tokens[0]

    def renew(self) -> bool:
        if len(self.tokens) > 1:
            self.tokens.pop(0)
            return True
        return False


@pytest.mark.parametrize(
    ("newest", "text"),
    [
        *((version, "Unable to find requested URL endpoint. Please query ...") for version in DataParserVersion),
        (DataParserVersion.V42, "Unable find requested URL. Please view /openapi/v3 for API reference."),  # 24.11
    ],
)
async def test_the_newest_version_that_both_sides_support_is_used(newest: DataParserVersion, text: str) -> None:
    served = {str(version) for version in DataParserVersion if version <= newest}

    def script(request: web.Request) -> web.Response:
        return respond_ping() if request.path.split("/")[2] in served else web.Response(status=404, text=text)

    async with serve(script) as url, SlurmClient(url, TOKEN) as client:
        assert await client.version() is newest
        assert client.session.server.cluster == "lab"


async def test_a_server_that_is_too_old_is_unsupported() -> None:
    async with serve(respond_not_served) as url, SlurmClient(url, TOKEN) as client:
        with pytest.raises(Unsupported):
            await client.ping()


async def test_a_proxy_s_404_is_not_taken_for_an_old_server() -> None:
    page = web.Response(status=404, text="default backend")
    async with serve(lambda _: page) as url, SlurmClient(url, TOKEN) as client:
        with pytest.raises(Malformed):
            await client.version()


async def test_a_request_that_needs_a_newer_version_is_not_sent() -> None:
    async with serve(lambda _: respond_ping()) as url, SlurmClient(url, TOKEN, version=DataParserVersion.V43) as client:
        with pytest.raises(Unsupported, match=r"v0\.0\.44"):
            await client.create_node("NodeName=x")


async def test_a_refused_token_is_renewed_once() -> None:
    tokens: list[str] = []

    def script(request: web.Request) -> web.Response:
        token = request.headers["X-SLURM-USER-TOKEN"]
        tokens.append(token)
        return respond(licenses=[]) if token == "good" else respond_error(511, 1007)

    async with serve(script) as url:
        async with SlurmClient(url, TokenSequence("bad", "good"), version=V45) as client:
            assert await client.licenses() == ()
        assert tokens == ["bad", "good"]
        async with SlurmClient(url, TokenSequence("bad"), version=V45) as client:
            with pytest.raises(AuthError):
                await client.licenses()


async def test_while_slurmctld_is_down_only_the_cheap_probe_is_sent() -> None:
    up = False
    paths: list[str] = []

    def script(request: web.Request) -> web.Response:
        paths.append(request.path.rsplit("/", 2)[-2])
        if paths[-1] == "ping":
            return respond_ping(up)
        return respond(licenses=[]) if up else respond_error(502, 1800)

    async with serve(script) as url, SlurmClient(url, TOKEN, version=V45) as client:
        clock = [0.0]
        client.session._monotonic = lambda: clock[0]
        for _ in range(4):
            with pytest.raises(SlurmctldUnreachable):
                await client.licenses()
        assert paths == ["licenses", "ping"]
        up, clock[0] = True, 10.0
        assert await client.licenses() == ()
        assert paths == ["licenses", "ping", "ping", "licenses"]


async def test_a_cancel_forbidden_while_slurmctld_is_down_means_unreachable() -> None:
    for up, kind in ((False, SlurmctldUnreachable), (True, Exception)):

        def script(request: web.Request, up: bool = up) -> web.Response:
            return respond_ping(up) if "ping" in request.path else respond_error(403, 1)

        async with serve(script) as url, SlurmClient(url, TOKEN, version=V45) as client:
            with pytest.raises(kind) as caught:
                await client.cancel(1)
            assert isinstance(caught.value, SlurmctldUnreachable) is not up


@pytest.mark.parametrize(
    ("token", "kind"), [("expired", AuthError), ("refused", AuthError), ("fine", DatabaseUnreachable)]
)
async def test_a_reported_database_outage_may_be_a_refused_token(token: str, kind: type[Exception]) -> None:
    def script(request: web.Request) -> web.Response:
        if "slurmdb" in request.path:
            return respond_error(502, 7000)
        return respond_error(511, 1007) if token == "refused" else respond(licenses=[])

    minted = mint_token(b"k" * 32, "slurm", lifetime=10, now=1000)
    now = 1010.0 if token == "expired" else 1009.0
    async with serve(script) as url, SlurmClient(url, minted, version=V45, clock=lambda: now) as client:
        with pytest.raises(kind):
            await client.accounting.accounts()


async def test_absent_nodes_and_reservations_differ_from_other_failures() -> None:
    def script(request: web.Request) -> web.Response:
        source = "_dump_nodes" if request.path.endswith("gone") else "elsewhere"
        return respond_error(200, 0, source)

    async with serve(script) as url, SlurmClient(url, TOKEN, version=V45) as client:
        with pytest.raises(SlurmNotFound):
            await client.node("gone")
        with pytest.raises(Exception, match="text") as caught:
            await client.node("other")
        assert not isinstance(caught.value, SlurmNotFound)


async def test_a_response_without_its_list_is_not_an_empty_list() -> None:
    async with serve(lambda _: respond()) as url, SlurmClient(url, TOKEN, version=V45) as client:
        for question in (client.nodes, client.jobs, client.job_states, client.partitions, client.licenses):
            with pytest.raises(Malformed):
                await question()
        with pytest.raises(Malformed):
            await client.submit(JobRequest(name="x"))


async def test_responses_of_another_cluster_at_the_same_address_are_errors() -> None:
    async with serve(lambda _: respond(nodes=[])) as url, SlurmClient(url, TOKEN, version=V45) as client:
        client.session.expected_cluster = "lab"
        assert await client.nodes() is not None
        client.session.expected_cluster = "production"
        with pytest.raises(Malformed, match="production"):
            await client.nodes()


async def test_unchanged_lists_are_none() -> None:
    unchanged = respond(jobs=[], last_update={"set": True, "number": 0})

    def script(request: web.Request) -> web.StreamResponse:
        return unchanged if "jobs" in request.path else web.Response(status=304)

    async with serve(script) as url, SlurmClient(url, TOKEN, version=V45) as client:
        assert await client.nodes(since=5) is None
        assert await client.jobs(since=5) is None


async def test_a_cancel_that_failed_with_a_200_raises() -> None:
    status = [{"error": {"code": 2002, "string": "Access denied"}, "step_id": "7"}]
    async with serve(lambda _: respond(status=status)) as url, SlurmClient(url, TOKEN, version=V45) as client:
        with pytest.raises(Denied):
            await client.cancel(7)
        assert [problem.source for problem in await client.cancel_many(JobSelection(jobs=["7"]))] == ["7"]


async def test_a_bulk_call_without_a_selection_is_not_sent() -> None:
    async with serve(lambda _: web.Response(status=500)) as url, SlurmClient(url, TOKEN) as client:
        with pytest.raises(ValueError, match="selection"):
            await client.cancel_many(JobSelection(signal="KILL"))
        with pytest.raises(ValueError, match="filter"):
            await client.accounting.delete_associations()
        with pytest.raises(ValueError, match="not a job id"):
            await client.job_states(["s4N5M7H1B0V400"])
        assert await client.cancel_many(JobSelection(jobs=[])) == ()
        assert await client.job_states([]) == ()
        assert await client.update_nodes([], NodeUpdate(comment="x")) == ()
        await client.delete_nodes()


async def test_allocate_never_waits_and_names_are_safe_in_paths() -> None:
    requests: list[tuple[str, str]] = []

    def script(request: web.Request) -> web.Response:
        requests.append((request.method, request.raw_path))
        return respond(job_id=3)

    async with serve(script) as url, SlurmClient(url, TOKEN, version=V45) as client:
        await client.allocate(JobRequest(name="x"))
        await client.delete_nodes("k1", "k2", "../../x")
    assert requests[1] == ("DELETE", "/slurm/v0.0.45/node/..%2F..%2Fx%2Ck%5B1-2%5D")


async def test_a_refused_connection_has_applied_nothing() -> None:
    async with serve(lambda _: respond_ping()) as url:
        pass
    async with SlurmClient(url, TOKEN, version=V45) as client:
        with pytest.raises(TransportError) as caught:
            await client.submit(JobRequest(name="x"))
        assert not caught.value.maybe_applied


async def test_every_request_can_be_observed() -> None:
    records: list[RequestRecord] = []
    async with serve(lambda _: respond_ping()) as url, SlurmClient(url, TOKEN, observe=records.append) as client:
        await client.version()
    assert [(record.method, record.path, record.status) for record in records] == [("GET", "/slurm/v0.0.45/ping/", 200)]
    assert records[0].received > 100


def test_scripts_need_no_event_loop() -> None:
    with BlockingClient("http://127.0.0.1:1", TOKEN, version=V45) as client:
        with pytest.raises(TransportError):
            client.ping()
        with pytest.raises(TransportError):
            client.accounting.accounts()
        assert "submit" in dir(client)
