# SPDX-License-Identifier: Apache-2.0
"""slurmdbd.conf from a typed model. The text holds the database password: it belongs into a Secret, never a
log.
"""

from __future__ import annotations

from collections.abc import Iterator

from slinky.slurm.conf.slurm import Options, merge_options
from slinky.slurm.conf.text import ConfError, Line, build_line, checked_name, checked_value, parse, render
from slinky.slurm.model.values import Value

MERGED = ("AuthInfo", "AuthAltParameters")


class SlurmdbdConf(Value, frozen=True, gc=False):
    """What a program decides about slurmdbd.conf."""

    host: str
    storage_host: str
    storage_user: str
    storage_password: str
    storage_port: int = 3306
    storage_database: str = "slurm_acct_db"
    address: str | None = None
    port: int = 6819
    slurm_user: str = "slurm"
    auth_type: str = "auth/slurm"
    auth_alt_types: str | None = "auth/jwt"
    auth_alt_parameters: Options = ()
    auth_info: Options = ("use_client_ids",)
    log_file: str | None = None
    pid_file: str | None = None
    #: A site's own text, kept as lines.
    extra: str = ""

    def __repr__(self) -> str:
        return f"SlurmdbdConf(host={self.host!r}, storage_host={self.storage_host!r})"

    def text(self) -> str:
        """The file. Raises `ConfError` for a value that must not be in it."""
        return render(self._lines())

    def _lines(self) -> Iterator[Line | str]:
        ours = dict(self._settings())
        yield "GENERAL"
        yield from (build_line((key, text)) for key, text in ours.items() if text is not None)
        theirs = parse(self.extra)
        yield "EXTRA CONFIG"
        yield from theirs
        yield "MERGED CONFIG"
        for key in MERGED:
            said = [setting.value for item in theirs for setting in item if setting.is_(key)]
            if said:
                yield build_line((key, merge_options(str(ours.get(key) or ""), ",".join(said))))

    def _settings(self) -> Iterator[tuple[str, str | int | None]]:
        yield "DbdHost", checked_name(self.host)
        yield "DbdAddr", self.address and checked_name(self.address)
        yield "DbdPort", self.port
        yield "SlurmUser", checked_name(self.slurm_user)
        yield "AuthType", self.auth_type
        yield "AuthAltTypes", self.auth_alt_types
        yield "AuthAltParameters", ",".join(self.auth_alt_parameters) or None
        yield "AuthInfo", ",".join(self.auth_info) or None
        yield "StorageType", "accounting_storage/mysql"
        yield "StorageHost", checked_name(self.storage_host)
        yield "StoragePort", self.storage_port
        yield "StorageUser", checked_name(self.storage_user)
        yield "StorageLoc", checked_name(self.storage_database)
        yield "StoragePass", _password(self.storage_password)
        yield "LogFile", self.log_file
        yield "PidFile", self.pid_file


def _password(text: str) -> str:
    """What is wrong with a password is said without it: the words go into conditions, events and logs."""
    try:
        return checked_value(text)
    except ConfError:
        raise ConfError(
            "the database password is empty or cannot stand in slurmdbd.conf: it must have no double quote, no control"
            " character and no blank at its ends"
        ) from None
