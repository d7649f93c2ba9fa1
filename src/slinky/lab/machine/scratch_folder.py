# SPDX-License-Identifier: Apache-2.0
"""Temporary folders that do not outlive their process: what a killed process left is removed by the next one.

A folder belongs to the process that holds the lock of its file `owner`. The kernel releases the lock when the process
ends, however it ends.
"""

import contextlib
import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

OWNER = "owner"


@contextlib.contextmanager
def scratch_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A new folder for the duration of the block; removes the abandoned ones with the same prefix first."""
    parent = parent or Path(tempfile.gettempdir())
    remove_abandoned(prefix, parent)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        new = folder / f"{OWNER}.new"
        with new.open("w") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX)
            # The name that others look for appears with the lock, so that no other process removes the folder.
            new.rename(folder / OWNER)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned(prefix: str, parent: Path) -> None:
    """Remove the folders whose process has ended. A folder without the file is being created, or not one of these."""
    for path in parent.glob(f"{prefix}*/{OWNER}"):
        with contextlib.suppress(OSError), path.open("w") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path.parent, ignore_errors=True)
