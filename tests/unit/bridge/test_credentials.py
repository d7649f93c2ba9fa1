# SPDX-License-Identifier: Apache-2.0
"""Tokens and TLS files are read again when they change."""

import asyncio
import os
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slinky.bridge.config import BridgeSettings, ConfigError
from slinky.bridge.credentials import tls_files, token_source
from slinky.kube.certificates import CertificatePair, create_authority, create_serving_pair
from slinky.kube.tls import TlsFiles, load_pair

NOW = datetime.now(UTC)


def write(path: Path, text: str) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    os.replace(fresh, path)  # noqa: PTH105


async def shakes_hands(files: TlsFiles, signer: CertificatePair) -> bool:
    """Whether a server with a certificate of that authority is believed."""
    pair = create_serving_pair(signer, ("localhost",), NOW)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(server, pair.certificate.encode(), pair.key.encode())
    listener = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=server)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=files.get(), server_hostname="localhost")
        except ssl.SSLError:
            return False
        writer.close()
        return True


async def test_exactly_the_authorities_of_the_file_are_trusted_without_a_restart(tmp_path: Path) -> None:
    first, second = create_authority(NOW), create_authority(NOW)
    write(tmp_path / "ca.crt", first.certificate)
    files = tls_files(str(tmp_path))
    for text, trusted in (
        (first.certificate, [True, False]),
        ("half a file", [True, False]),
        (first.certificate + second.certificate, [True, True]),
        (second.certificate, [False, True]),
        (None, [False, True]),  # a file that disappears does not make the authorities of the system trusted
    ):
        if text is None:
            (tmp_path / "ca.crt").unlink()
        else:
            write(tmp_path / "ca.crt", text)
        assert [await shakes_hands(files, authority) for authority in (first, second)] == trusted


def test_an_invalid_tls_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("not a certificate")
    with pytest.raises(ConfigError, match=f"tlsFolder {tmp_path}"):
        tls_files(str(tmp_path))


def test_the_error_about_a_missing_token_names_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JWT_FILE", raising=False)
    with pytest.raises(ConfigError, match="tokenFile, jwtKeyFile"):
        token_source(BridgeSettings())
