# SPDX-License-Identifier: Apache-2.0
"""The one setting of the whole machine that labs change: how many inotify instances a user may have.

Every kubelet, containerd and API server watches files; a fresh machine allows 128 such watchers, which a handful of
nodes use up. The first lab raises the limit, the last one to go puts it back. Who needs it is written down where all
labs of the machine look, wherever their own folders are.
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


class Kept(msgspec.Struct):
    """The value before us, and the folders of the labs that need ours."""

    before: int
    labs: list[str] = []


def raise_limit(lab: Path, limit: Path = LIMIT, kept: Path = _KEPT) -> None:
    """Let one more lab watch files."""
    with _noted(kept) as note:
        value = int(limit.read_text())
        if note.labs or value < NEEDED:
            note.before = note.before if note.labs else value
            note.labs = sorted({*note.labs, str(lab)})
            with contextlib.suppress(OSError):  # a machine that forbids it still carries a few nodes
                limit.write_text(str(max(value, NEEDED)))


def restore_limit(lab: Path, limit: Path = LIMIT, kept: Path = _KEPT) -> None:
    """A lab is gone; with the last one the old limit is back, unless somebody else has changed it since."""
    if not kept.exists():
        return
    with _noted(kept) as note:
        # A lab whose janitor was killed is known by its missing folder.
        note.labs = [other for other in note.labs if other != str(lab) and Path(other).exists()]
        if not note.labs and int(limit.read_text()) == NEEDED:
            limit.write_text(str(note.before))


@contextlib.contextmanager
def _noted(kept: Path) -> Iterator[Kept]:
    """The note, for one process at a time; the folder is the lock, so that no lock file stays behind."""
    folder = os.open(kept.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        try:
            note = msgspec.json.decode(kept.read_bytes(), type=Kept)
        except (FileNotFoundError, msgspec.MsgspecError):
            note = Kept(before=NEEDED)
        yield note
        if note.labs:
            kept.write_bytes(msgspec.json.encode(note))
        else:
            kept.unlink(missing_ok=True)
    finally:
        os.close(folder)
