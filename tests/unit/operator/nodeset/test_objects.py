# SPDX-License-Identifier: Apache-2.0
from typing import Any

from tests.unit.operator.samples import controller, node_set

from slinky.api.names import metadata
from slinky.operator.build.pod_parts import Images
from slinky.operator.nodeset.objects import (
    Slot,
    WorkerContext,
    WorkerHashes,
    claims,
    pod,
    worker_budget,
    worker_service,
)

SETTING = WorkerContext(controller(), WorkerHashes("rev", "key"), Images("reg/{daemon}:1"))


def build_pod(slot: Slot = Slot(0), **spec: Any) -> dict[str, Any]:  # noqa: B008 - a value, not a state
    return pod(node_set(**spec), slot, SETTING)


def slurmd(**spec: Any) -> dict[str, Any]:
    manifest: dict[str, Any] = build_pod(**spec)["spec"]["containers"][0]
    return manifest


def test_identity_of_a_numbered_worker() -> None:
    manifest = build_pod(Slot(7), ordinalPadding=3, template={"spec": {"hostname": "g-"}})
    assert manifest["metadata"]["name"] == "gpu-007"
    assert manifest["spec"]["hostname"] == "g-007"
    assert (
        manifest["metadata"]["labels"]
        | {
            metadata.POD_NAME: "gpu-007",
            metadata.POD_INDEX: "007",
            metadata.POD_HOSTNAME: "g-007",
            metadata.SCALING_MODE: "StatefulSet",
            metadata.REVISION: "rev",
            metadata.CLUSTER: "slurm",
        }
        == manifest["metadata"]["labels"]
    )
    assert manifest["spec"]["subdomain"] == "slurm-workers-slurm"
    assert manifest["spec"]["dnsConfig"]["searches"] == ["slurm-workers-slurm.ns.svc.cluster.local"]


def test_identity_of_a_worker_of_a_node() -> None:
    slot = Slot(node="node1.example", hostname="node1", topology="default:leaf1")
    manifest = build_pod(slot, scalingMode="DaemonSet")
    again = build_pod(slot, scalingMode="DaemonSet")
    assert manifest["metadata"]["name"] == again["metadata"]["name"]
    assert manifest["spec"]["hostname"] == "node1"
    assert manifest["metadata"]["annotations"][metadata.TOPOLOGY] == "default:leaf1"
    term = manifest["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["node1.example"]
    assert "podAntiAffinity" in manifest["spec"]["affinity"]


def test_two_workers_never_share_a_machine_unless_asked() -> None:
    term = build_pod()["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    # The labels that the policy of the chart reserves for workers.
    assert term["labelSelector"] == {"matchLabels": {metadata.APP_NAME: "slurmd", metadata.APP_COMPONENT: "worker"}}
    assert term["namespaceSelector"] == {}
    assert "affinity" not in build_pod(oversubscribeNode=True)["spec"]


def test_privilege_can_be_given_up() -> None:
    assert slurmd()["securityContext"]["privileged"] is True
    given_up = {"securityContext": {"privileged": False}}
    assert slurmd(slurmd=given_up)["securityContext"] == given_up["securityContext"], "nor any capability"
    asked = {"securityContext": {"privileged": False, "capabilities": {"add": ["SYS_NICE"]}, "runAsUser": 0}}
    assert slurmd(slurmd=asked)["securityContext"] == asked["securityContext"]


def test_wishes_about_a_set_do_not_reach_its_workers() -> None:
    marked = {metadata.FORCE_DELETE: "true", metadata.ROLLBACK_TO: "previous", "team": "a"}
    assert {*marked} & {*build_pod(annotations=marked)["metadata"]["annotations"]} == {"team"}


def test_a_worker_gets_the_slurm_key_and_no_other() -> None:
    text = str(build_pod()["spec"]["volumes"])
    assert "slurm-auth-slurm" in text
    assert "slurm-auth-jwt" not in text


def test_ssh_brings_its_files_and_its_port() -> None:
    ssh = {"enabled": True, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}}
    manifest = slurmd(ssh=ssh)
    assert [port["name"] for port in manifest["ports"]] == ["slurmd", "ssh"]
    assert {mount["name"] for mount in manifest["volumeMounts"]} >= {"ssh-config", "sssd-conf"}


def test_claims_have_their_names_and_owners() -> None:
    template = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    kept = node_set(volumeClaimTemplates=[template])
    gone = node_set(volumeClaimTemplates=[template], persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete"})
    assert [claim["metadata"]["name"] for claim in claims(kept, Slot(2))] == ["data-gpu-2"]
    assert [
        len(claim["metadata"]["ownerReferences"]) for gpu_set in (kept, gone) for claim in claims(gpu_set, Slot(2))
    ] == [0, 1]
    assert build_pod(volumeClaimTemplates=[template])["spec"]["volumes"][-1] == {
        "name": "data",
        "persistentVolumeClaim": {"claimName": "data-gpu-0"},
    }


def test_what_all_workers_share_belongs_to_the_cluster_and_not_to_one_set() -> None:
    for manifest in (worker_service(controller()), worker_budget(controller())):
        assert [owner["kind"] for owner in manifest["metadata"]["ownerReferences"]] == ["Controller"]
    assert worker_budget(controller())["spec"]["minAvailable"] == 2**31 - 1


def test_only_a_worker_of_a_node_tolerates_the_taint_of_a_bridge() -> None:
    def tolerated(manifest: dict[str, Any]) -> set[str]:
        return {toleration["key"] for toleration in manifest["spec"]["tolerations"]}

    per_node = build_pod(Slot(node="node1", hostname="node1"), scalingMode="DaemonSet")
    assert tolerated(per_node) == {metadata.WORKER_TAINT, metadata.BRIDGE_TAINT}
    assert tolerated(build_pod(Slot(0))) == {metadata.WORKER_TAINT}


def logfile(**spec: Any) -> dict[str, Any]:
    manifest: dict[str, Any] = build_pod(**spec)["spec"]["initContainers"][0]
    return manifest


def test_the_log_container_is_limited_where_slurmd_is_so_that_the_kubelet_limits_the_pod() -> None:
    assert "resources" not in logfile()
    limited = logfile(slurmd={"resources": {"limits": {"memory": "4Gi", "nvidia.com/gpu": 2}}})
    assert limited["resources"] == {"limits": {"memory": "64Mi"}, "requests": {"memory": "0"}}
    own = logfile(
        slurmd={"resources": {"limits": {"cpu": "2", "memory": "4Gi"}}},
        logfile={"resources": {"limits": {"memory": "1Gi"}}},
    )
    assert own["resources"]["limits"] == {"cpu": "100m", "memory": "1Gi"}
