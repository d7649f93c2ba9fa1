# SPDX-License-Identifier: Apache-2.0
"""TLS contexts that follow their files as they rotate.

Files are noticed by identity (inode, size, mtime), so an atomic rename, a Kubernetes volume swap and an
overwrite all count. A pair that does not fit together (half-way through a rotation) is reported and the old
one stays in use.
"""

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from slinky.observe import Log

log = Log("slinky.kube.tls")

V = TypeVar("V")
FileIdentities = tuple[tuple[int, int, int], ...]


def file_identities(*paths: Path) -> FileIdentities:
    """Changes whenever one of the files does; a missing file has a stamp too."""
    return tuple(_identity(path) for path in paths)


def _identity(path: Path) -> tuple[int, int, int]:
    try:
        stat = path.stat()
    except OSError:
        return (0, 0, 0)
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns)


class ReloadedOnChange(Generic[V]):
    """A value made from files, made again when they change; the last good value survives a bad change."""

    def __init__(self, make: Callable[[], V], *paths: Path) -> None:
        self._make = make
        self._paths = paths
        self._stamp = file_identities(*paths)
        self._value = make()

    def get(self) -> V:
        """The current value."""
        now = file_identities(*self._paths) if self._paths else self._stamp
        if now != self._stamp:
            self._renew(now)
        return self._value

    def _renew(self, now: FileIdentities) -> None:
        try:
            self._value = self._make()
        except (OSError, ssl.SSLError, ValueError) as error:
            log.warning("files changed but do not work yet", files=[*map(str, self._paths)], error=error)
        else:
            # Only a success is remembered: the next look tries again, even if nothing changes any more.
            self._stamp = now
            log.info("files reloaded", files=[*map(str, self._paths)])


@dataclass(frozen=True)
class Pem:
    """PEM text that is in a file, or was written into a kubeconfig."""

    path: Path | None = None
    data: bytes | None = None

    def __bool__(self) -> bool:
        return bool(self.path or self.data)

    def read(self) -> bytes:
        """The text."""
        if self.data is not None:
            return self.data
        return self.path.read_bytes() if self.path else b""


NO_PEM = Pem()


def client_context(ca: Pem, certificate: Pem, key: Pem, *, insecure: bool = False) -> ReloadedOnChange[ssl.SSLContext]:
    """How we trust a server and prove ourselves to it."""

    def make() -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=ca.read().decode() if ca else None)
        # Python 3.13 made RFC 5280's form a condition, which the authorities of many clusters do not meet (no key
        # identifiers). Chain, signature, name and dates are checked all the same.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate:
            load_pair(context, certificate.read(), key.read())
        return context

    return ReloadedOnChange(make, *(pem.path for pem in (ca, certificate, key) if pem.path))


def server_context(certificate: Path, key: Path) -> tuple[ssl.SSLContext, Callable[[], None]]:
    """A context for a server, and what to call now and then so that a rotated pair is taken up."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2

    def load() -> None:
        # A pair that does not fit would leave the live context half changed: try it on a scratch one first.
        texts = certificate.read_bytes(), key.read_bytes()
        load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), *texts)
        load_pair(context, *texts)

    followed = ReloadedOnChange(load, certificate, key)
    return context, followed.get


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a certificate and its key from memory; OpenSSL's binding only takes files, so it gets one without a disk."""
    with os.fdopen(os.memfd_create("pair"), "wb") as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
