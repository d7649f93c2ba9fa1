# SPDX-License-Identifier: Apache-2.0
"""`slinky top` on a real Slurm, driven by the keys of a person through Textual's own test harness."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.job_requests import external_job
from tests.support.slurmrestd_proxy import SlurmrestdProxy, page
from tests.support.waiting import eventually
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static

from slinky.cli.access.connection import ConnectedCluster
from slinky.cli.live.top_app import TopApp
from slinky.cli.live.top_screens import ConfirmationScreen, ExplanationScreen
from slinky.cli.live.top_source import TopSource
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import MintedToken, SlurmClient


@pytest.fixture
async def seen(slurm: LabSlurm, proxy: SlurmrestdProxy) -> AsyncIterator[SlurmClient]:
    """A client of the application itself, through a proxy that can fail."""
    async with SlurmClient(proxy.url, MintedToken(lambda: slurm.jwt_key, "slurm")) as client:
        yield client


async def keys_of(app: TopApp, table: str) -> list[str]:
    return [str(key.value) for key in app.query_one(f"#{table}", DataTable).rows]


def message(app: TopApp) -> str:
    return str(app.query_one("#message", Static).render())


async def go_to(app: TopApp, pilot: Pilot[None], table: str, key: str) -> None:
    """Focus a table and move its cursor to a row."""
    widget: DataTable[Any] = app.query_one(f"#{table}", DataTable)
    widget.focus()
    widget.move_cursor(row=widget.get_row_index(key))
    await pilot.pause()


async def question_of(app: TopApp) -> str:
    """The action that the application asks about."""

    def asks() -> bool:
        return isinstance(app.screen, ConfirmationScreen)

    await eventually(asks, "a question")
    screen = app.screen
    assert isinstance(screen, ConfirmationScreen)
    return screen.text


async def test_a_person_follows_explains_and_changes_a_cluster(
    client: SlurmClient, seen: SlurmClient, proxy: SlurmrestdProxy
) -> None:
    job = (await client.submit(external_job(name="[b]name", hold=True))).job_id
    app = TopApp(TopSource(ConnectedCluster(seen, "lab")), 1.0)
    async with app.run_test(size=(160, 50)) as pilot:

        async def shows_job() -> bool:
            return f"job/{job}" in await keys_of(app, "jobs")

        await eventually(shows_job, "the job in the table")
        await go_to(app, pilot, "jobs", f"job/{job}")
        await pilot.press("e")

        def explained() -> bool:
            return isinstance(app.screen, ExplanationScreen)

        await eventually(explained, "the explanation")
        assert isinstance(app.screen, ExplanationScreen)
        assert f"Job {job}" in app.screen.text
        await pilot.press("escape")

        # No: nothing happens. Yes: the job is released, and then cancelled.
        await pilot.press("r")
        await question_of(app)
        await pilot.press("n")
        assert (await client.job(job)).hold
        await pilot.press("r")
        await question_of(app)
        await pilot.press("y")

        async def released() -> bool:
            return not (await client.job(job)).hold

        await eventually(released, "the release of the job")
        await go_to(app, pilot, "jobs", f"job/{job}")
        await pilot.press("c")
        question = await question_of(app)
        assert "[b]name" in question
        await pilot.press("y")

        async def cancelled() -> bool:
            return (await client.job(job)).state.ended

        await eventually(cancelled, "the end of the job")

        # A node: drain with a reason, undrain by name.
        await go_to(app, pilot, "nodes", "node/k002")
        await pilot.press("d")

        def asks_reason() -> bool:
            return isinstance(app.focused, Input)

        await eventually(asks_reason, "the question for a reason")
        await pilot.press(*"fan", "enter")

        async def drained() -> bool:
            return (await client.node("k002")).state.draining

        await eventually(drained, "the drain")
        assert (await client.node("k002")).reason == "fan"

        def shows_drain() -> bool:
            return app.data is not None and app.data.snapshot.hosts_by_name["k002"].state.draining

        await eventually(shows_drain, "the drained node in the table")
        await go_to(app, pilot, "nodes", "node/k002")
        await pilot.press("u")
        assert "drained: fan" in await question_of(app)
        await pilot.press("y")

        async def undrained() -> bool:
            return not (await client.node("k002")).state.draining

        await eventually(undrained, "the end of the drain")

        # An outage is reported, the tables stay, and the end of it is noticed.
        proxy.fault = page(503, "down")

        def tells_outage() -> bool:
            return "what is shown is old" in message(app)

        await eventually(tells_outage, "the report of the outage")
        assert "node/k002" in await keys_of(app, "nodes")
        proxy.fault = None
        another = (await client.submit(external_job(hold=True))).job_id

        async def shows_another() -> bool:
            return f"job/{another}" in await keys_of(app, "jobs")

        await eventually(shows_another, "the next job after the outage")
        await pilot.press("q")
    assert app.return_code == 0
