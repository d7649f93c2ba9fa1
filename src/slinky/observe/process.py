# SPDX-License-Identifier: Apache-2.0
"""Being a well-behaved process: loop, signals, probe, endpoint.

`run` starts uvloop where it exists, turns SIGTERM and SIGINT into one cancellation, keeps the loop-lag probe
and the HTTP side door running, and lets `main` finish its own clean-up. It does not know what `main` does.
"""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from slinky.observe.endpoint import serve_endpoint
from slinky.observe.health import Health, LoopLag
from slinky.observe.log import Log

log = Log("slinky.observe.process")

Main = Callable[[Health], Awaitable[None]]
#: Something that serves while it is entered, such as a guarded side door.
ServerFactory = Callable[[Health], contextlib.AbstractAsyncContextManager[object]]
Address = tuple[str, int]

DEFAULT_ADDRESS: Address = ("0.0.0.0", 8080)  # noqa: S104 -- the kubelet and Prometheus come from outside the pod


class RestartRequired(Exception):  # noqa: N818 -- a wish, not a failure
    """What a process looks at only when it starts has changed: it ends, and whoever keeps it running starts it."""


class ExplainedError(Exception):
    """An error whose sentence tells a person all there is to know: it ends a process without a trace in the log."""


def run_process(
    main: Main, addresses: Iterable[Address] = (DEFAULT_ADDRESS,), servers: Iterable[ServerFactory] = ()
) -> int:
    """Run `main` until it returns or a signal asks to stop; the exit code of the process.

    The side door answers at each of the addresses; two of them suit sites that scrape and probe different ports.
    Further servers are opened beside it.
    """
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_supervised(main, tuple(dict.fromkeys(addresses)), tuple(servers)))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The loop of uvloop where installed, else of asyncio."""
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _supervised(main: Main, addresses: Iterable[Address], servers: Iterable[ServerFactory]) -> int:
    health, lag, code = Health(), LoopLag(), 1
    health.add_liveness_check("event-loop", lag.check)
    try:
        async with contextlib.AsyncExitStack() as stack:
            for host, port in addresses:
                await stack.enter_async_context(serve_endpoint(health, host=host, port=port))
            for door in servers:
                await stack.enter_async_context(door(health))
            family = await stack.enter_async_context(asyncio.TaskGroup())
            probe = family.create_task(lag.run())
            code = await until_signal(_awaited(main(health)))
            probe.cancel()
    except* RestartRequired as wishes:
        log.info("ending, to start anew", why=str(_first(wishes)))
        code = 0
    except* ExplainedError as errors:
        log.error("stopped", why=str(_first(errors)))
        code = 1
    except* Exception as errors:
        log.error("stopped by an error", error=errors)
        code = 1
    return code


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _awaited(work: Awaitable[None]) -> None:
    await work


async def until_signal(work: Coroutine[Any, Any, None]) -> int:
    """Run `work`; a signal cancels it once and waits for its clean-up."""
    loop, task, asked = asyncio.get_running_loop(), asyncio.ensure_future(work), False

    def stop(number: int) -> None:
        nonlocal asked
        asked = True
        log.info("stopping", signal=signal.Signals(number).name)
        task.cancel()

    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, stop, number)
    try:
        await task
    except asyncio.CancelledError:
        if not asked:
            raise
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
        task.cancel()
    return 0
