# SPDX-License-Identifier: Apache-2.0
"""Keys that are made in the cluster, so that no chart, repository or pipeline ever sees them.

A Secret with the annotation `slinky.slurm.net/generate-keys` names the keys it lacks; whoever watches Secrets adds what
`missing` says. A key that is there is never touched, which makes rendering the Secret again harmless.
"""

import secrets
from collections.abc import Callable, Mapping

from slinky.api.names.metadata import GENERATE_KEYS

#: What Slurm's own documentation suggests for slurm.key, in random bytes.
SIZE = 1024


def missing(
    annotations: Mapping[str, str], data: Mapping[str, bytes], dice: Callable[[int], bytes] = secrets.token_bytes
) -> dict[str, bytes]:
    """What to add to a Secret with these annotations and this data; empty when nothing is asked for or lacking."""
    wanted = [name.strip() for name in annotations.get(GENERATE_KEYS, "").split(",")]
    return {name: dice(SIZE) for name in wanted if name and not data.get(name)}
