# SPDX-License-Identifier: Apache-2.0
"""Reports pods of other schedulers that run on the nodes of the bridge beside the jobs of Slurm.

The taint keeps ordinary pods off these nodes, but everyone can write a toleration, and a pod with a node name needs
none. Slurm does not account for such pods. Pods of DaemonSets, static pods, and the pods of Slurm itself are expected.
"""

import asyncio
from collections.abc import Sequence

from slinky.bridge import metrics
from slinky.bridge.nodes.ownership import wants_external_host
from slinky.bridge.status.reasons import Reason
from slinky.bridge.views.pods import ForeignPod
from slinky.kube import NODES, Cache, EventRecorder, Key, Node
from slinky.observe import Clock

#: Seconds between reports: pods often come in numbers.
MIN_INTERVAL = 10.0
#: Pods that a message names.
NAMES_MAX = 3
#: Owners whose pods belong on every node: a static pod has its node as owner.
EXPECTED_OWNERS = frozenset({"DaemonSet", "Node"})


def is_expected(pod: ForeignPod) -> bool:
    """Whether a decoded pod belongs on the nodes of the bridge, as long as its labels and owners are present."""
    owner = pod.metadata.controller
    return bool(pod.worker_host) or pod.is_control or (owner is not None and owner.kind in EXPECTED_OWNERS)


class ForeignPodReporter:
    """Counts unexpected pods on the nodes of the bridge, and reports new ones by events of the nodes."""

    def __init__(
        self, pods: Cache[ForeignPod], nodes: Cache[Node], recorder: EventRecorder, clock: Clock, *, tainted: bool
    ) -> None:
        """`tainted` tells whether the taint of the bridge keeps pods off its nodes; otherwise pods are only counted."""
        self._pods, self._nodes, self._recorder, self._clock, self._tainted = pods, nodes, recorder, clock, tainted
        self._reported: dict[str, frozenset[str]] = {}  # uids of pods by node
        self._changed = asyncio.Event()
        self._changed.set()
        pods.listen(self._pod_changed)
        metrics.FOREIGN_PODS.set_function(self.count)

    def count(self) -> int:
        """The unexpected pods on nodes of the bridge."""
        return sum(len(pods) for pods in self._unexpected().values())

    async def run(self) -> None:
        """Report new pods until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            self.report()
            await self._clock.sleep(MIN_INTERVAL)

    def report(self) -> None:
        """Record one event for each node with unexpected pods that were not reported yet."""
        current = self._unexpected() if self._tainted else {}
        for name, pods in current.items():
            node = self._nodes.get(Key("", name))
            if node is not None and {pod.metadata.uid for pod in pods} - self._reported.get(name, frozenset()):
                text = Reason.FOREIGN_PODS.text(pods=describe_pods(pods))
                self._recorder.record(NODES.reference(node), text.reason, text.message, warning=text.warning)
        self._reported = {name: frozenset(pod.metadata.uid for pod in pods) for name, pods in current.items()}

    def _unexpected(self) -> dict[str, list[ForeignPod]]:
        names = [
            name
            for name in self._pods.index_values("unexpected")
            if wants_external_host(self._nodes.get(Key("", name)))
        ]
        return {name: self._pods.by("unexpected", name) for name in names}

    def _pod_changed(self, old: ForeignPod | None, new: ForeignPod | None) -> None:
        if old is None and new is not None and not new.is_expected:
            self._changed.set()


def describe_pods(pods: Sequence[ForeignPod]) -> str:
    """The names of some pods, and how many others there are."""
    names = sorted(str(pod.key) for pod in pods)
    more = len(names) - NAMES_MAX
    return ", ".join(names[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")
