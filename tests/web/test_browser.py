# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser: both themes, narrow screens, keyboard, live updates, and no complaint of axe-core.

The cluster is the one of `bench.people`: 10,000 pending and 4,000 running jobs on 5,000 nodes, with hostile names among
them. With `SLINKY_SCREENSHOTS=docs/tools/images` the screenshots of the documentation are written again.
"""

import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from bench.forecast import cluster
from bench.people import node_sets
from msgspec import structs
from tests.support.waiting import eventually
from tests.unit.web.sample_pages import HOSTILE, pods_comment
from tests.web.browser import Tab, browser, open_tab

from slinky.insight.forecast import forecast
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.lab.prepare.inventory import ArtifactInventory
from slinky.lab.progress import Progress
from slinky.observe import SystemClock
from slinky.slurm import Mirror, Share, SlurmClient, Tres, number
from slinky.slurm.model.accounts import Association, AssociationMax, AssociationTres
from slinky.slurm.model.qos import ActiveJobs, Qos, QosLimits, QosMax, QosTres
from slinky.web.cluster_feed import ClusterFeed
from slinky.web.login import LoginRules
from slinky.web.page_data import PageData
from slinky.web.server import PageServer, serve_page
from slinky.web.settings import WebSettings

PAGES = ("/", "/queue", "/queue?state=pending&partition=cpu&page=2", "/jobs/3", "/jobs/1000005", "/nodes",
         "/nodes?state=drained", "/nodes/n00001", "/nodesets", "/accounts", "/whatif",
         "/whatif?drain=n00001", "/nothing")  # fmt: skip
SCREENSHOTS = {"overview": "/", "queue": "/queue?state=pending", "job": "/jobs/3", "nodes": "/nodes",
               "nodesets": "/nodesets", "accounts": "/accounts"}  # fmt: skip
SCRIPT_RAN = "window.hostileScriptRan === true"


class Site(NamedTuple):
    """A browser tab, the address of the page, and the feed behind it."""

    tab: Tab
    address: str
    feed: ClusterFeed
    axe: str


@cache
def large_cluster() -> PageData:
    snapshot = _decorated(cluster(seed=1))
    return PageData(
        snapshot=snapshot, whole=snapshot, ranges=forecast(snapshot), node_sets=node_sets(), cluster="hpc", serial=1
    )


def _decorated(snapshot: QueueSnapshot) -> QueueSnapshot:
    """The cluster with switches, drained and busy nodes, names, and one job with hostile texts."""
    busy = {job.nodes for job in snapshot.running}
    drain = {"words": ("IDLE", "DRAIN"), "reason": "fan 3 failed", "reason_set_by_user": "root"}
    hosts = [
        structs.replace(
            host,
            topology=f"leaf{index // 40:03}",
            **(
                drain
                if index % 97 == 5
                else {"words": ("MIXED",), "alloc_cpus": 32, "gres_used": "gpu:h100:4"}
                if host.name in busy
                else {}
            ),
        )
        for index, host in enumerate(snapshot.hosts)
    ]
    names = ("train", "evaluate", "prepare", "render")
    jobs = [
        structs.replace(
            job,
            name=names[job.job_id % 4],
            account="physics" if job.job_id % 3 else "biology",
            qos="normal",
            tres_alloc_str=job.tres_req_str if job.state.running else "",
            submit_time=number(snapshot.now - 7200),
            eligible_time=number(snapshot.now - 7200),
            admin_comment=pods_comment(*(f"default/train-{job.job_id}-{rank}" for rank in range(4)))
            if job.state.running and job.job_id % 5 == 0
            else "",
        )
        for job in snapshot.jobs
    ]
    hostile = HOSTILE.replace("alert(1)", "window.hostileScriptRan = true")
    jobs[0] = structs.replace(
        jobs[0], name=hostile, comment="<img src=x onerror='window.hostileScriptRan=true'>" * 9999
    )
    return replace(snapshot, jobs=tuple(jobs), hosts=tuple(hosts), **_accounts())


def _accounts() -> dict[str, Any]:
    """Limits that are nearly reached, reached and free, and fair shares of accounts and users."""
    limits = QosLimits(max=QosMax(ActiveJobs(count=number(4200)), tres=QosTres(total=(Tres("gres", "gpu", count=64),))))
    accounts = {"physics": 20_000, "biology": 100}
    return {
        "qos": (Qos("normal", limits=limits),),
        "associations": tuple(
            Association(name, max=AssociationMax(tres=AssociationTres(total=(Tres("cpu", count=cpus),))))
            for name, cpus in accounts.items()
        ),
        "shares": tuple(
            Share(name=f"user{index}" if index else name, parent=name, type=("USER",) if index else (),
                  shares_normalized=number(0.02), effective_usage=number(0.01 * index))
            for name in accounts
            for index in range(30)
        ),
    }  # fmt: skip


@pytest.fixture(scope="session")
def browser_folder() -> Path:
    """Chromium and axe-core, which are prepared once."""
    store = ArtifactInventory.of("1.36").store
    return store.ensure(browser(store), Progress())


@pytest.fixture(scope="session")
async def site(browser_folder: Path) -> AsyncIterator[Site]:
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(SlurmClient("http://127.0.0.1:9", "token"))
        feed = ClusterFeed(client, Mirror(client), SystemClock())
        feed.data = large_cluster()
        server = PageServer(feed, LoginRules.of(WebSettings(insecure_loopback=True)))
        port = await stack.enter_async_context(serve_page(server, "127.0.0.1", 0))
        tab = await stack.enter_async_context(open_tab(browser_folder))
        yield Site(tab, f"http://127.0.0.1:{port}", feed, (browser_folder / "axe.js").read_text())


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("address", PAGES)
async def test_axe_finds_nothing_in_either_theme(site: Site, address: str, theme: str) -> None:
    tab = site.tab
    await tab.use(theme)
    await tab.open(site.address + address)
    await tab.evaluate(site.axe + "; 0")
    found = await tab.evaluate(
        "axe.run().then(result => result.violations.map(v => v.id + ': ' + v.nodes.slice(0, 3).map(n => n.html)))"
    )
    assert found == []


@pytest.mark.parametrize("address", PAGES)
async def test_a_narrow_screen_scrolls_only_tables(site: Site, address: str) -> None:
    await site.tab.use("light", width=360, height=800)
    await site.tab.open(site.address + address)
    assert await site.tab.evaluate("document.documentElement.scrollWidth") <= 360


async def test_hostile_names_run_nothing(site: Site) -> None:
    await site.tab.use("light")
    for address in ("/queue?state=running&name=script", "/jobs/1000000"):
        await site.tab.open(site.address + address)
        assert "hostileScriptRan" in await site.tab.evaluate("document.body.innerText")
        assert not await site.tab.evaluate(SCRIPT_RAN)


async def test_an_open_page_updates_itself_and_can_be_paused(site: Site) -> None:
    tab, data = site.tab, large_cluster()
    await tab.use("light")
    await tab.open(f"{site.address}/jobs/3")
    changed = [structs.replace(job, job_state=("RUNNING",)) if job.job_id == 3 else job for job in data.whole.jobs]
    snapshot = replace(data.whole, jobs=tuple(changed))
    serials = iter(range(2, 10_000))

    async def is_shown(fields: PageData, text: str) -> bool:
        await site.feed.offer(replace(fields, serial=next(serials)))
        return text in await tab.evaluate("document.getElementById('live').innerText")

    moved = replace(data, snapshot=snapshot, whole=snapshot)
    await tab.evaluate("document.querySelector('main').focus()")
    await eventually(lambda: is_shown(moved, "is running"), "the running job")
    await tab.evaluate("document.getElementById('live-pause').click()")
    assert await tab.evaluate("document.getElementById('live-status').textContent") == "Updates are paused."
    assert not await is_shown(data, "is pending")
    await tab.evaluate("document.getElementById('live-pause').click()")
    await eventually(lambda: is_shown(data, "is pending"), "the live page")


async def test_the_keyboard_reaches_the_content_and_the_filters(site: Site) -> None:
    tab = site.tab
    await tab.use("light")
    await tab.open(f"{site.address}/queue")
    await tab.press("Tab", 9)
    assert await tab.evaluate("document.activeElement.textContent") == "Skip to content"
    await tab.press("Enter", 13)
    await eventually(lambda: is_focused(tab, "main"), "the content in focus")
    await tab.press("Tab", 9)
    assert await tab.evaluate("document.activeElement.id") == "state"


async def is_focused(tab: Tab, element: str) -> bool:
    return bool(await tab.evaluate(f"document.activeElement.id === '{element}'"))


async def test_the_content_security_policy_and_the_scripts_report_nothing(site: Site) -> None:
    # The page that does not exist is reported as an error of the network.
    assert [text for text in site.tab.complaints if "404" not in text] == []


@pytest.fixture
def screenshots(tmp_path: Path) -> Path:
    """The folder of the documentation's screenshots if asked for."""
    folder = Path(os.environ.get("SLINKY_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


async def test_screenshots_show_every_page(site: Site, screenshots: Path) -> None:
    for theme in ("light", "dark"):
        await site.tab.use(theme)
        for name, address in SCREENSHOTS.items():
            await site.tab.open(site.address + address)
            assert await site.tab.screenshot(screenshots / f"page-{name}-{theme}.png") > 10_000
