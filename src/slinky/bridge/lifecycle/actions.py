# SPDX-License-Identifier: Apache-2.0
"""What can be known of a job, and what can be done about its pods: the words in which `decide` reads and answers."""

from dataclasses import dataclass, field
from enum import Enum

from slinky.bridge.lifecycle.outcome import WITHDRAWN, Fate
from slinky.bridge.state.views import Pod
from slinky.bridge.status.conditions import Said
from slinky.slurm import JobRecord


class Sight(Enum):
    """What is known for certain of a job."""

    UNKNOWN = "unknown"
    LIVE = "live"
    OVER = "over"  # ended, or positively gone
    FOREIGN = "foreign"  # the id belongs to somebody else's job: ours is gone


@dataclass(frozen=True)
class Seen:
    """One job as it looks now."""

    sight: Sight
    record: JobRecord | None = None
    stale: bool = False  # it asks for something else than its pods do now
    remains: bool = False  # it is over, yet a component of it may still hold or want nodes


# --- actions, in the order in which they appear in a plan


@dataclass(frozen=True)
class Submit:
    """Give these pods a job."""

    pods: tuple[Pod, ...]


@dataclass(frozen=True)
class Revise:
    """Bring a waiting job up to what its pods, newcomers among them, ask for now."""

    job: str
    pods: tuple[Pod, ...]


@dataclass(frozen=True)
class Label:
    """Put the name of their job on these pods."""

    job: str
    pods: tuple[Pod, ...]


@dataclass(frozen=True)
class Place:
    """Put these pods on the nodes of their job."""

    job: str
    pods: tuple[Pod, ...]


@dataclass(frozen=True)
class Say:
    """Tell it on the pods."""

    pods: tuple[Pod, ...]
    said: Said
    warning: bool = False


@dataclass(frozen=True)
class Detach:
    """Take the job's name off these pods, so that they are submitted again."""

    pods: tuple[Pod, ...]
    said: Said


@dataclass(frozen=True)
class Withdraw:
    """Free the devices that were claimed for pods which lost their job before they started."""

    pods: tuple[Pod, ...]


@dataclass(frozen=True)
class Cancel:
    """End a job that no pod needs; `fate` is what became of its pods."""

    job: str
    fate: Fate = WITHDRAWN


@dataclass(frozen=True)
class Evict:
    """Delete pods whose job has ended."""

    pods: tuple[Pod, ...]
    said: Said


@dataclass(frozen=True)
class Explain:
    """Tell on pods that leave because their job has ended that it has, so that owners can tell it from a failure."""

    pods: tuple[Pod, ...]
    said: Said


@dataclass(frozen=True)
class Reclaim:
    """Give pods that run a new job on their nodes, since the old one is lost; if that cannot be, evict them."""

    job: str
    pods: tuple[Pod, ...]
    said: Said


@dataclass(frozen=True)
class LetGo:
    """Remove our hold on a pod that is gone."""

    pod: Pod
    warning: str = ""


Action = Submit | Revise | Label | Place | Say | Detach | Withdraw | Cancel | Evict | Explain | Reclaim | LetGo


@dataclass
class Plan:
    """What to do, and when to look again even if nothing changes."""

    actions: list[Action] = field(default_factory=list)
    again: float | None = None
    #: There is more to say, once nobody is being given nodes.
    hushed: bool = False

    def add(self, *actions: Action) -> None:
        """Do these next."""
        self.actions.extend(actions)

    def look_again(self, after: float) -> None:
        """Look again after so many seconds at the latest."""
        self.again = after if self.again is None else min(self.again, after)
