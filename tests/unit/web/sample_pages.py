# SPDX-License-Identifier: Apache-2.0
"""Data of small clusters for tests of the page, and a strict reader of its HTML."""

import json
from html.parser import HTMLParser
from typing import Any

from tests.unit.insight import queues

from slinky.api.fields.autoscaling import Autoscaling, AutoscalingStatus, ScalingDecisionRecord
from slinky.api.fields.conditions import DEGRADED, PROGRESSING, READY
from slinky.api.fields.refs import LocalRef
from slinky.api.nodeset import NodeSet, NodeSetPartition, NodeSetSpec, NodeSetStatus
from slinky.insight.forecast import forecast
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.kube import Condition, ObjectMeta
from slinky.slurm import Job, number
from slinky.slurm.model.accounts import Association, User
from slinky.slurm.model.views import Reservation
from slinky.web.page_data import KnownNodeSets, PageData

HOSTILE = "<script>alert(1)</script>\"'&\x1b[31m\u202e</td>"
ADDRESSES = ("/", "/queue", "/queue?state=all", "/jobs/1", "/jobs/2", "/nodes", "/nodes?group=topology", "/nodes/n1",
             "/nodes/n4", "/nodesets", "/accounts", "/whatif", "/whatif?add=work&count=2")  # fmt: skip


def pods_comment(*names: str) -> str:
    """The admin comment of a job of the bridge."""
    return json.dumps({"pods": names, "slinky": {"v": 1}})


def page_data(snapshot: QueueSnapshot, **fields: Any) -> PageData:
    defaults: dict[str, Any] = {"ranges": forecast(snapshot), "cluster": "test", "serial": 1}
    return PageData(snapshot=snapshot, whole=snapshot, **(defaults | fields))


def small_cluster(text: str = "", **fields: Any) -> PageData:
    """Job 1 has a pod on n1 to n3, job 2 waits, n4 is drained; `text` is in every field that a user can write."""
    names: dict[str, Any] = (
        {"name": text, "comment": text, "admin_comment": text, "extra": text, "features": text} if text else {}
    )
    more: dict[str, Any] = (
        {"state_description": text, "dependency": text, "licenses": text, "account": text} if text else {}
    )
    jobs: list[Job] = [
        queues.running(1, "n[1-3]", nodes=3, **(names | {"admin_comment": pods_comment(text or "default/train-0")})),
        queues.job(2, nodes=4, **(names | more)),
    ]
    if text:
        jobs.append(queues.job(3, state_reason=text, partition=text, qos=text, user_name=text))
    drain = {
        "reason": text or "bad fan",
        "reason_set_by_user": text or "bob",
        "reason_changed_at": number(queues.NOW - 60),
    }
    hosts = (
        *(queues.host(f"n{index}", words=("ALLOCATED",), topology=f"s{index % 2}") for index in (1, 2, 3)),
        queues.host("n4", words=("IDLE", "DRAIN"), comment=text, extra=text, features=(text,), **drain),
    )
    reservation = Reservation(
        name=text or "maint", users=text or "alice", node_list="n4", node_count=1,
        start_time=number(queues.NOW + 600), end_time=number(queues.NOW + 1200),
    )  # fmt: skip
    snapshot = queues.cluster(*jobs, hosts=hosts, reservations=(reservation,), **fields)
    known = KnownNodeSets((node_set(text),), unreadable=(text,), fault=text)
    return page_data(snapshot, node_sets=known, cluster=text or "test", fault=text)


def node_set(text: str = "", name: str = "gpu", **status: Any) -> NodeSet:
    """A NodeSet whose autoscaler adds workers for job 2; `text` is in every field that can have a foreign text."""
    sentence = text or "pending jobs need 2 more workers, first of all job 2"
    when = text or "2026-11-18T01:00:00Z"
    conditions = (
        Condition(READY, "False", text or "Starting", sentence, when),
        Condition(PROGRESSING, "True", text or "Starting", sentence, when),
        Condition(DEGRADED, "False", text or "AsExpected", text, when),
    )
    scaling = AutoscalingStatus(
        replicas=4, next_replicas=6, reason=text or "PendingJobs", message=sentence, failures=1, retry_time=when,
        impossible_jobs=(text or "Job 3: it requests 9 GPUs per node",),
        decisions=(ScalingDecisionRecord(when, 2, 4, text or "PendingJobs", sentence),),
    )  # fmt: skip
    numbers = {"desired": 4, "replicas": 4, "ready_replicas": 3, "updated_replicas": 2}
    fields = {**numbers, "current_revision": text or "gpu-1", "update_revision": text or "gpu-2"}
    spec = NodeSetSpec(
        LocalRef("slurm"), replicas=4, autoscaling=Autoscaling(8), partition=NodeSetPartition(enabled=True)
    )
    return NodeSet(
        ObjectMeta(text or name, "slurm"),
        spec,
        NodeSetStatus(**{"conditions": conditions, "autoscaling": scaling, **fields, **status}),
    )


def private(kinds: str, **fields: Any) -> PageData:
    """Jobs of alice (1), of bob in `lab` (2) and of carol in `ops` (3), with PrivateData set."""
    snapshot = queues.cluster(
        queues.job(1), queues.job(2, user_name="bob"), queues.job(3, user_name="carol", account="ops"),
        conf={"PrivateData": kinds},
        associations=(
            Association(account="lab", user="alice"), Association(account="lab", user="bob"),
            Association(account="ops", user="carol"), Association(account="ops"),
        ),
    )  # fmt: skip
    users = (User(name="dora", administrator_level=("Operator",)), User(name="alice", administrator_level=("None",)))
    return page_data(snapshot, users=users, **fields)


class StrictReader(HTMLParser):
    """Fails on elements that are not closed in their order, on repeated ids, and on inline scripts and styles."""

    VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open
        assert len(self.ids) == len(set(self.ids))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        assert not [name for name in names if name.startswith("on") or name == "style"]
        assert tag != "script" or names.get("src")
        self.elements.append((tag, names))
        self.ids += [names["id"] or ""] if "id" in names else []
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        assert "script" not in self.open[-1:] or not data.strip()
        self.text.append(data)

    def count(self, name: str) -> int:
        return sum(1 for element, _ in self.elements if element == name)
