# SPDX-License-Identifier: Apache-2.0
"""What a user expects of Kubernetes works on the real nodes of a lab."""

import json
from typing import Any

import pytest
from tests.support.waiting import until

from slinky.lab.errors import LabError
from slinky.lab.lab import Lab
from slinky.lab.prepare.images import reference

pytestmark = pytest.mark.lab
SHELL = reference("busybox")


def pod(name: str, script: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": SHELL, "command": ["sh", "-ec", script], **spec.pop("container", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": spec.pop("labels", {})},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container], **spec},
    }


def apply(lab: Lab, namespace: str, *manifests: dict[str, Any]) -> None:
    items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
    lab.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(items))


def output_of(lab: Lab, namespace: str, name: str) -> str:
    """The log of a pod that must succeed."""
    lab.kubectl("wait", "-n", namespace, f"pod/{name}", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=240s")
    return lab.kubectl("logs", "-n", namespace, name)


def test_a_pod_runs_and_its_log_is_read_through_the_kubelet(lab: Lab, namespace: str) -> None:
    apply(lab, namespace, pod("hello", "echo hello from $(hostname)"))
    assert output_of(lab, namespace, "hello") == "hello from hello\n"


def test_exec_reaches_into_a_container(lab: Lab, namespace: str) -> None:
    apply(lab, namespace, pod("sleeper", "sleep 600"))
    lab.kubectl("wait", "-n", namespace, "pod/sleeper", "--for=condition=Ready", "--timeout=240s")
    assert lab.kubectl("exec", "-n", namespace, "sleeper", "--", "cat", "/etc/hostname") == "sleeper\n"


def test_a_headless_name_resolves_and_a_service_address_carries_traffic_between_nodes(lab: Lab, namespace: str) -> None:
    serve = "mkdir -p /tmp/www && hostname > /tmp/www/index.html && httpd -f -p 8080 -h /tmp/www"
    server = pod("server", serve, labels={"app": "server"}, hostname="server", subdomain="peers", nodeName="node1")
    ports = [{"port": 80, "targetPort": 8080}]
    apply(
        lab,
        namespace,
        server,
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "peers"},
         "spec": {"clusterIP": "None", "selector": {"app": "server"}, "ports": [{"port": 8080}]}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
         "spec": {"selector": {"app": "server"}, "ports": ports}},
    )  # fmt: skip
    lab.kubectl("wait", "-n", namespace, "pod/server", "--for=condition=Ready", "--timeout=240s")
    both = "wget -qO- http://server.peers:8080 && wget -qO- http://web"
    fetch = f"for i in $(seq 60); do {both} && exit 0; sleep 0.5; done; exit 1"
    apply(lab, namespace, pod("client", fetch, nodeName="node2"))
    assert output_of(lab, namespace, "client") == "server\nserver\n"


def test_a_pod_reaches_the_api_with_its_own_token(lab: Lab, namespace: str) -> None:
    where = "/var/run/secrets/kubernetes.io/serviceaccount"
    ask = f"nc -w 5 kubernetes.default 443 </dev/null && test -s {where}/token && cat {where}/namespace"
    apply(lab, namespace, pod("caller", ask))
    assert output_of(lab, namespace, "caller") == namespace


def test_a_claim_binds_on_the_default_class_and_keeps_what_was_written(lab: Lab, namespace: str) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    mounted = {
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        "container": {"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
    }
    apply(lab, namespace, claim, pod("writer", "echo kept > /data/file", **mounted))
    output_of(lab, namespace, "writer")
    apply(lab, namespace, pod("reader", "cat /data/file", **mounted))
    assert output_of(lab, namespace, "reader") == "kept\n"


def test_a_pod_that_claims_gpus_sees_exactly_those_devices(lab: Lab, namespace: str) -> None:
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "two"},
        "spec": {"spec": {"devices": {"requests": [
            {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}]}}},
    }  # fmt: skip
    claims = [{"name": "gpus", "resourceClaimTemplateName": "two"}]
    container = {"resources": {"claims": [{"name": "gpus"}]}}
    apply(lab, namespace, template, pod("trainer", "echo $GPU_DEVICES", resourceClaims=claims, container=container))
    devices = output_of(lab, namespace, "trainer").strip().split(",")
    claim = json.loads(lab.kubectl("get", "resourceclaims", "-n", namespace, "-o", "json"))["items"]
    granted = (
        [device["device"] for device in claim[0]["status"]["allocation"]["devices"]["results"]] if claim else devices
    )
    assert len(devices) == 2
    assert sorted(devices) == sorted(granted)


def test_the_native_workload_api_is_served(lab: Lab) -> None:
    served = lab.api.get("/apis/scheduling.k8s.io/v1alpha2")["resources"]
    assert {"workloads", "podgroups"} <= {resource["name"] for resource in served}


def test_a_job_set_runs_to_its_end(lab: Lab, namespace: str) -> None:
    job = {
        "template": {"spec": {"parallelism": 1, "completions": 1, "template": {"spec": pod("x", "echo done")["spec"]}}}
    }
    job_set = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "training"},
        "spec": {"replicatedJobs": [{"name": "worker", "replicas": 2, **job}]},
    }
    apply(lab, namespace, job_set)
    lab.kubectl("wait", "-n", namespace, "jobset/training", "--for=condition=Completed", "--timeout=240s")


def test_a_leader_worker_set_becomes_available(lab: Lab, namespace: str) -> None:
    spec = {**pod("x", "trap exit TERM; while true; do sleep 0.2; done")["spec"], "restartPolicy": "Always"}
    group = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "serving"},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": spec}}},
    }
    apply(lab, namespace, group)
    lab.kubectl("wait", "-n", namespace, "leaderworkerset/serving", "--for=condition=Available", "--timeout=240s")


def test_a_pod_group_follows_its_pods(lab: Lab, namespace: str) -> None:
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "gang"},
        "spec": {"minMember": 1},
    }
    member = pod("member", "sleep 600", labels={"scheduling.x-k8s.io/pod-group": "gang"})
    apply(lab, namespace, group, member)
    lab.kubectl("wait", "-n", namespace, "podgroups.scheduling.x-k8s.io/gang",
                "--for=jsonpath={.status.running}=1", "--timeout=240s")  # fmt: skip


def test_a_wrong_job_set_is_refused_by_its_own_webhook(lab: Lab, namespace: str) -> None:
    wrong = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "x" * 63},
        "spec": {
            "replicatedJobs": [{"name": "w", "template": {"spec": {"template": {"spec": pod("x", "true")["spec"]}}}}]
        },
    }
    with pytest.raises(LabError, match="job names generated for this JobSet"):
        apply(lab, namespace, wrong)


def test_a_restarted_api_server_keeps_its_objects(lab: Lab, namespace: str) -> None:
    lab.kubectl("create", "configmap", "-n", namespace, "kept", "--from-literal=a=1")
    lab.restart("control", "kube-apiserver")
    lab.wait_api()
    assert lab.kubectl("get", "configmap", "-n", namespace, "kept", "-o", "jsonpath={.data.a}") == "1"
    until(lambda: all(lab.nodes().values()), "ready nodes")
