# SPDX-License-Identifier: Apache-2.0
"""The chart of a cluster: familiar names and values, everything exposed, mistakes named."""

import base64
from typing import Any

import msgspec
import pytest
import yaml
from tests.chart.helm import Helm, Objects, Refused, one
from tests.integration.api.conftest import Kubectl

from slinky.api import NodeSetSpec
from slinky.kube import SECRETS, Key, KubeClient
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.operator.keys.generation import missing_keys
from slinky.webhook.application import RULES
from slinky.webhook.evaluate import AdmissionChange, RuleContext, evaluate

RICH: dict[str, Any] = {
    "clusterName": "hpc",
    "imagePullSecrets": [{"name": "pull"}],
    "priorityClass": {"enabled": True, "create": True, "name": "slurm-chart-test"},
    "configFiles": {"gres.conf": "AutoDetect=nvidia\n"},
    "prologScripts": {"00-hello.sh": "#!/bin/sh\nexit 0\n"},
    "epilogSlurmctldScripts": {"bye.sh": "#!/bin/sh\n"},
    "controller": {
        "extraConfMap": {"SchedulerParameters": ["bf_continue", "bf_interval=30"], "KillWait": 0, "ReturnToService": 2},
        "metrics": {"enabled": True, "serviceMonitor": {"enabled": True}},
        "service": {"spec": {"type": "LoadBalancer"}, "port": 6817},
    },
    "restapi": {"replicas": 2, "pdb": {"enabled": True}},
    "accounting": {"enabled": True, "extraConfMap": {"PurgeJobAfter": "12months"}},
    "exporter": {
        "enabled": True,
        "image": {"repository": "registry.example/slinky", "tag": "1"},
        "users": True,
        "web": {"enabled": True},
    },
    "loginsets": {"main": {"rootSshAuthorizedKeys": "ssh-ed25519 AAAA a\n", "replicas": 2}},
    "nodesets": {
        "cpu": {"replicas": 3, "extraConfMap": {"Weight": 0, "RealMemory": 1000000}},
        "gpu": {
            "slurmd": {"resources": {"limits": {"nvidia.com/gpu": 8}}},
            "ssh": {"enabled": True},
            "partition": {"enabled": True, "configMap": {"MaxTime": 60}},
            "updateStrategy": {"rollingUpdate": {"maxSurge": 1, "partition": 2, "maxFailures": 1}},
            "drain": {"timeout": "2h", "onTimeout": "Requeue", "deletionDeadline": "1h"},
            "volumeClaimTemplates": [{"metadata": {"name": "scratch"}, "spec": {"accessModes": ["ReadWriteOnce"]}}],
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"},
            "minReadySeconds": 5,
        },
        "off": {"enabled": False},
    },
    "partitions": {
        "all": {"enabled": True},
        "both": {"enabled": True, "nodesets": ["cpu", "gpu"], "config": "State=UP"},
    },
    "tokens": {"alice": {"lifetime": "1h"}},
    "vendor": {"nvidia": {"dcgm": {"enabled": True}}},
    "extraObjects": ["{kind: ConfigMap, apiVersion: v1, metadata: {name: '{{ .Release.Name }}-more'}}"],
}
EXTERNAL = {"controller": {"external": True, "externalConfig": {"host": "ctl.example", "port": 6817}}}


@pytest.mark.parametrize("values", [{}, RICH, EXTERNAL], ids=["smallest", "rich", "external"])
async def test_the_api_server_takes_everything(
    kubectl: Kubectl, helm: Helm, space: str, values: dict[str, Any]
) -> None:
    text = yaml.safe_dump_all(helm.render("slurm", values, space=space))
    done = kubectl("apply", "--server-side", "--validate=strict", "-n", space, "-f", "-", input=text)
    assert done.returncode == 0, done.stderr


def test_the_exporter_is_off_unless_asked_for_and_has_a_token_of_its_own(helm: Helm) -> None:
    assert not [item for item in helm.render("slurm", {}) if "exporter" in item["metadata"]["name"]]
    objects = helm.render("slurm", {**RICH, "restapi": {"service": {"port": 7000}}})
    container = one(objects, "Deployment", "slurm-exporter")["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "registry.example/slinky:1"
    assert {"--users", "--slurm-rest-api=https://slurm-restapi:7000", "--ca-file=/run/slurm-ca/ca.crt"} <= set(
        container["args"]
    )
    assert not [word for word in container["args"] if "slurmctld" in word]
    assert one(objects, "Token", "slurm-exporter")["spec"]["username"] == "nobody"


@pytest.mark.parametrize(
    ("controller", "address"),
    [
        ({"metrics": {"enabled": True}}, "slurm-controller:6817"),
        ({"metrics": {"enabled": True}, "service": {"port": 7817}}, "slurm-controller:7817"),
        ({"external": True, "externalConfig": {"host": "ctl.example"}}, "ctl.example:6817"),
    ],
)
def test_the_exporter_reads_the_metrics_of_slurmctld_if_asked_to(
    helm: Helm, controller: dict[str, Any], address: str
) -> None:
    exporter = {"enabled": True, "slurmctldMetrics": {"enabled": True}}
    objects = helm.render("slurm", {"controller": controller, "exporter": exporter})
    container = one(objects, "Deployment", "slurm-exporter")["spec"]["template"]["spec"]["containers"][0]
    assert f"--slurmctld-metrics=http://{address}" in container["args"]


def test_the_page_runs_in_the_pod_of_the_exporter_and_reviews_tokens(helm: Helm) -> None:
    web = {"enabled": True, "operators": ["ann", "bob"], "userSuffix": "@site", "certificateSecret": "page-tls"}
    objects = helm.render("slurm", {"exporter": {"enabled": True, "web": web}})
    pod = one(objects, "Deployment", "slurm-exporter")["spec"]["template"]["spec"]
    assert pod["containers"][0]["args"][0] == "web"
    flags = {"--web-addr=:8082", "--token-review", "--operators=ann,bob", "--user-suffix=@site"}
    assert flags | {"--web-certificates=/run/certificates"} <= set(pod["containers"][0]["args"])
    assert pod["automountServiceAccountToken"] is True
    binding = next(item for item in objects if item["kind"] == "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == "system:auth-delegator"
    assert binding["subjects"][0]["name"] == pod["serviceAccountName"] == "slurm-exporter"
    assert [port["name"] for port in one(objects, "Service", "slurm-exporter")["spec"]["ports"]] == ["metrics", "web"]


def test_the_page_behind_a_proxy_needs_no_rights_in_kubernetes_without_nodesets(helm: Helm) -> None:
    web = {"enabled": True, "tokenReview": False, "proxyAddresses": ["10.0.0.0/8"], "nodesets": False}
    objects = helm.render("slurm", {"exporter": {"enabled": True, "web": web}})
    pod = one(objects, "Deployment", "slurm-exporter")["spec"]["template"]["spec"]
    assert {"--no-token-review", "--proxy-addresses=10.0.0.0/8"} <= set(pod["containers"][0]["args"])
    assert pod["automountServiceAccountToken"] is False
    assert not [flag for flag in pod["containers"][0]["args"] if flag.startswith("--nodesets")]
    kinds = {"ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount"}
    assert not [item for item in objects if item["kind"] in kinds]


def test_the_page_of_nodesets_reads_those_of_its_namespace_and_nothing_else(helm: Helm) -> None:
    web = {"enabled": True, "tokenReview": False, "proxyAddresses": ["10.0.0.0/8"]}
    objects = helm.render("slurm", {"exporter": {"enabled": True, "web": web}}, space="hpc")
    pod = one(objects, "Deployment", "slurm-exporter")["spec"]["template"]["spec"]
    controller = one(objects, "Controller")["metadata"]
    assert f"--nodesets={controller['namespace']}/{controller['name']}" in pod["containers"][0]["args"]
    assert pod["automountServiceAccountToken"] is True
    role, binding = one(objects, "Role"), one(objects, "RoleBinding")
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == controller["namespace"]
    assert role["rules"] == [
        {"apiGroups": ["slinky.slurm.net"], "resources": ["nodesets"], "verbs": ["get", "list", "watch"]}
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    subject = {"kind": "ServiceAccount", "namespace": controller["namespace"], "name": pod["serviceAccountName"]}
    assert binding["subjects"] == [subject]
    assert one(objects, "ServiceAccount")["metadata"]["name"] == pod["serviceAccountName"]
    assert not [item for item in objects if item["kind"] == "ClusterRoleBinding"]


def test_slurmrestd_serves_https_unless_it_is_switched_off(helm: Helm) -> None:
    assert one(helm.render("slurm", {}), "RestApi")["spec"]["tls"] == {"enabled": True, "required": False, "proxy": {}}
    objects = helm.render("slurm", {**RICH, "restapi": {"tls": {"enabled": False}}})
    pod = one(objects, "Deployment", "slurm-exporter")["spec"]["template"]["spec"]
    assert "--slurm-rest-api=http://slurm-restapi:6820" in pod["containers"][0]["args"]
    assert "ca" not in {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize("values", [{}, RICH, EXTERNAL], ids=["smallest", "rich", "external"])
def test_the_webhook_lets_everything_in(helm: Helm, values: dict[str, Any]) -> None:
    objects = helm.render("slurm", values)
    maps = {
        item["metadata"]["name"]: frozenset(item.get("data", {})) for item in objects if item["kind"] == "ConfigMap"
    }
    sets = tuple(views(objects, "NodeSet"))
    for kind, rules in RULES.items():
        for item in views(objects, rules.view.__name__):
            context = RuleContext(config_maps=maps, node_sets=sets, controllers=tuple(views(objects, "Controller")))
            reply = evaluate(rules, AdmissionChange(item, None, context))
            assert reply.allowed, (kind, reply.message)


def views(objects: Objects, kind: str) -> list[Any]:
    view = RULES[kind.lower()].view
    return [msgspec.convert(item, view) for item in objects if item["kind"] == kind]


def test_names_are_those_of_slurm_operator(helm: Helm) -> None:
    names = {(item["kind"], item["metadata"]["name"]) for item in helm.render("slurm", RICH)}
    assert {
        ("Controller", "slurm"),
        ("Accounting", "slurm"),
        ("RestApi", "slurm"),
        ("NodeSet", "slurm-worker-cpu"),
        ("NodeSet", "slurm-worker-gpu"),
        ("LoginSet", "slurm-login-main"),
        ("Secret", "slurm-auth-slurm"),
        ("Secret", "slurm-auth-jwt"),
        ("Secret", "slurm-sssd-conf"),
        ("ConfigMap", "slurm-config-extra"),
        ("ConfigMap", "slurm-more"),
    } <= names
    assert ("NodeSet", "slurm-worker-off") not in names


def test_every_value_reaches_an_object(helm: Helm) -> None:
    objects = helm.render("slurm", RICH)
    spec = one(objects, "Controller")["spec"]
    assert spec["extraConf"].splitlines() == [
        "KillWait=0",
        "ReturnToService=2",
        "SchedulerParameters=bf_continue,bf_interval=30",
        "PartitionName=all Nodes=ALL Default=YES MaxTime=UNLIMITED",
        "PartitionName=both Nodes=cpu,gpu State=UP",
    ]
    cpu, gpu = (one(objects, "NodeSet", f"slurm-worker-{name}")["spec"] for name in ("cpu", "gpu"))
    assert cpu["extraConf"] == "RealMemory=1000000 Weight=0"
    assert cpu["template"]["spec"]["hostname"] == "cpu-"
    assert gpu["updateStrategy"]["type"] == "RollingUpdate"
    assert gpu["updateStrategy"]["rollingUpdate"]["maxSurge"] == 1
    assert gpu["template"]["spec"]["imagePullSecrets"] == [{"name": "pull"}]
    assert gpu["template"]["spec"]["priorityClassName"] == "slurm-chart-test"
    assert [mount["name"] for mount in gpu["slurmd"]["volumeMounts"]] == ["dcgm-job-mapping"]
    assert "volumeMounts" not in cpu["slurmd"]
    scripts = one(objects, "ConfigMap", "slurm-prolog-scripts")["data"]
    assert sorted(scripts) == ["prolog-00-hello.sh", "prolog-90-dcgm.sh"]


def test_keys_are_requested_and_never_rendered(helm: Helm) -> None:
    objects = helm.render("slurm")
    for name, key in (("slurm-auth-slurm", "slurm.key"), ("slurm-auth-jwt", "jwt.key")):
        secret = one(objects, "Secret", name)
        assert secret["metadata"]["annotations"]["slinky.slurm.net/generate-keys"] == key
        assert secret["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
        assert not {"data", "stringData", "immutable"} & set(secret)
    given = helm.render("slurm", {"slurmKey": {"create": False, "secretRef": {"name": "mine", "key": "k"}}})
    assert one(given, "Controller")["spec"]["slurmKeyRef"] == {"name": "mine", "key": "k"}
    assert [item["metadata"]["name"] for item in given if item["kind"] == "Secret"] == ["slurm-auth-jwt"]


async def test_an_upgrade_leaves_a_key_alone(client: KubeClient, plane: BarePlane, helm: Helm, space: str) -> None:
    secret = Key(space, "slurm-auth-slurm")
    helm.into(plane.kubeconfig, "install", "slurm", space=space)
    have = await client.get(SECRETS, secret)
    keys = missing_keys(have.metadata.annotations, have.data)
    assert set(keys) == {"slurm.key"}
    data = {name: base64.b64encode(value).decode() for name, value in keys.items()}
    await client.patch(SECRETS, secret, {"data": data})
    helm.into(plane.kubeconfig, "upgrade", "slurm", "--set", "restapi.replicas=2", space=space)
    after = await client.get(SECRETS, secret)
    assert after.data == keys
    assert missing_keys(after.metadata.annotations, after.data) == {}


def test_an_image_may_be_text_or_parts(helm: Helm) -> None:
    digest = "sha256:" + "0" * 64
    for image, meant in (
        ("example/slurmd:1", "example/slurmd:1"),
        ({"repository": "example/slurmd", "tag": "1"}, "example/slurmd:1"),
        ({"repository": "example/slurmd", "tag": "1", "digest": digest}, f"example/slurmd@{digest}"),
    ):
        spec = one(helm.render("slurm", {"nodesets": {"a": {"slurmd": {"image": image}}}}), "NodeSet")["spec"]
        assert spec["slurmd"]["image"] == spec["logfile"]["image"] == meant


def test_log_lines_are_plain_by_choice_in_every_container(helm: Helm) -> None:
    values = {"accounting": {"enabled": True}, "nodesets": {"a": {"slurmd": {"env": [{"name": "A", "value": "b"}]}}}}
    plain = {"name": "SLINKY_LOG_FORMAT", "value": "plain"}
    for chosen, expected in ((None, []), ("json", []), ("plain", [plain])):
        objects = helm.render("slurm", {**values, "logFormat": chosen} if chosen else values)
        containers = [
            one(objects, kind)["spec"][field]
            for kind, field in (
                ("Controller", "slurmctld"),
                ("Controller", "logfile"),
                ("Accounting", "slurmdbd"),
                ("RestApi", "slurmrestd"),
                ("NodeSet", "logfile"),
            )
        ]
        assert [container.get("env", []) for container in containers] == [expected] * 5
        assert one(objects, "NodeSet")["spec"]["slurmd"]["env"] == [{"name": "A", "value": "b"}, *expected]
    with pytest.raises(Refused):
        helm.render("slurm", {**values, "logFormat": "xml"})


def test_every_field_of_a_node_set_can_be_reached_from_values(helm: Helm) -> None:
    fields = set(NodeSetSpec.__struct_encode_fields__)
    for more, absent in (({}, {"autoscaling"}), ({"autoscaling": {"maxReplicas": 4}}, {"replicas"})):
        spec = one(helm.render("slurm", {"nodesets": {"gpu": {**RICH["nodesets"]["gpu"], **more}}}), "NodeSet")["spec"]
        assert fields - set(spec) == {"extraConf", *absent}


NETWORKS = ["default", *(f"rdma-{number}" for number in range(8))]


def google(**more: Any) -> dict[str, Any]:
    return {"targetNodeSet": "gpu", "nodePool": "pool", "networks": NETWORKS, **more}


@pytest.mark.parametrize(
    ("machine", "second", "gres", "sidecars"),
    [
        ("a3mega", "eth1", "Gres=gpu:nvidia_h100_80gb_hbm3:8", ["tcpxo-daemon"]),
        ("a3ultra", "eth2", "Gres=gpu:nvidia_h200:8", []),
    ],
)
async def test_workers_on_google_machines_get_the_settings_these_need(
    kubectl: Kubectl, helm: Helm, space: str, machine: str, second: str, gres: str, sidecars: list[str]
) -> None:
    mine = {"env": [{"name": "LD_LIBRARY_PATH", "value": "/mine"}], "volumeMounts": [{"name": "a", "mountPath": "/a"}]}
    sets = {"gpu": {"slurmd": mine, "podSpec": {"volumes": [{"name": "a", "emptyDir": {}}]}}, "cpu": {}}
    values = {"nodesets": sets, "vendor": {"google": {machine: [google()]}}}
    objects = helm.render("slurm", values, space=space)
    spec = one(objects, "NodeSet", "slurm-worker-gpu")["spec"]
    pod, worker = spec["template"], spec["slurmd"]
    assert pod["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux", "cloud.google.com/gke-nodepool": "pool"}
    interfaces = yaml.safe_load(pod["metadata"]["annotations"]["networking.gke.io/interfaces"])
    assert [one["network"] for one in interfaces] == NETWORKS
    assert [one["interfaceName"] for one in interfaces[:2]] == ["eth0", second]
    for name in sidecars:
        devices = yaml.safe_load(pod["metadata"]["annotations"][f"devices.gke.io/container.{name}"])
        assert {"path": "/dev/nvidia7"} in devices
    assert worker["resources"]["limits"] == worker["resources"]["requests"] == {"nvidia.com/gpu": 8}
    env = {one["name"]: one["value"] for one in worker["env"]}
    assert env["LD_LIBRARY_PATH"] == "/mine"
    volumes = [one["name"] for one in pod["spec"]["volumes"]]
    assert volumes[0] == worker["volumeMounts"][0]["name"] == "a"
    assert {one["name"] for one in worker["volumeMounts"]} <= set(volumes)
    assert [one["name"] for one in pod["spec"].get("containers", [])] == sidecars
    assert spec["extraConf"] == gres
    assert one(objects, "ConfigMap", "slurm-config-extra")["data"] == {"gres.conf": "AutoDetect=nvidia\n"}
    other = one(objects, "NodeSet", "slurm-worker-cpu")["spec"]
    assert "resources" not in other["slurmd"]
    done = kubectl(
        "apply", "--server-side", "--validate=strict", "-n", space, "-f", "-", input=yaml.safe_dump_all(objects)
    )
    assert done.returncode == 0, done.stderr


def test_image_and_resources_of_a_set_are_those_of_its_slurmd(helm: Helm) -> None:
    """The example values of slurm-operator for GPUs write them beside slurmd."""
    image = {"repository": "registry.example/slurmd", "tag": "25.05"}
    gpus = {"limits": {"nvidia.com/gpu": 8}}
    sets = {
        "gpu": {"image": image, "resources": gpus, "logfile": {"image": "registry.example/alpine:1"}},
        "own": {"image": image, "slurmd": {"image": "registry.example/own:1"}, "podSpec": {"resources": gpus}},
    }
    objects = helm.render("slurm", {"nodesets": sets, "vendor": {"nvidia": {"dcgm": {"enabled": True}}}})
    gpu, own = (one(objects, "NodeSet", f"slurm-worker-{name}")["spec"] for name in ("gpu", "own"))
    assert (gpu["slurmd"]["image"], gpu["slurmd"]["resources"]) == ("registry.example/slurmd:25.05", gpus)
    assert gpu["logfile"]["image"] == "registry.example/alpine:1"
    assert own["slurmd"]["image"] == "registry.example/own:1"
    for spec in (gpu, own):
        assert "dcgm-job-mapping" in [mount["name"] for mount in spec["slurmd"]["volumeMounts"]]


def test_user_values_override_those_for_google_machines(helm: Helm) -> None:
    own = {"extraConf": "Weight=1", "slurmd": {"resources": {"limits": {"nvidia.com/gpu": 4}}}}
    values = {
        "nodesets": {"gpu": own},
        "configFiles": {"gres.conf": "AutoDetect=off"},
        "vendor": {"google": {"a3ultra": [google()]}},
    }
    objects = helm.render("slurm", values)
    spec = one(objects, "NodeSet")["spec"]
    assert spec["extraConf"] == "Weight=1"
    assert spec["slurmd"]["resources"]["limits"] == {"nvidia.com/gpu": 4}
    assert one(objects, "ConfigMap", "slurm-config-extra")["data"] == {"gres.conf": "AutoDetect=off"}


def test_the_number_of_workers_can_be_left_to_an_autoscaler(helm: Helm) -> None:
    sets = helm.render("slurm", {"nodesets": {"burst": {"replicas": None}, "none": {"replicas": 0}, "usual": {}}})
    replicas = {item["metadata"]["name"]: item["spec"].get("replicas") for item in sets if item["kind"] == "NodeSet"}
    assert replicas == {"slurm-worker-burst": None, "slurm-worker-none": 0, "slurm-worker-usual": 1}


def test_a_wrong_value_fails_at_install_and_leaves_nothing_behind(
    kubectl: Kubectl, plane: BarePlane, helm: Helm, space: str
) -> None:
    with pytest.raises(Refused) as refusal:
        helm.into(plane.kubeconfig, "install", "slurm", "--set", "nodesets.gpu.replicass=1", space=space)
    assert "'/nodesets/gpu': additional properties 'replicass' not allowed" in str(refusal.value)
    assert not kubectl("get", "controllers,nodesets,secrets", "-n", space, "-o", "name").stdout


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"nodeset": {}}, "nodeset"),
    ({"nodesets": {"gpu": {"replicass": 1}}}, "/nodesets/gpu"),
    ({"nodesets": {"Big": {}}}, "Big"),
    ({"controller": {"slurmctld": None}}, "at '/controller': missing property 'slurmctld'"),
    ({"nodesets": {"gpu": {"slurmd": {"volumeMount": []}}}}, "/nodesets/gpu/slurmd"),
    ({"nodesets": {"gpu": {"podSpec": {"toleration": []}}}}, "/nodesets/gpu/podSpec"),
    ({"nodesets": {"gpu": {"podSpec": {"tolerations": [{"keys": "a"}]}}}}, "/nodesets/gpu/podSpec/tolerations/0"),
    ({"nodesets": {"gpu": {"slurmd": {"resources": {"limit": {}}}}}}, "/nodesets/gpu/slurmd/resources"),
    ({"nodesets": {"gpu": {"scalingMode": "Deployment"}}}, "/nodesets/gpu/scalingMode"),
    ({"nodesets": {"gpu": {"updateStrategy": {"rollingUpdate": {"maxSurg": 1}}}}}, "rollingUpdate"),
    ({"nodesetDefaults": {"replicas": "three"}}, "/nodesetDefaults/replicas"),
    ({"controller": {"persistence": {"storageClass": "fast"}}}, "storageClass"),
    ({"controller": {"service": {"port": 99999}}}, "/controller/service/port"),
    ({"accounting": {"storageConfig": {"hostname": "db"}}}, "hostname"),
    ({"clusterName": "c" * 41}, "/clusterName"),
    ({"partitions": {"p": {"enabled": True, "nodesets": ["gone"]}}}, "gone is not an enabled entry of nodesets"),
    (
        {"nodesets": {"a": {"partition": {"enabled": True}}}, "partitions": {"a": {"enabled": True}}},
        "nodesets.a.partition makes a partition of this name already",
    ),
    ({"configFiles": {"slurm.conf": "x"}}, "slurm.conf is generated"),
    ({"vendor": {"google": {"a3mega": [google(networks=["a"])]}}}, "/vendor/google/a3mega/0/networks"),
    ({"vendor": {"google": {"a3mega": [{"nodePool": "a", "networks": NETWORKS}]}}}, "targetNodeSet"),
    ({"vendor": {"google": {"a3ultra": [google()]}}}, "vendor.google.a3ultra[0].targetNodeSet: gpu is not"),
    ({"controller": {"external": True}}, "controller.externalConfig.host is required"),
    ({"exporter": {"enabled": True, "image": "ghcr.io/slinkyproject/slurm-exporter:1"}}, "does not contain slinky"),
    ({"global": {"digests": {"slurmd": "sha256:1"}}}, "/global/digests/slurmd"),
    ({"exporter": {"enabled": True, "web": {"enabled": True, "tokenReview": False}}}, "no login is possible"),
    ({"exporter": {"web": {"addr": ":1"}}}, "/exporter/web"),
    ({"exporter": {"enabled": True, "slurmctldMetrics": {"enabled": True}}}, "set controller.metrics.enabled"),
    ({"global": {"tag": "a b"}}, "/global/tag"),
]


@pytest.mark.parametrize(("values", "why"), WRONG, ids=str)
def test_a_wrong_value_is_refused_by_name(helm: Helm, values: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused) as refusal:
        helm.render("slurm", values)
    assert why in str(refusal.value)
