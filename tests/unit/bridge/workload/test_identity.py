# SPDX-License-Identifier: Apache-2.0
"""The signature of a job."""

from typing import Any

import pytest
from tests.unit.bridge.build import pod

from slinky.bridge import names
from slinky.bridge.workload import identity
from slinky.bridge.workload.identity import BridgeIdentity
from slinky.slurm import Job, JobRequest
from slinky.slurm.model.views import StepId

BRIDGE = BridgeIdentity("cluster-uid", "bridge")


JOB = Job(7, StepId("s1"), flags=("EXTERNAL_JOB",))


def test_the_signature_names_the_bridge_and_the_pods() -> None:
    (signed,) = identity.sign([JobRequest(name="x")], [[pod()]], BRIDGE, "ns/Pod/p")
    comment = identity.parse_comment(signed.admin_comment or "")
    assert comment is not None
    assert comment.pods == ["ns/p"]
    assert identity.is_ours(comment, BRIDGE)
    assert identity.stands_for_pod(comment, BRIDGE, pod(), JOB)
    assert comment.slinky.members == identity.members_digest([pod()]) != identity.members_digest([pod(uid="another")])


@pytest.mark.parametrize("text", ["", "hello", "{}", '{"a": 1}', "[1]", '{"pods": "x"}', "\x00"])
def test_other_comments_are_not_signatures(text: str) -> None:
    assert identity.parse_comment(text) is None


def test_another_bridge_or_cluster_is_foreign() -> None:
    (signed,) = identity.sign([JobRequest()], [[pod()]], BRIDGE, "u")
    comment = identity.parse_comment(signed.admin_comment or "")
    assert not identity.is_ours(comment, BridgeIdentity("other", "bridge"))
    assert not identity.is_ours(comment, BridgeIdentity("cluster-uid", "other"))
    assert not identity.stands_for_pod(comment, BridgeIdentity("other", "bridge"), pod(), JOB)


def test_a_job_of_an_older_bridge_is_recognised_by_pod_name_but_is_not_ours() -> None:
    old = identity.parse_comment('{"pods":["ns/p"]}')
    assert identity.stands_for_pod(old, BRIDGE, pod(), JOB)
    assert not identity.is_ours(old, BRIDGE)


@pytest.mark.parametrize(
    ("comment", "sluid", "node", "external", "recognised"),
    [
        ("overwritten", "s1", "n1", True, True),
        ("", "s1", "n1", False, False),  # the job of another user, whose SLUID was written to the pod
        ('{"pods":["ns/p"],"slinky":{"v":1,"bridge":"renamed"}}', "s1", "n1", True, True),
        ('{"pods":["ns/p"]}', "s2", "n1", True, False),  # another job has the id by now
        ('{"pods":["ns/victim"]}', "s1", "n1", True, False),  # a user wrote the SLUID to the pod
        ("", "s1", "", True, False),  # the bridge writes the SLUID with the binding
    ],
)
def test_a_bound_pod_is_recognised_by_sluid_unless_the_job_is_of_others(
    comment: str, sluid: str, node: str, external: bool, recognised: bool
) -> None:
    bound = pod(annotations={names.SLUID_ANNOTATION: "s1"}, node=node)
    job = Job(7, StepId(sluid), flags=("EXTERNAL_JOB",) if external else ())
    assert identity.stands_for_pod(identity.parse_comment(comment), BRIDGE, bound, job) is recognised


def test_a_job_of_a_former_name_of_the_bridge_stands_for_its_pods_and_is_ours_if_the_name_is_listed() -> None:
    (signed,) = identity.sign([JobRequest()], [[pod()]], BRIDGE, "u")
    comment = identity.parse_comment(signed.admin_comment or "")
    assert comment is not None
    renamed = BridgeIdentity(BRIDGE.cluster, "renamed")
    assert identity.stands_for_pod(comment, renamed, pod(), JOB)
    assert not identity.is_ours(comment, renamed)
    listed = BridgeIdentity(BRIDGE.cluster, "renamed", frozenset({BRIDGE.bridge}))
    assert identity.is_ours(comment, listed)
    assert identity.is_renamed(comment.slinky, listed)
    assert not identity.is_ours(comment, listed._replace(cluster="other"))


def test_an_unbound_pod_is_not_recognised_by_sluid() -> None:
    posing = pod(job="7", annotations={names.SLUID_ANNOTATION: "s1"})
    assert not identity.stands_for_pod(identity.parse_comment('{"pods":["ns/another"]}'), BRIDGE, posing, JOB)


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
