# SPDX-License-Identifier: Apache-2.0
"""A running process can be inspected without stopping it."""

import asyncio
import threading

import aiohttp

from slinky.observe.profile import format_folded, sample_stacks, serve_profile


async def waits_for_rain(rain: asyncio.Event) -> None:
    await rain.wait()


async def test_the_stacks_of_all_tasks_are_listed() -> None:
    rain = asyncio.Event()
    async with asyncio.TaskGroup() as tasks, serve_profile("127.0.0.1", 0) as port, aiohttp.ClientSession() as web:
        tasks.create_task(waits_for_rain(rain), name="farmer")
        async with web.get(f"http://127.0.0.1:{port}/debug/stacks") as answer:
            text = await answer.text()
        rain.set()
    assert "farmer" in text
    assert "waits_for_rain" in text
    assert "Thread " in text


async def test_a_profile_shows_the_thread_of_the_loop() -> None:
    async with serve_profile("127.0.0.1", 0) as port, aiohttp.ClientSession() as web:
        async with web.get(f"http://127.0.0.1:{port}/debug/profile?seconds=0.05") as answer:
            lines = (await answer.text()).splitlines()
        async with web.get(f"http://127.0.0.1:{port}/debug/profile?seconds=soon") as answer:
            assert answer.status == 400
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == 5
    assert all("asyncio" in line for line in lines)


def test_stacks_are_counted_and_the_most_frequent_is_first() -> None:
    stacks = sample_stacks(threading.get_ident(), 3, sleep=lambda seconds: None)
    assert sum(stacks.values()) == 3
    (line,) = format_folded(stacks).splitlines()
    assert line.endswith(" 3")
    assert "test_stacks_are_counted" in line
    assert sample_stacks(-1, 3, sleep=lambda seconds: None).total() == 0
