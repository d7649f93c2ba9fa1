# SPDX-License-Identifier: Apache-2.0
"""Standard input of a shell in a pod."""

import asyncio
import os
import tty

from slinky.cli.pods.terminal import _feed


async def test_a_terminal_is_read_only_when_it_has_input() -> None:
    """A read without input would block the event loop, and with it the output of the shell."""
    controlling, terminal = os.openpty()
    tty.setraw(terminal)
    sent: asyncio.Queue[bytes] = asyncio.Queue()
    feeding = asyncio.create_task(_feed(terminal, sent))
    try:
        for text in (b"ls\n", b"exit\n"):
            await asyncio.sleep(0)
            os.write(controlling, text)
            assert await sent.get() == text
            for _ in range(10):
                await asyncio.sleep(0)
    finally:
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
        os.close(terminal)
        os.close(controlling)
