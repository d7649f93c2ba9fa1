# SPDX-License-Identifier: Apache-2.0
"""Builds slurmdbd.conf from a typed model. The text contains the database password: never log it."""

from collections.abc import Iterator

from slinky.slurm.conf.slurm import Options, merged_lines
from slinky.slurm.conf.text import ConfError, Line, build_line, checked_name, checked_value, parse, render
from slinky.slurm.model.values import Value

MERGED_DBD_SETTINGS = ("AuthInfo", "AuthAltParameters")


class SlurmdbdConf(Value, frozen=True, gc=False):
    """The settings of slurmdbd.conf that a program decides."""

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
    #: The administrator's own text.
    extra: str = ""

    def __repr__(self) -> str:
        return f"SlurmdbdConf(host={self.host!r}, storage_host={self.storage_host!r})"

    def render(self) -> str:
        """The text of the file. Raises `ConfError` for an invalid value."""
        return render(self._lines())

    def _lines(self) -> Iterator[Line | str]:
        settings = dict(self._settings())
        yield "GENERAL"
        yield from (build_line((key, value)) for key, value in settings.items() if value is not None)
        extra = parse(self.extra)
        yield "EXTRA CONFIG"
        yield from extra
        yield "MERGED CONFIG"
        yield from merged_lines(settings, extra, MERGED_DBD_SETTINGS)

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
        yield "StoragePass", _checked_password(self.storage_password)
        yield "LogFile", self.log_file
        yield "PidFile", self.pid_file


def _checked_password(text: str) -> str:
    """The password. The error does not contain it, since errors are written to conditions, events and logs."""
    try:
        return checked_value(text)
    except ConfError:
        raise ConfError(
            "the database password is empty or not valid in slurmdbd.conf: it must not contain a double quote or"
            " a control character, nor begin or end with a blank"
        ) from None
