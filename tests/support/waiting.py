# SPDX-License-Identifier: Apache-2.0
"""How tests wait: a check is repeated until it is true, and a failure shows its last answer.

A check may return something false, raise `AssertionError`, or raise one of the errors in `PASSING`: each means "not
yet". The time limits only end tests that have failed already; no test asserts how long something takes.
"""

import asyncio
import inspect
import subprocess
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

from slinky.kube import NotFound
from slinky.lab.errors import LabError
from slinky.lab.machine.machine import pause_after
from slinky.slurm import SlurmError

T = TypeVar("T")

#: Errors that mean "not yet".
PASSING = (AssertionError, LabError, NotFound, SlurmError, subprocess.CalledProcessError)
#: Seconds after which a check counts as failed: generous, because machines are busy and no test is about time.
LIMIT = 240.0
#: Seconds between two observations.
PAUSE = 0.05
#: Seconds without a change after which something counts as quiescent.
QUIET = 1.5


@overload
async def eventually(check: Callable[[], Awaitable[T | None]], what: str, seconds: float = LIMIT) -> T: ...
@overload
async def eventually(check: Callable[[], bool], what: str, seconds: float = LIMIT) -> bool: ...
async def eventually(check: Callable[[], Any], what: str, seconds: float = LIMIT) -> Any:
    """The first true answer of a check, asynchronous or not, while the event loop runs on."""
    end = time.monotonic() + seconds
    last: object
    while True:
        begin = time.monotonic()
        try:
            last = answer = await _answer(check)
        except PASSING as error:
            last = error
        else:
            if answer:
                return answer
        if time.monotonic() >= end:
            raise AssertionError(f"{what} did not happen within {seconds:.0f} s; last answer: {last!r}")
        await asyncio.sleep(pause_after(begin))


def until(check: Callable[[], T | None], what: str, seconds: float = LIMIT) -> T:
    """The first true answer of a check, for tests without an event loop."""
    end = time.monotonic() + seconds
    last: object
    while True:
        begin = time.monotonic()
        try:
            last = answer = check()
        except PASSING as error:
            last = error
        else:
            if answer:
                return answer
        if time.monotonic() >= end:
            raise AssertionError(f"{what} did not happen within {seconds:.0f} s; last answer: {last!r}")
        time.sleep(pause_after(begin))


async def quiescent(observe: Callable[[], object], what: str, seconds: float = LIMIT) -> None:
    """Wait until an observation, such as a count of writes, has not changed for `QUIET` seconds."""
    end = time.monotonic() + seconds
    last, since = await _answer(observe), time.monotonic()
    while time.monotonic() - since < QUIET:
        if time.monotonic() >= end:
            raise AssertionError(f"{what} was not quiescent within {seconds:.0f} s; last: {last!r}")
        await asyncio.sleep(PAUSE)
        if (now := await _answer(observe)) != last:
            last, since = now, time.monotonic()


def until_quiescent(observe: Callable[[], object], what: str, seconds: float = LIMIT) -> None:
    """The same as `quiescent`, for tests without an event loop."""
    end = time.monotonic() + seconds
    last, since = observe(), time.monotonic()
    while time.monotonic() - since < QUIET:
        if time.monotonic() >= end:
            raise AssertionError(f"{what} was not quiescent within {seconds:.0f} s; last: {last!r}")
        time.sleep(PAUSE)
        if (now := observe()) != last:
            last, since = now, time.monotonic()


async def _answer(check: Callable[[], Any]) -> Any:
    answer = check()
    return await answer if inspect.isawaitable(answer) else answer
