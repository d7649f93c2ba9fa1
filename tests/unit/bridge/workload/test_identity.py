# SPDX-License-Identifier: Apache-2.0
"""The signature of a job."""

from typing import Any

import pytest
from tests.unit.bridge.build import pod

from slinky.bridge import names
from slinky.bridge.workload import identity
from slinky.bridge.workload.identity import BridgeIdentity
from slinky.slurm import JobRequest

BRIDGE = BridgeIdentity("cluster-uid", "bridge")


def nobody(job: str) -> None:
    return None


def test_the_signature_names_the_bridge_and_the_pods() -> None:
    (signed,) = identity.sign([JobRequest(name="x")], [[pod()]], BRIDGE, "ns/Pod/p")
    comment = identity.parse_comment(signed.admin_comment or "")
    assert comment is not None
    assert comment.pods == ["ns/p"]
    assert identity.is_ours(comment, BRIDGE)
    assert identity.stands_for_pod(comment, BRIDGE, pod())
    assert comment.slinky.members == identity.members_digest([pod()]) != identity.members_digest([pod(uid="another")])


@pytest.mark.parametrize("text", ["", "hello", "{}", '{"a": 1}', "[1]", '{"pods": "x"}', "\x00"])
def test_other_comments_are_not_signatures(text: str) -> None:
    assert identity.parse_comment(text) is None


def test_another_bridge_or_cluster_is_foreign() -> None:
    (signed,) = identity.sign([JobRequest()], [[pod()]], BRIDGE, "u")
    comment = identity.parse_comment(signed.admin_comment or "")
    assert not identity.is_ours(comment, BridgeIdentity("other", "bridge"))
    assert not identity.is_ours(comment, BridgeIdentity("cluster-uid", "other"))
    assert not identity.stands_for_pod(comment, BridgeIdentity("other", "bridge"), pod())


def test_a_job_of_an_older_bridge_is_recognised_by_pod_name_but_is_not_ours() -> None:
    old = identity.parse_comment('{"pods":["ns/p"]}')
    assert identity.stands_for_pod(old, BRIDGE, pod())
    assert not identity.is_ours(old, BRIDGE)


@pytest.mark.parametrize(
    ("comment", "sluid", "node", "speaks"),
    [
        ("mine now", "s1", "n1", True),  # somebody has rewritten it
        ('{"pods":["ns/p"],"slinky":{"v":1,"bridge":"renamed"}}', "s1", "n1", True),
        ('{"pods":["ns/p"]}', "s2", "n1", False),  # the id is another's by now
        ('{"pods":["ns/victim"]}', "s1", "n1", False),  # the name on the pod was written by somebody else
        ("", "s1", "", False),  # names come with nodes: nobody of ours wrote this one
    ],
)
def test_a_bound_pod_is_recognised_by_sluid_unless_the_job_names_other_pods(
    comment: str, sluid: str, node: str, speaks: bool
) -> None:
    placed = pod(annotations={names.SLUID_ANNOTATION: "s1"}, node=node)
    assert identity.stands_for_pod(identity.parse_comment(comment), BRIDGE, placed, sluid) is speaks


def test_an_unbound_pod_is_not_recognised_by_sluid() -> None:
    posing = pod(job="7", annotations={names.SLUID_ANNOTATION: "s1"})
    assert not identity.stands_for_pod(identity.parse_comment('{"pods":["ns/another"]}'), BRIDGE, posing, "s1")


def test_the_spec_digest_does_not_depend_on_the_signature() -> None:
    wish = JobRequest(name="x")
    assert identity.spec_digest(identity.sign([wish], [[pod()]], BRIDGE, "u")) == identity.spec_digest([wish])
    assert identity.spec_digest([wish]) != identity.spec_digest([JobRequest(name="y")])


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        ({}, {"constraints": "a100"}, ""),
        ({"constraints": "a100"}, {"constraints": "h100"}, ""),
        ({"constraints": "a100", "qos": "high"}, {"qos": "high"}, "cannot remove constraints"),
        ({"excluded_nodes": ("n1",)}, {}, ""),  # this an update can take back
        ({"hold": True}, {}, ""),  # somebody else's to release
        ({"shared": ("none",)}, {"shared": ()}, "shares nodes"),
        ({"user_id": "alice"}, {"user_id": "bob"}, "its user"),
    ],
)
def test_a_pending_job_is_replaced_if_an_update_cannot_change_it(before: Any, now: Any, message: str) -> None:
    (signed,) = identity.sign([JobRequest(**before)], [[pod()]], BRIDGE, "u")
    comment = identity.parse_comment(signed.admin_comment or "")
    assert comment is not None
    expected_text = identity.update_obstacle(comment.slinky, [JobRequest(**now)])
    assert message in expected_text if message else not expected_text


def test_fields_are_compared_per_component() -> None:
    plain, devices = JobRequest(), JobRequest(tres_per_node="gres/gpu:1")
    signed = identity.sign([plain, devices], [[pod("a")], [pod("b")]], BRIDGE, "u")
    comment = identity.parse_comment(signed[0].admin_comment or "")
    assert comment is not None
    assert "tres_per_node+1" in identity.update_obstacle(comment.slinky, [devices, plain])
    assert (
        identity.update_obstacle(identity.JobSignature(identity.SIGNATURE_VERSION), [plain]) == ""
    )  # signed by an older version of ours
