# SPDX-License-Identifier: Apache-2.0
import asyncio
import socket
import subprocess
from pathlib import Path

import pytest

from slinky.slurm.mirror.doorbell import Doorbell, hook_script


async def test_a_datagram_calls_the_function() -> None:
    called = asyncio.Event()
    async with Doorbell(called.set) as doorbell:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"\x00anything", ("127.0.0.1", doorbell.port))
        async with asyncio.timeout(5):
            await called.wait()


async def test_a_unix_datagram_calls_the_function_and_the_socket_is_removed(tmp_path: Path) -> None:
    called = asyncio.Event()
    path = tmp_path / "bell"
    async with Doorbell(called.set, path=str(path)):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"x", str(path))
        async with asyncio.timeout(5):
            await called.wait()
    assert not path.exists()


async def test_the_hook_script_calls_the_function_and_never_fails(tmp_path: Path) -> None:
    called = asyncio.Event()
    async with Doorbell(called.set) as doorbell:
        script = tmp_path / "hook"
        script.write_text(hook_script("127.0.0.1", doorbell.port))
        run = await asyncio.to_thread(subprocess.run, ["bash", str(script)], check=False)
        assert run.returncode == 0
        async with asyncio.timeout(5):
            await called.wait()


@pytest.mark.parametrize(("host", "port"), [("a;b", 1), ("$(id)", 1), ("", 1), ("a b", 1), ("ok", 0), ("ok", 70000)])
def test_a_hook_script_accepts_only_an_address(host: str, port: int) -> None:
    with pytest.raises(ValueError, match="is not a"):
        hook_script(host, port)
