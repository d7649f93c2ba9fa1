# SPDX-License-Identifier: Apache-2.0
"""sshd_config for login hosts and for workers. Pure.

A site's own text is appended line by line. sshd takes the first word it reads for a setting, so ours stand; text with
control characters in it is refused.
"""

from slinky.kube.errors import Blocked

_COMMON = ("Include /etc/ssh/sshd_config.d/*.conf", "UsePAM yes", "Subsystem sftp internal-sftp")
LOGIN = (*_COMMON, "X11Forwarding yes")
WORKER = (*_COMMON, "AuthenticationMethods publickey password")


def login_config(extra: str) -> str:
    """For hosts where people log in."""
    return _written(LOGIN, extra)


def worker_config(extra: str) -> str:
    """For workers, where only those with a job get in."""
    return _written(WORKER, extra)


def _written(lines: tuple[str, ...], extra: str) -> str:
    if any(not (character.isprintable() or character in "\n\t") for character in extra):
        raise Blocked("InvalidConfig", "extraSshdConfig has control characters in it")
    return "\n".join((*lines, *extra.splitlines())) + "\n"
