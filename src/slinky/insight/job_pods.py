# SPDX-License-Identifier: Apache-2.0
"""The pods that a job stands for, as the bridge names them in the job's admin comment. Pure.

Slurm alone knows them, so that a reader without any right in Kubernetes sees them too.
"""

import msgspec

from slinky.slurm.model.views import Job


class _AdminComment(msgspec.Struct, frozen=True):
    pods: list[str] = []


_decoder = msgspec.json.Decoder(_AdminComment)


def pods_of_job(job: Job) -> tuple[str, ...]:
    """The pods of a job as `NAMESPACE/NAME`, in the order of their ranks; none for a native job."""
    text = job.admin_comment
    if not text.startswith("{"):
        return ()
    try:
        return tuple(_decoder.decode(text).pods)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ()
