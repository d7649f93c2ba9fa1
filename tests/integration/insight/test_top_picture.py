# SPDX-License-Identifier: Apache-2.0
"""`slinky top` with a full queue of a real Slurm, as a picture.

With `SLINKY_SCREENSHOTS=docs/tools/images` the picture of the documentation is written again.
"""

import os
import re
from pathlib import Path

from tests.integration.insight.conftest import PendingQueue
from tests.support.waiting import eventually
from textual.widgets import DataTable

from slinky.cli.access.connection import ConnectedCluster
from slinky.cli.live.top_app import TopApp
from slinky.cli.live.top_screens import ExplanationScreen
from slinky.cli.live.top_source import TopSource
from slinky.slurm import SlurmClient

#: Textual names a font of another host; a picture of the documentation loads nothing.
_OTHER_HOSTS = re.compile(r"@font-face \{.*?\}|<!--.*?-->", re.DOTALL)


async def test_top_shows_the_queue_and_explains_a_job(pending_queue: PendingQueue, tmp_path: Path) -> None:
    folder = Path(os.environ.get("SLINKY_SCREENSHOTS") or tmp_path)
    slurm = pending_queue.slurm
    async with SlurmClient(slurm.url, slurm.token()) as client:
        app = TopApp(TopSource(ConnectedCluster(client, "lab")), 5.0)
        async with app.run_test(size=(150, 44)) as pilot:
            jobs = app.query_one("#jobs", DataTable)
            await eventually(lambda: jobs.row_count >= len(pending_queue.jobs), "the jobs in the table")
            jobs.focus()
            jobs.move_cursor(row=jobs.get_row_index(f"job/{pending_queue.jobs['Resources']}"))
            await pilot.pause()
            picture = save(app, folder / "top.svg")
            assert "(Resources)" in picture
            assert "drain" in picture
            await pilot.press("e")
            await eventually(lambda: isinstance(app.screen, ExplanationScreen), "the explanation")
            await pilot.pause()
            assert "k007" in save(app, folder / "top-explain.svg")


def save(app: TopApp, file: Path) -> str:
    """Write what the terminal shows; the same picture for the same text."""
    picture = _OTHER_HOSTS.sub("", app.export_screenshot(title="slinky top"))
    picture = re.sub(r"terminal-\d+", "terminal", picture)
    file.write_text(re.sub(r"[ \t]+$", "", picture, flags=re.MULTILINE))
    return picture.replace("&#160;", " ")
