# SPDX-License-Identifier: Apache-2.0
"""When two workers are the same: the hash of everything that makes a worker what it is. Pure.

Only inputs are hashed, never what this release builds of them: an upgrade of the operator replaces no worker.
"""

import msgspec

from slinky.api.nodeset import NodeSet
from slinky.operator.differing import fingerprint
from slinky.operator.nodeset.objects import Hashes


def revision(of: NodeSet, hashes: Hashes) -> str:
    """The hash that workers of this spec carry; `hashes` are those of the keys and files they read."""
    spec = of.spec
    return fingerprint(
        {
            "template": msgspec.to_builtins(spec.template),
            "slurmd": spec.slurmd,
            "logfile": spec.logfile,
            "ssh": msgspec.to_builtins(spec.ssh),
            "extraConf": spec.extra_conf,
            "ordinalPadding": spec.ordinal_padding,
            "oversubscribeNode": spec.oversubscribe_node,
            "slurmKey": hashes.slurm_key,
            "sshd": hashes.sshd,
            "sssd": hashes.sssd,
        }
    )[:10]
