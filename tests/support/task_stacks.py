# SPDX-License-Identifier: Apache-2.0
"""Where asyncio tasks are suspended. The stack of a thread shows only the event loop, so a hanging test needs this."""

import asyncio
import gc
from types import FrameType
from typing import Any


def task_stacks() -> str:
    """The stack of every unfinished task, the innermost call last."""
    tasks = [task for task in gc.get_objects() if isinstance(task, asyncio.Task) and not task.done()]
    return "\n\n".join(f"{task.get_name()}:\n" + "\n".join(await_chain(task.get_coro())) for task in tasks)


def await_chain(awaitable: Any) -> list[str]:
    """The lines at which a coroutine and the coroutines that it awaits are suspended."""
    lines = []
    while awaitable is not None:
        for prefix in ("cr", "gi", "ag"):
            frame: FrameType | None = getattr(awaitable, f"{prefix}_frame", None)
            if frame is not None:
                lines.append(f"  {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}")
                awaitable = getattr(awaitable, f"{prefix}_{'yieldfrom' if prefix == 'gi' else 'await'}")
                break
        else:
            break
    return lines
