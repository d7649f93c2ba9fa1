# SPDX-License-Identifier: Apache-2.0
"""Why Slurm rejects submissions that cannot succeed later without a change: the table of its error numbers. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job was rejected, and the next step for a user, if there is one."""

    sentence: str
    step: str = ""

    def __str__(self) -> str:
        return f"{self.sentence} {self.step}".strip()


#: Slurm's error numbers for submissions that cannot succeed later without a change.
REJECTIONS: dict[int, Explanation] = {
    2000: Explanation("The partition does not exist.", "Change the option partition."),
    2014: Explanation(
        "No node can ever provide what the pods request.",
        "Request less; check labels, taints, host ports and GRES.",
    ),
    2018: Explanation("Slurm does not know a host that the job names."),
    2029: Explanation("No node has the requested feature.", "Change the option constraints."),
    2045: Explanation(
        "The account does not exist, or the user does not belong to it.", "Change the option account or user-id."
    ),
    2048: Explanation("The licence does not exist.", "Change the option licenses."),
    2053: Explanation("The reservation does not exist.", "Change the option reservation."),
    2066: Explanation("The QOS does not exist, or may not be used.", "Change the option qos."),
    2081: Explanation("External jobs cannot be arrays."),
    2115: Explanation(
        "The generic resource does not exist.", "Change the option gres or the device requests of the pods."
    ),
}


def explain_rejection(number: int, text: str) -> Explanation:
    """The meaning of a rejected submission."""
    return REJECTIONS.get(number) or Explanation(f"Slurm reports: {text} ({number}).")
