# SPDX-License-Identifier: Apache-2.0
"""The process around a program: event loop, signals, loop-lag probe, stall watchdog, HTTP endpoint.

`run_process` uses uvloop if it is installed, turns SIGTERM and SIGINT into one cancellation of `main`, and runs the
loop-lag probe and the HTTP endpoint beside it. `main` can finish its own clean-up after the cancellation.
"""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from slinky.observe.errors import ExplainedError, RestartRequired
from slinky.observe.health import Health, LoopLag
from slinky.observe.log import Log
from slinky.observe.watchdog import StallWatchdog

log = Log("slinky.observe.process")

Main = Callable[[Health], Awaitable[None]]
#: Creates a further server that serves while its context is open, such as /metrics over TLS.
ServerFactory = Callable[[Health], contextlib.AbstractAsyncContextManager[object]]
Address = tuple[str, int]

DEFAULT_ADDRESS: Address = ("0.0.0.0", 8080)  # noqa: S104 -- the kubelet and Prometheus come from outside the pod


def parse_address(text: str) -> Address:
    """Read HOST:PORT or :PORT; without a host every interface is meant. Raises `ValueError`."""
    host, colon, port = text.rpartition(":")
    if not (colon and port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= 65535):
        raise ValueError(f"{text!r} is not HOST:PORT or :PORT")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 -- the kubelet and Prometheus connect from outside


def run_process(
    main: Main, addresses: Iterable[Address] = (DEFAULT_ADDRESS,), servers: Iterable[ServerFactory] = ()
) -> int:
    """Run `main` until it returns or a signal arrives. Returns the exit code of the process.

    The HTTP endpoint listens at each of the addresses, because some sites use different ports for metrics and probes.
    """
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_supervised(main, tuple(dict.fromkeys(addresses)), tuple(servers)))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The event loop of uvloop if it is installed, otherwise that of asyncio."""
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _supervised(main: Main, addresses: Iterable[Address], servers: Iterable[ServerFactory]) -> int:
    # aiohttp's server costs a command that only calls others a twentieth of a second.
    from slinky.observe.endpoint import serve_endpoint  # noqa: PLC0415

    health, lag, code = Health(), LoopLag(), 1
    health.add_liveness_check("event-loop", lag.check)
    try:
        async with contextlib.AsyncExitStack() as stack:
            for host, port in addresses:
                await stack.enter_async_context(serve_endpoint(health, host=host, port=port))
            for server in servers:
                await stack.enter_async_context(server(health))
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            probe = tasks.create_task(lag.run())
            stack.enter_context(StallWatchdog(lambda: lag.last_run, threading.get_ident()).running())
            code = await until_signal(_awaited(main(health)))
            probe.cancel()
    except* RestartRequired as restarts:
        log.info("exiting for a restart", why=str(_first(restarts)))
        code = 0
    except* ExplainedError as errors:
        log.error("exiting because of an error", why=str(_first(errors)))
        code = 1
    except* Exception as errors:
        log.error("exiting because of an unexpected error", error=errors)
        code = 1
    return code


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _awaited(work: Awaitable[None]) -> None:
    await work


async def until_signal(work: Coroutine[Any, Any, None]) -> int:
    """Run `work` to its end; SIGTERM or SIGINT cancels it once and waits for its clean-up. Returns 0."""
    loop, task, signalled = asyncio.get_running_loop(), asyncio.ensure_future(work), False

    def stop(number: int) -> None:
        nonlocal signalled
        signalled = True
        log.info("stopping", signal=signal.Signals(number).name)
        task.cancel()

    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, stop, number)
    try:
        await task
    except asyncio.CancelledError:
        if not signalled:
            raise
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
        task.cancel()
    return 0
