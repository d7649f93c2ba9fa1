# SPDX-License-Identifier: Apache-2.0
"""The credentials for slurmrestd: the token and TLS. Both are read again when their files change."""

import math
import ssl
from pathlib import Path

from slinky.bridge.config import BridgeSettings, ConfigError
from slinky.kube.tls import TlsFiles, trust_folder
from slinky.slurm import TokenError, TokenSource, configured_tokens
from slinky.slurm.tokens import read_claims


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


def tls_files(folder: str) -> TlsFiles:
    """The TLS context of a folder. Raises `ConfigError`."""
    try:
        return trust_folder(Path(folder))
    except (OSError, ssl.SSLError, ValueError) as error:
        raise ConfigError(f"tlsFolder {folder}: {error}") from error
