# SPDX-License-Identifier: Apache-2.0
"""Whose job it is, and for which pods."""

from typing import Any

import pytest
from tests.unit.bridge.build import pod

from slinky.bridge import names
from slinky.bridge.workload import identity
from slinky.bridge.workload.identity import BridgeIdentity
from slinky.slurm import JobRequest

ME = BridgeIdentity("cluster-uid", "bridge")


def nobody(job: str) -> None:
    return None


def test_a_job_says_whose_it_is_and_for_which_pods() -> None:
    (signed,) = identity.sign([JobRequest(name="x")], [[pod()]], ME, "ns/Pod/p")
    comment = identity.parse_comment(signed.admin_comment or "")
    assert comment is not None
    assert comment.pods == ["ns/p"]
    assert identity.is_ours(comment, ME)
    assert identity.stands_for_pod(comment, ME, pod())
    assert comment.slinky.members == identity.members_digest([pod()]) != identity.members_digest([pod(uid="another")])


@pytest.mark.parametrize("text", ["", "hello", "{}", '{"a": 1}', "[1]", '{"pods": "x"}', "\x00"])
def test_anybody_elses_comment_is_nobody(text: str) -> None:
    assert identity.parse_comment(text) is None


def test_another_bridge_or_cluster_is_foreign() -> None:
    (signed,) = identity.sign([JobRequest()], [[pod()]], ME, "u")
    comment = identity.parse_comment(signed.admin_comment or "")
    assert not identity.is_ours(comment, BridgeIdentity("other", "bridge"))
    assert not identity.is_ours(comment, BridgeIdentity("cluster-uid", "other"))
    assert not identity.stands_for_pod(comment, BridgeIdentity("other", "bridge"), pod())


def test_a_job_of_an_older_bridge_is_recognised_by_name_and_never_ours_to_cancel() -> None:
    old = identity.parse_comment('{"pods":["ns/p"]}')
    assert identity.stands_for_pod(old, ME, pod())
    assert not identity.is_ours(old, ME)


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
def test_a_placed_pod_knows_its_job_unless_the_job_names_others(
    comment: str, sluid: str, node: str, speaks: bool
) -> None:
    placed = pod(annotations={names.SLUID_ANNOTATION: "s1"}, node=node)
    assert identity.stands_for_pod(identity.parse_comment(comment), ME, placed, sluid) is speaks


def test_a_pod_without_a_node_cannot_choose_its_job() -> None:
    posing = pod(job="7", annotations={names.SLUID_ANNOTATION: "s1"})
    assert not identity.stands_for_pod(identity.parse_comment('{"pods":["ns/another"]}'), ME, posing, "s1")


def test_the_digest_follows_the_wish_and_not_the_signature() -> None:
    wish = JobRequest(name="x")
    assert identity.spec_digest(identity.sign([wish], [[pod()]], ME, "u")) == identity.spec_digest([wish])
    assert identity.spec_digest([wish]) != identity.spec_digest([JobRequest(name="y")])


@pytest.mark.parametrize(
    ("before", "now", "words"),
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
def test_a_waiting_job_is_replaced_for_what_an_update_cannot_say(before: Any, now: Any, words: str) -> None:
    (signed,) = identity.sign([JobRequest(**before)], [[pod()]], ME, "u")
    comment = identity.parse_comment(signed.admin_comment or "")
    assert comment is not None
    told = identity.update_obstacle(comment.slinky, [JobRequest(**now)])
    assert words in told if words else not told


def test_what_one_component_asks_for_is_not_anothers() -> None:
    plain, devices = JobRequest(), JobRequest(tres_per_node="gres/gpu:1")
    signed = identity.sign([plain, devices], [[pod("a")], [pod("b")]], ME, "u")
    comment = identity.parse_comment(signed[0].admin_comment or "")
    assert comment is not None
    assert "tres_per_node+1" in identity.update_obstacle(comment.slinky, [devices, plain])
    assert (
        identity.update_obstacle(identity.JobSignature(identity.SIGNATURE_VERSION), [plain]) == ""
    )  # signed by an older version of ours
