# SPDX-License-Identifier: Apache-2.0
"""The terminal application of `slinky top`, with Textual."""

from collections.abc import Coroutine
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.widgets import DataTable, Footer, Static

from slinky.cli.cluster.drain import describe_drain
from slinky.cli.cluster.job_actions import describe, find_problem
from slinky.cli.live.top_rows import (
    JOB_COLUMNS,
    NODE_COLUMNS,
    TopData,
    find_row_host,
    find_row_job,
    job_rows,
    node_rows,
    summary,
)
from slinky.cli.live.top_screens import ConfirmationScreen, ExplanationScreen, ReasonScreen
from slinky.cli.live.top_source import TopSource
from slinky.insight.explain import explain_host, explain_job
from slinky.insight.plain_text import plain
from slinky.kube.errors import KubeError
from slinky.slurm import Host, SlurmError

Rows = list[tuple[str, tuple[str, ...]]]


class TopApp(App[None]):
    """Tables of jobs and nodes; keys explain and change what the cursor is on."""

    CSS = """
    #summary { height: 1; }
    #message { height: 1; color: $warning; }
    #jobs { height: 2fr; }
    #nodes { height: 1fr; }
    .dialog { width: 80%; height: auto; max-height: 80%; padding: 1 2; background: $surface; border: round $primary; }
    ModalScreen { align: center middle; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        ("e", "explain", "Explain"),
        ("h", "change_job('hold')", "Hold"),
        ("r", "change_job('release')", "Release"),
        ("c", "change_job('cancel')", "Cancel"),
        ("d", "drain", "Drain"),
        ("u", "undrain", "Undrain"),
        ("tab", "focus_next", "Jobs/nodes"),
        ("q", "quit", "Quit"),
    ]

    def __init__(self, source: TopSource, interval: float) -> None:
        super().__init__()
        self._source = source
        self._interval = interval
        self.data: TopData | None = None
        self._is_stale = False
        #: How often the tables were drawn.
        self.draws = 0

    def compose(self) -> ComposeResult:
        """A line about the cluster, both tables, a line for messages, the keys."""
        yield Static(id="summary")
        yield DataTable[Text](id="jobs", cursor_type="row", zebra_stripes=True)
        yield DataTable[Text](id="nodes", cursor_type="row", zebra_stripes=True)
        yield Static(id="message")
        yield Footer()

    async def on_mount(self) -> None:
        """Read the cluster and repeat that."""
        for name, columns in (("jobs", JOB_COLUMNS), ("nodes", NODE_COLUMNS)):
            self._table(name).add_columns(*columns)
        await self.refresh_data()
        self.set_interval(self._interval, self.refresh_data)

    async def refresh_data(self) -> None:
        """Read the cluster; draw only what has changed. An outage is a message, and the tables stay."""
        try:
            data = await self._source.read()
        except (SlurmError, KubeError) as error:
            self._is_stale = True
            self.show_message(f"no answer, what is shown is old: {error}")
            return
        if self._is_stale:
            self._is_stale = False
            self.show_message("")
        if data is self.data:
            return
        self.data = data
        self.draws += 1
        self.query_one("#summary", Static).update(Text(summary(data)))
        self._fill("jobs", job_rows(data))
        self._fill("nodes", node_rows(data))

    def show_message(self, text: str) -> None:
        """Show a text in the line above the keys."""
        self.query_one("#message", Static).update(Text(plain(text, 300)))

    async def action_explain(self) -> None:
        """Explain the job or node of the cursor."""
        key = self._selected()
        if not key:
            return
        try:
            snapshot = await self._source.explain_data()
        except (SlurmError, KubeError) as error:
            self.show_message(str(error))
            return
        data = TopData("", snapshot)
        job, host = find_row_job(data, key), find_row_host(data, key)
        if job is not None:
            self.push_screen(ExplanationScreen(explain_job(job, snapshot).paragraph()))
        elif host is not None:
            self.push_screen(ExplanationScreen(explain_host(host, snapshot).paragraph()))
        else:
            self.show_message(f"{key} is gone")

    def action_change_job(self, verb: str) -> None:
        """Ask, then hold, release or cancel the job of the cursor."""
        job = find_row_job(self.data, self._selected()) if self.data else None
        if job is None:
            self.show_message(f"{verb} needs a job: move the cursor to one")
        elif problem := find_problem(verb, job):
            self.show_message(f"job {job.job_id} {problem}")
        else:

            async def carry_out(is_confirmed: bool | None) -> None:
                if is_confirmed:
                    await self._change(f"{verb} job {job.job_id}", self._source.change_job(verb, job))

            self.push_screen(ConfirmationScreen(plain(f"{verb} {describe(job, str(job.job_id))}", 400)), carry_out)

    def action_drain(self) -> None:
        """Ask for a reason and drain the node of the cursor."""
        host = self._selected_host()
        if host is None:
            self.show_message("drain needs a node: move the cursor to one (Tab)")
            return

        async def carry_out(reason: str | None) -> None:
            if reason:
                await self._change(f"drain {host.name}", self._source.change_host("drain", host.name, reason))
            else:
                self.show_message("a drain needs a reason; nothing is drained")

        self.push_screen(ReasonScreen(host.name), carry_out)

    def action_undrain(self) -> None:
        """Ask, naming who drained it, and undrain the node of the cursor."""
        host = self._selected_host()
        if host is None or not host.state.draining:
            self.show_message("undrain needs a drained node: move the cursor to one (Tab)")
            return

        async def carry_out(is_confirmed: bool | None) -> None:
            if is_confirmed:
                await self._change(f"undrain {host.name}", self._source.change_host("undrain", host.name))

        self.push_screen(ConfirmationScreen(plain(describe_drain(host), 400)), carry_out)

    async def _change(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except SlurmError as error:
            self.show_message(f"{what} failed: {error}")
            return
        await self.refresh_data()
        self.show_message(f"{what}: done")

    def _selected_host(self) -> Host | None:
        return find_row_host(self.data, self._selected()) if self.data else None

    def _selected(self) -> str:
        """The key of the row under the cursor of the table that has the focus."""
        table = self._table("nodes") if self._table("nodes").has_focus else self._table("jobs")
        if not table.row_count:
            return ""
        return str(table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value)

    def _fill(self, name: str, rows: Rows) -> None:
        """Replace the rows of a table; the cursor stays on its object."""
        table = self._table(name)
        before = ""
        if table.row_count:
            before = str(table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value)
        table.clear()
        for key, cells in rows:
            # Text, because a cell with brackets would be read as markup.
            table.add_row(*(Text(cell) for cell in cells), key=key)
        position = next((index for index, (key, _) in enumerate(rows) if key == before), 0)
        table.move_cursor(row=position)

    def _table(self, name: str) -> "DataTable[Text]":
        return self.query_one(f"#{name}", DataTable)
