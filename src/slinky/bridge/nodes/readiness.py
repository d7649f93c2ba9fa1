# SPDX-License-Identifier: Apache-2.0
"""How long nodes have not been ready, on the clock of the bridge."""

from slinky.kube import Node


class ReadinessTracker:
    """When nodes were first observed as not ready, by the name of their host."""

    def __init__(self, limit: float) -> None:
        """`limit` is the number of seconds after which a node that is not ready counts as unresponsive."""
        self._limit = limit
        self._since: dict[str, tuple[str, float]] = {}  # uid of the node, and the time

    def check(self, host: str, node: Node | None, now: float) -> tuple[bool, float | None]:
        """Whether the node of a host is unresponsive, and otherwise when it will be, if it stays as it is.

        A deleted node is forgotten: a new node of its name gets the whole time.
        """
        if node is None or node.ready:
            self._since.pop(host, None)
            return False, None
        uid, since = self._since.get(host, ("", now))
        if uid != node.metadata.uid:
            since = now
        self._since[host] = node.metadata.uid, since
        left = self._limit - (now - since)
        return (True, None) if left <= 0 else (False, left)

    def __len__(self) -> int:
        return len(self._since)
