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

from slinky.observe import Log

log = Log("slinky.kube.tls")

#: The keys of a Secret of the type kubernetes.io/tls, and of the authority that signed it.
CERTIFICATE, PRIVATE_KEY, CA_CERTIFICATE = "tls.crt", "tls.key", "ca.crt"

V = TypeVar("V")
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
        self._identities = self._attempted = file_identities(*paths)
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
            if identities != self._attempted:  # `get` is called for each request; each change is reported once
                files = [*map(str, self._paths)]
                log.warning("changed TLS files cannot be loaded; the old ones stay in use", files=files, error=error)
        else:
            # Only a success is remembered: the next call tries again even if the files do not change any more.
            self._identities = identities
            log.info("TLS files reloaded", files=[*map(str, self._paths)])
        self._attempted = identities


#: The TLS context of a client, built again when its files change.
TlsFiles = ReloadedOnChange[ssl.SSLContext]


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


def client_context(ca: Pem, certificate: Pem, key: Pem, *, insecure: bool = False) -> TlsFiles:
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


def trust_files(authority: Path, certificate: Path | None = None, key: Path | None = None) -> TlsFiles:
    """The TLS context of a client that trusts exactly the authorities in a file; without the file those of the system.

    The certificate and its key are for client authentication. A file of authorities that disappears later counts as
    unreadable: the former authorities stay trusted, not those of the system. Raises `OSError`, `ssl.SSLError` or
    `ValueError` if the files cannot be used.
    """
    has_authority = authority.exists()

    def build() -> ssl.SSLContext:
        trusted = authority.read_text() if has_authority or authority.exists() else None
        context = ssl.create_default_context(cadata=trusted)
        if certificate and key and certificate.exists():
            load_pair(context, certificate.read_bytes(), key.read_bytes())
        return context

    return ReloadedOnChange(build, *(path for path in (authority, certificate, key) if path))


def trust_folder(folder: Path) -> TlsFiles:
    """`trust_files` for a folder with the optional files ca.crt, tls.crt and tls.key."""
    return trust_files(*(folder / name for name in (CA_CERTIFICATE, CERTIFICATE, PRIVATE_KEY)))


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
