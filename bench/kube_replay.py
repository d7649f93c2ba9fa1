# SPDX-License-Identifier: Apache-2.0
"""Replays real watch events at an exact rate: `python -m bench.kube_replay RECORDING FOLDER RATE`.

On a small machine the API server cannot write a thousand pods a second beside the program that is measured.
So real events are recorded from it once and sent again, one TLS record each, with growing versions, by this
stand-in; the program under test cannot tell the difference.
"""

import asyncio
import contextlib
import itertools
import re
import ssl
import sys
import time
from pathlib import Path

import yaml
from tests.unit.kube.pki import self_signed

from slinky.kube import PODS, KubeClient
from slinky.kube.line_splitter import LineSplitter

END = (
    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"999999",'
    b'"annotations":{"k8s.io/initial-events-end":"true"}}}}'
)
VERSION = re.compile(rb'("resourceVersion":")\d+(")')


async def record(client: KubeClient, namespace: str, count: int) -> bytes:
    """The first `count` objects of a watch, one event a line."""
    found: list[bytes] = []
    lines = LineSplitter()
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    async with client.open_watch(PODS, query, namespace=namespace) as stream:
        async for chunk in stream.chunks():
            found += [line for line in lines.feed(chunk) if b'"ADDED"' in line[:20]]
            if len(found) >= count:
                break
    return b"\n".join(found[:count])


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, events: list[bytes], rate: float) -> None:
    with contextlib.suppress(OSError):  # the other side leaves when it has seen enough
        await reader.readuntil(b"\r\n\r\n")
        await play(writer, events, rate)


async def play(writer: asyncio.StreamWriter, events: list[bytes], rate: float) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    for line in (*events, END):
        send(writer, line)
    await writer.drain()
    began = time.monotonic()
    for number in itertools.count():
        if (early := began + number / rate - time.monotonic()) > 0:
            await asyncio.sleep(early)
        line = events[number % len(events)].replace(b'"ADDED"', b'"MODIFIED"', 1)
        send(writer, VERSION.sub(rb"\g<1>%d\g<2>" % (1_000_000 + number), line, count=1))
        await writer.drain()


def send(writer: asyncio.StreamWriter, line: bytes) -> None:
    writer.write(b"%x\r\n%s\n\r\n" % (len(line) + 1, line))


def prepare(folder: str, recording: str) -> tuple[ssl.SSLContext, list[bytes]]:
    home = Path(folder)
    for name, text in zip(("crt", "key"), self_signed("replay"), strict=True):
        (home / name).write_bytes(text)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(home / "crt", home / "key")
    return context, Path(recording).read_bytes().split(b"\n")


def write_kubeconfig(folder: str, port: int) -> None:
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": "crt"}
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x"}}],
        "clusters": [{"name": "x", "cluster": cluster}],
    }
    (Path(folder) / "kubeconfig").write_text(yaml.safe_dump(config))


async def main(recording: str, folder: str, rate: str) -> None:
    context, events = prepare(folder, recording)
    server = await asyncio.start_server(
        lambda reader, writer: answer(reader, writer, events, float(rate)), "127.0.0.1", 0, ssl=context
    )
    write_kubeconfig(folder, server.sockets[0].getsockname()[1])
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
