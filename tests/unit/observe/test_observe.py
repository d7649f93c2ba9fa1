# SPDX-License-Identifier: Apache-2.0
"""Laws of the clock, log, health checks, endpoint and process."""

import asyncio
import io
import logging
import os
import signal
import threading
from collections.abc import Iterator

import aiohttp
import msgspec
import pytest
from prometheus_client import CollectorRegistry, Gauge

from slinky.bounds import LOG_TEXT_MAX
from slinky.observe import (
    ExplainedError,
    Health,
    Log,
    LoopLag,
    ManualClock,
    RestartRequired,
    SystemClock,
    counter,
    log_context,
    redact,
    render_metrics,
    run_process,
    setup_logging,
    until_signal,
)
from slinky.observe.endpoint import serve_endpoint
from slinky.observe.health import LAG
from slinky.observe.metrics import PAGES
from slinky.observe.watchdog import STALLS, StallWatchdog

TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJyb290In0.c2lnbmF0dXJl"


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    setup_logging("json", "INFO", stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_line_is_json_with_its_fields_and_its_context(lines: io.StringIO) -> None:
    log = Log("test")
    with log_context(key="ns/a"):
        log.info("scaled", pods=3, ratio=0.5, done=True, where=None)
    log.debug("unseen")
    line = msgspec.json.decode(lines.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "test",
        "message": "scaled",
        "key": "ns/a",
        "pods": 3,
        "ratio": 0.5,
        "done": True,
        "where": None,
    }


def test_an_error_is_logged_with_its_traceback(lines: io.StringIO) -> None:
    try:
        raise ValueError(f"refused: Bearer {TOKEN}")
    except ValueError as error:
        Log("test").error("bug", error=error)
    line = msgspec.json.decode(lines.getvalue())
    assert "ValueError: refused" in line["trace"]
    assert TOKEN not in line["trace"]


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {TOKEN}",
        f"token {TOKEN} expired",
        "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIIrYSSNQ\n-----END EC PRIVATE KEY-----",
    ],
)
def test_secrets_are_redacted_by_their_form(text: str) -> None:
    clean = redact(text)
    assert TOKEN not in clean
    assert "MHcCAQEEIIrYSSNQ" not in clean
    assert "[hidden]" in clean


def test_a_long_text_is_cut_before_it_is_searched() -> None:
    assert len(redact("x" * 1_000_000)) < LOG_TEXT_MAX + 100
    assert redact("x" * LOG_TEXT_MAX) == "x" * LOG_TEXT_MAX
    assert TOKEN not in redact(f"{TOKEN} " + "eyJaaaaaaaa-" * 100_000)


def test_secrets_are_redacted_by_the_name_of_their_field(lines: io.StringIO) -> None:
    Log("test").info("login", token="abc", db_password="abc", user="root")
    assert "abc" not in lines.getvalue()
    assert "root" in lines.getvalue()


def test_the_human_format_is_readable() -> None:
    root = logging.getLogger()
    handlers, level, stream = root.handlers[:], root.level, io.StringIO()
    try:
        setup_logging("human", "INFO", stream)
        Log("test").info("scaled", pods=3)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    assert stream.getvalue().rstrip().endswith("INFO    scaled  pods=3")


async def test_a_manual_clock_advances_only_when_told_to() -> None:
    clock, woken = ManualClock(), []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((seconds, clock.monotonic()))

    async with asyncio.TaskGroup() as tasks:
        for seconds in (3.0, 1.0, 2.0):
            tasks.create_task(sleeper(seconds))
        await clock.advance(10.0)
    assert woken == [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]


async def test_a_cancelled_timer_does_not_run() -> None:
    clock, rung = ManualClock(), []
    clock.call_later(1.0, lambda: rung.append(1)).cancel()
    await clock.advance(2.0)
    assert rung == []


async def test_a_jump_of_the_wall_clock_does_not_lengthen_a_wait() -> None:
    clock = ManualClock()
    before = clock.now()
    clock.jump(-3600)
    assert (clock.now() - before).total_seconds() == -3600
    assert clock.monotonic() == 0.0


async def test_a_failed_check_reports_its_message() -> None:
    health, failures = Health(), ["waiting for pods"]
    health.add_liveness_check("loop", lambda: None)
    health.add_readiness_check("caches", lambda: failures[0] if failures else None)
    async with serve_endpoint(health, host="127.0.0.1", port=0) as port, aiohttp.ClientSession() as session:

        async def get(path: str) -> tuple[int, str]:
            async with session.get(f"http://127.0.0.1:{port}{path}") as answer:
                return answer.status, await answer.text()

        assert await get("/healthz") == (200, "ok\n")
        assert await get("/readyz") == (503, "caches: waiting for pods\n")
        failures.clear()
        assert await get("/readyz") == (200, "ok\n")
        status, text = await get("/metrics")
        assert status == 200
        assert "slinky_event_loop_lag_seconds_bucket" in text
        assert await get("/metrics/other") == (404, "there is no such page of metrics; the pages are:\n/metrics\n")
        PAGES["/metrics/other"] = further = CollectorRegistry()
        Gauge("slurm_other", "A metric of a further page.", registry=further).set(7)
        try:
            status, text = await get("/metrics/other")
        finally:
            del PAGES["/metrics/other"]
        assert status == 200
        assert "slurm_other 7.0" in text


async def test_a_stall_of_the_loop_is_measured() -> None:
    lag = LoopLag(SystemClock(), interval=0.001)
    task = asyncio.ensure_future(lag.run())
    await asyncio.sleep(0.01)
    total = LAG._sum.get()
    end = SystemClock().monotonic() + 0.05
    while SystemClock().monotonic() < end:
        pass
    await asyncio.sleep(0.01)
    task.cancel()
    assert lag.worst >= 0.045
    assert LAG._sum.get() > total


async def test_a_stall_is_counted_once_and_its_stack_is_logged(lines: io.StringIO) -> None:
    stalls, silences = STALLS._value.get(), iter([0.9, 1.0, 2.0, 0.1, 5.0])
    watchdog = StallWatchdog(lambda: 0.0, threading.get_ident(), lambda: next(silences))
    for _ in range(3):
        watchdog.check()
    assert STALLS._value.get() == stalls + 1
    line = msgspec.json.decode(lines.getvalue())
    assert line["seconds"] == 1.0
    assert "test_a_stall_is_counted_once" in line["stack"]
    watchdog.check()  # the loop ran again
    watchdog.check()
    assert STALLS._value.get() == stalls + 2


def test_every_process_watches_its_loop_from_a_thread() -> None:
    names: list[str] = []

    async def main(_: Health) -> None:
        names.extend(thread.name for thread in threading.enumerate())

    assert run_process(main, ()) == 0
    assert "stall-watchdog" in names
    assert "stall-watchdog" not in {thread.name for thread in threading.enumerate()}


def test_control_characters_cannot_forge_lines_on_a_terminal() -> None:
    stream, root = io.StringIO(), logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        setup_logging("human", "INFO", stream)
        Log("test").info("refused", pod="a\n12:00:00 ERROR forged\x1b[31m\u2028é")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    assert stream.getvalue().count("\n") == 1
    assert "\\n12:00:00 ERROR forged\\x1b[31m\\u2028é" in stream.getvalue()


async def test_a_loop_that_stands_still_fails_its_check() -> None:
    clock = ManualClock()
    lag = LoopLag(clock, stuck=60.0)
    assert lag.check() is None
    await clock.advance(61.0)
    assert lag.check() == "the event loop has not run for 61 s"


def test_counters_are_on_the_metrics_page() -> None:
    counter("slinky_test_total", "A test.", "kind").labels("a").inc(2)
    text, kind = render_metrics()
    assert b'slinky_test_total{kind="a"} 2.0' in text
    assert kind.startswith("text/plain")


def test_a_client_that_accepts_openmetrics_gets_it() -> None:
    text, kind = render_metrics(accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert text.endswith(b"# EOF\n")
    assert kind.startswith("application/openmetrics-text")


async def test_a_signal_cancels_the_work_and_waits_for_its_clean_up() -> None:
    steps = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            steps.append("cleaned up")

    asyncio.get_running_loop().call_later(0.01, os.kill, os.getpid(), signal.SIGTERM)
    assert await until_signal(work()) == 0
    assert steps == ["cleaned up"]


def test_a_required_restart_exits_with_zero_and_logs_the_reason(lines: io.StringIO) -> None:
    async def main(_: Health) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(require_restart())
            await asyncio.Event().wait()

    async def require_restart() -> None:
        raise RestartRequired("the API server has JobSet now")

    assert run_process(main, [("127.0.0.1", 0)]) == 0
    assert "the API server has JobSet now" in lines.getvalue()
    assert "Traceback" not in lines.getvalue()


@pytest.mark.parametrize(("error", "code"), [(None, 0), (ValueError("bug"), 1)])
def test_the_exit_code_tells_how_the_process_ended(error: Exception | None, code: int, lines: io.StringIO) -> None:
    async def main(_: Health) -> None:
        if error:
            raise error

    assert run_process(main, [("127.0.0.1", 0)]) == code
    assert ("bug" in lines.getvalue()) == bool(code)


def test_an_explained_error_ends_the_process_without_a_traceback(lines: io.StringIO) -> None:
    async def main(_: Health) -> None:
        raise ExplainedError("no kubeconfig; point KUBECONFIG at one")

    assert run_process(main, [("127.0.0.1", 0)]) == 1
    assert "no kubeconfig; point KUBECONFIG at one" in lines.getvalue()
    assert "Traceback" not in lines.getvalue()


async def test_a_failure_of_the_work_is_raised() -> None:
    async def work() -> None:
        raise ValueError("bug")

    with pytest.raises(ValueError, match="bug"):
        await until_signal(work())
