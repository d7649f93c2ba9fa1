# SPDX-License-Identifier: Apache-2.0
"""The hook before a worker stops sets its host to DOWN, but leaves the drain of another owner as it is."""

import subprocess
from pathlib import Path

import pytest

from slinky.operator.nodeset.objects import PRE_STOP, TERMINATING_REASON

DOWN = f"update nodename=gpu-0 state=down reason={TERMINATING_REASON}\n"
#: Stands for scontrol: shows $SHOWN, fails without it, and logs every update.
SCONTROL = """#!/bin/sh
case $1 in
    -o) [ -n "$SHOWN" ] && echo "$SHOWN" ;;
    *) echo "$*" >>"$UPDATES" ;;
esac
"""


@pytest.mark.parametrize(
    ("law", "shown", "updates"),
    [
        ("in service", "NodeName=gpu-0 State=IDLE+DYNAMIC_NORM ThreadsPerCore=1", DOWN),
        ("our drain", "NodeName=gpu-0 State=IDLE+DRAIN+DYNAMIC_NORM Reason=slurm-operator: gone [slurm@now]", DOWN),
        ("the drain of another", "NodeName=gpu-0 State=IDLE+DRAIN+DYNAMIC_NORM Reason=bad GPU [root@now]", ""),
        ("a drain without a reason", "NodeName=gpu-0 State=IDLE+DRAIN+DYNAMIC_NORM ThreadsPerCore=1", ""),
        ("slurmctld does not answer: it may have a drain", "", ""),
    ],
)
def test_the_hook_leaves_drains_of_others(law: str, shown: str, updates: str, tmp_path: Path) -> None:
    for name, script in {"scontrol": SCONTROL, "hostname": "#!/bin/sh\necho gpu-0\n"}.items():
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    log = tmp_path / "updates"
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SHOWN": shown, "UPDATES": str(log)}
    subprocess.run(["/bin/sh", "-c", PRE_STOP], env=environment, check=True)
    assert (log.read_text() if log.exists() else "") == updates, law
