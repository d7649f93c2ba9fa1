# SPDX-License-Identifier: Apache-2.0
"""TLS contexts that are reloaded when their files change.

A change is detected by inode, size and modification time, so an atomic rename, an update of a Kubernetes volume and an
overwrite are all detected. A certificate and key that do not match (in the middle of a rotation) are logged, and the
old pair stays in use.
"""

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from slinky.kube.certificates import CA_CERTIFICATE, CERTIFICATE, PRIVATE_KEY
from slinky.observe import Clock, Log, SystemClock

log = Log("slinky.kube.tls")

V = TypeVar("V")
#: Seconds between two looks at the files of a client.
RELOAD_SECONDS = 30.0
FileIdentities = tuple[tuple[int, int, int], ...]


def file_identities(*paths: Path) -> FileIdentities:
    """Inode, size and modification time of each file; zeros for a missing file."""
    return tuple(_identity(path) for path in paths)


def _identity(path: Path) -> tuple[int, int, int]:
    try:
        stat = path.stat()
    except OSError:
        return (0, 0, 0)
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns)


class ReloadedOnChange(Generic[V]):
    """A value that is built from files and built again when they change; a failed rebuild keeps the old value."""

    def __init__(self, build: Callable[[], V], *paths: Path) -> None:
        self._build = build
        self._paths = paths
        self._identities = file_identities(*paths)
        self._value = build()

    def get(self) -> V:
        """The current value."""
        identities = file_identities(*self._paths) if self._paths else self._identities
        if identities != self._identities:
            self._reload(identities)
        return self._value

    def _reload(self, identities: FileIdentities) -> None:
        try:
            self._value = self._build()
        except (OSError, ssl.SSLError, ValueError) as error:
            log.warning(
                "changed TLS files cannot be loaded; the old ones stay in use",
                files=[*map(str, self._paths)],
                error=error,
            )
        else:
            # Only a success is remembered: the next call tries again even if the files do not change any more.
            self._identities = identities
            log.info("TLS files reloaded", files=[*map(str, self._paths)])


@dataclass(frozen=True)
class Pem:
    """PEM text, either in a file or inside a kubeconfig."""

    path: Path | None = None
    data: bytes | None = None

    def __bool__(self) -> bool:
        return bool(self.path or self.data)

    def read(self) -> bytes:
        """The PEM text; empty if there is none."""
        if self.data is not None:
            return self.data
        return self.path.read_bytes() if self.path else b""


NO_PEM = Pem()


def client_context(ca: Pem, certificate: Pem, key: Pem, *, insecure: bool = False) -> ReloadedOnChange[ssl.SSLContext]:
    """The TLS context of a client: the trusted authority and the client certificate."""

    def build() -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=ca.read().decode() if ca else None)
        # Python 3.13 requires the form of RFC 5280 by default, which the authorities of many clusters do not have (no
        # key identifiers). The chain, signature, name and dates are still verified.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate:
            load_pair(context, certificate.read(), key.read())
        return context

    return ReloadedOnChange(build, *(pem.path for pem in (ca, certificate, key) if pem.path))


class TlsTrust:
    """The TLS context of a client: trusted authorities and, for client authentication, a certificate with its key.

    A folder has the optional files ca.crt, tls.crt and tls.key. With authorities only these are trusted, without them
    those of the system. A new authority is added to those
    that are trusted already, so that servers and clients need not change at the same time.
    """

    def __init__(self, authority: Path, certificate: Path | None = None, key: Path | None = None) -> None:
        """Raises `OSError`, `ssl.SSLError` or `ValueError` if the files cannot be used."""
        self.context = ssl.create_default_context(cadata=authority.read_text() if authority.exists() else None)

        def load() -> None:
            if authority.exists():
                self.context.load_verify_locations(cadata=authority.read_text())
            if certificate and key and certificate.exists():
                load_pair(self.context, certificate.read_bytes(), key.read_bytes())

        self._files = ReloadedOnChange(load, *(path for path in (authority, certificate, key) if path))

    @classmethod
    def of_folder(cls, folder: Path) -> "TlsTrust":
        """Trust the files of a folder."""
        return cls(*(folder / name for name in (CA_CERTIFICATE, CERTIFICATE, PRIVATE_KEY)))

    async def run(self, clock: Clock | None = None) -> None:
        """Reload changed files until cancelled."""
        clock = clock or SystemClock()
        while True:
            await clock.sleep(RELOAD_SECONDS)
            self._files.get()


def server_context(certificate: Path, key: Path) -> tuple[ssl.SSLContext, Callable[[], None]]:
    """The TLS context of a server, and a function that reloads the certificate if its files have changed."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2

    def load() -> None:
        # A pair that does not match would leave the context in use half changed, so it is tried on another one first.
        pair = certificate.read_bytes(), key.read_bytes()
        load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), *pair)
        load_pair(context, *pair)

    loaded = ReloadedOnChange(load, certificate, key)
    return context, loaded.get


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a certificate and its key from memory; the `ssl` module accepts only files, so a memory file is used."""
    with os.fdopen(os.memfd_create("pair"), "wb") as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
