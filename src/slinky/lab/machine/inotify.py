# SPDX-License-Identifier: Apache-2.0
"""Raises the limit of inotify instances per user, the only machine-wide setting that labs change.

Every kubelet, containerd and API server watches files; the default of 128 instances is enough for a few nodes only.
The first lab raises the limit, and the last one restores it. The labs that need it are listed in one file that all
labs of the machine share.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
NEEDED = 1024
_KEPT = Path("/run/slinky-inotify.json")


class InotifyUsage(msgspec.Struct):
    """The original limit, and the folders of the labs that need the raised one."""

    before: int
    labs: list[str] = []


def raise_limit(lab: Path, limit: Path = LIMIT, kept: Path = _KEPT) -> None:
    """Raise the limit for a lab."""
    with _locked(kept) as usage:
        value = int(limit.read_text())
        if usage.labs or value < NEEDED:
            usage.before = usage.before if usage.labs else value
            usage.labs = sorted({*usage.labs, str(lab)})
            with contextlib.suppress(OSError):  # without the permission, a few nodes still work
                limit.write_text(str(max(value, NEEDED)))


def restore_limit(lab: Path, limit: Path = LIMIT, kept: Path = _KEPT) -> None:
    """Restore the limit after the last lab, unless another program has changed it since."""
    if not kept.exists():
        return
    with _locked(kept) as usage:
        # A lab without a folder is gone, even if its janitor was killed.
        usage.labs = [other for other in usage.labs if other != str(lab) and Path(other).exists()]
        if not usage.labs and int(limit.read_text()) == NEEDED:
            limit.write_text(str(usage.before))


@contextlib.contextmanager
def _locked(kept: Path) -> Iterator[InotifyUsage]:
    """The shared file, locked. The folder is the lock, so that no lock file is left behind."""
    folder = os.open(kept.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        try:
            usage = msgspec.json.decode(kept.read_bytes(), type=InotifyUsage)
        except (FileNotFoundError, msgspec.MsgspecError):
            usage = InotifyUsage(before=NEEDED)
        yield usage
        if usage.labs:
            kept.write_bytes(msgspec.json.encode(usage))
        else:
            kept.unlink(missing_ok=True)
    finally:
        os.close(folder)
