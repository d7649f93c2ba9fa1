# SPDX-License-Identifier: Apache-2.0
"""The credentials for slurmrestd: the token and TLS. Both are read again when their files change."""

import math
import ssl
from pathlib import Path

from slinky.bridge.config import BridgeSettings, ConfigError
from slinky.kube.tls import ReloadedOnChange, load_pair
from slinky.observe import Clock, SystemClock
from slinky.slurm import TokenError, TokenSource, configured_tokens
from slinky.slurm.tokens import read_claims

RELOAD_SECONDS = 30.0


def token_source(settings: BridgeSettings) -> TokenSource:
    """The source of tokens: signed with a key, or read from a file. Raises `ConfigError`."""
    tokens = configured_tokens(settings.token_file, settings.jwt_key_file, settings.slurm_user)
    if tokens is None:
        raise ConfigError("there is no token: set tokenFile, jwtKeyFile, or the environment variable SLURM_JWT_FILE")
    return tokens


def token_expiry(tokens: TokenSource) -> float:
    """When the token expires, in seconds since the epoch; 0 if it cannot be read, infinite if it never expires."""
    try:
        return read_claims(tokens.token()).expires or math.inf
    except TokenError:
        return 0.0


class TlsTrust:
    """A TLS context from a folder with the optional files ca.crt, tls.crt and tls.key.

    A new certificate authority is added to those that are trusted already, so that slurmrestd and the bridge need not
    change at the same time.
    """

    def __init__(self, folder: str, clock: Clock | None = None) -> None:
        authority, *pair = (Path(folder) / name for name in ("ca.crt", "tls.crt", "tls.key"))
        self._clock = clock or SystemClock()
        self.context = ssl.create_default_context()

        def load() -> None:
            if authority.exists():
                self.context.load_verify_locations(cadata=authority.read_text())
            if pair[0].exists():
                load_pair(self.context, *(path.read_bytes() for path in pair))

        try:
            self._files = ReloadedOnChange(load, authority, *pair)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise ConfigError(f"tlsFolder {folder}: {error}") from error

    async def run(self) -> None:
        """Reload changed files until cancelled."""
        while True:
            await self._clock.sleep(RELOAD_SECONDS)
            self._files.get()
