# SPDX-License-Identifier: Apache-2.0
from typing import Any

import msgspec
import pytest
from tests.unit.operator.samples import accounting, controller, node_set, trusted_snapshot

from slinky.api.names import metadata
from slinky.kube.errors import Blocked
from slinky.kube.types import ObjectMeta
from slinky.kube.views import CONFIG_MAPS, SERVICES, STATEFUL_SETS, ConfigMap, ReplicaStatus
from slinky.operator.build.config_files import Files, collect_files
from slinky.operator.build.pod_parts import Images
from slinky.operator.controller.conf import MIN_NODE_COUNT, slurm_conf
from slinky.operator.controller.config_generation import Decision, Generation, GenerationState
from slinky.operator.controller.objects import ActiveConfig, service
from slinky.operator.controller.plan import ControllerInputs, config_digest, config_files, plan
from slinky.operator.controller.status import health
from slinky.operator.framework.children import SERVICE_MONITORS, ChildrenPlan
from slinky.operator.slurm.snapshot import SlurmSnapshot
from slinky.slurm.conf import ConfError, parse

HA: dict[str, Any] = {"ha": {"enabled": True, "backups": 2}, "persistence": {"existingClaim": "shared"}}


def inputs(**more: Any) -> ControllerInputs:
    none = ControllerInputs(None, (), Files(), slurm_key="k", jwt_key=b"j", jwks="", service_monitors=False)
    return none._replace(**more)


def planned(parent: Any, **more: Any) -> ChildrenPlan:
    known, images = inputs(**more), Images("reg/{daemon}:1")
    return plan(parent, known, images, ActiveConfig(config_files(parent, known), config_digest(parent, known, images)))


def test_slurmctld_runs_the_image_of_its_generation_and_not_that_of_an_untried_one() -> None:
    parent, known = controller(slurmctld={"image": "new"}), inputs()
    active = ActiveConfig(config_files(parent, known), "digest", image="old")
    made = plan(parent, known, Images("reg/{daemon}:1"), active)
    workload = next(manifest for resource, manifest in made.apply if resource is STATEFUL_SETS)
    pod = workload["spec"]["template"]["spec"]
    assert {container["image"] for container in (*pod["initContainers"], *pod["containers"])} == {"old"}


def objects(parent: Any, **more: Any) -> dict[str, Any]:
    made = planned(parent, **more)
    return {f"{resource.kind}/{manifest['metadata']['name']}": manifest for resource, manifest in made.apply}


def settings(text: str) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for line in parse(text):
        result.setdefault(line[0].key, []).append(line[0].value)
    return result


def test_the_children_have_the_documented_names() -> None:
    assert list(objects(controller())) == [
        "Service/slurm-controller-internal",
        "Service/slurm-controller",
        "ConfigMap/slurm-config",
        "StatefulSet/slurm-controller",
    ]


def test_the_public_service_follows_a_failover_without_the_operator() -> None:
    for parent in (controller(), controller(**HA)):
        assert service(parent)["spec"]["selector"] == {
            "app.kubernetes.io/name": "slurmctld",
            "app.kubernetes.io/instance": "slurm",
        }
        pod = objects(parent)["StatefulSet/slurm-controller"]["spec"]["template"]["spec"]
        assert pod["containers"][0]["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_standby_controllers_do_not_wait_for_each_other() -> None:
    spec = objects(controller(**HA))["StatefulSet/slurm-controller"]["spec"]
    assert (spec["replicas"], spec["podManagementPolicy"]) == (3, "Parallel")
    assert "volumeClaimTemplates" not in spec
    conf = objects(controller(**HA))["ConfigMap/slurm-config"]["data"]["slurm.conf"]
    assert settings(conf)["SlurmctldHost"] == [
        f"slurm-controller-{n}(slurm-controller-{n}.slurm-controller-internal.ns)" for n in range(3)
    ]


def test_a_service_drops_external_addresses_and_keeps_our_port_and_selector() -> None:
    parent = controller(
        service={
            "spec": {
                "externalIPs": ["1.2.3.4"],
                "type": "NodePort",
                "selector": {"app.kubernetes.io/name": "x", "y": "z"},
            },
            "port": 7000,
            "nodePort": 30000,
        }
    )
    spec = service(parent)["spec"]
    assert "externalIPs" not in spec
    assert spec["type"] == "NodePort"
    assert spec["selector"] == {"app.kubernetes.io/name": "slurmctld", "app.kubernetes.io/instance": "slurm", "y": "z"}
    assert spec["ports"] == [
        {"name": "slurmctld", "port": 7000, "targetPort": "slurmctld", "protocol": "TCP", "nodePort": 30000}
    ]


@pytest.mark.parametrize("port", [{"name": "slurmctld", "port": 1}, {"name": "x", "port": 6817}])
def test_a_second_entry_for_our_port_is_rejected(port: dict[str, Any]) -> None:
    with pytest.raises(Blocked, match="PortTaken"):
        service(controller(service={"spec": {"ports": [port]}}))
    more = service(controller(service={"spec": {"ports": [{"name": "x", "port": 1}]}}))["spec"]["ports"]
    assert [result["port"] for result in more] == [1, 6817]


def test_clients_use_the_service_if_it_has_the_port_of_slurmctld() -> None:
    assert settings(slurm_conf(controller(), None, (), Files()))["SlurmctldAddr"] == ["slurm-controller.ns"]
    elsewhere = settings(slurm_conf(controller(service={"port": 7000}), None, (), Files()))
    assert "SlurmctldAddr" not in elsewhere
    assert elsewhere["SlurmctldHost"] == ["slurm-controller-0(slurm-controller-0.slurm-controller-internal.ns)"]


def test_a_host_returns_to_service_by_itself_unless_the_site_decides_otherwise() -> None:
    assert settings(slurm_conf(controller(), None, (), Files()))["ReturnToService"] == ["2"]
    own = settings(slurm_conf(controller(extraConf="returntoservice=0"), None, (), Files()))
    assert "ReturnToService" not in own
    outside = controller(external=True, externalConfig={"host": "c", "port": 6817})
    assert "ReturnToService" not in settings(slurm_conf(outside, None, (), Files()))


def test_pods_inherit_labels_but_not_those_of_tools() -> None:
    parent = controller(template={"metadata": {"labels": {"tier": "pod", metadata.APP_NAME: "x"}}})
    meta = msgspec.structs.replace(
        parent.metadata,
        labels={"team": "a", "tier": "all", "helm.sh/chart": "slurm-1"},
        annotations={"argocd.argoproj.io/tracking-id": "1"},
    )
    made = objects(msgspec.structs.replace(parent, metadata=meta))["StatefulSet/slurm-controller"]["spec"]["template"]
    result = made["metadata"]["labels"]
    assert (result["team"], result["tier"], result[metadata.APP_NAME]) == ("a", "pod", "slurmctld")
    assert "helm.sh/chart" not in result
    assert not [key for key in made["metadata"]["annotations"] if "argocd" in key]


@pytest.mark.parametrize(
    ("spec", "source"),
    [
        ({"persistence": {"enabled": False}}, {"emptyDir": {}}),
        ({"persistence": {"existingClaim": "mine"}}, {"persistentVolumeClaim": {"claimName": "mine"}}),
    ],
    ids=["none", "existing"],
)
def test_where_the_state_is_kept(spec: dict[str, Any], source: dict[str, Any]) -> None:
    made = objects(controller(**spec))["StatefulSet/slurm-controller"]["spec"]
    volumes = {volume.pop("name"): volume for volume in made["template"]["spec"]["volumes"]}
    assert volumes["statesave"] == source
    assert "volumeClaimTemplates" not in made


def test_a_claim_is_made_from_the_spec() -> None:
    asked = {"accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "1Gi"}}}
    made = objects(controller(persistence=asked))["StatefulSet/slurm-controller"]["spec"]
    assert made["volumeClaimTemplates"] == [{"metadata": {"name": "statesave"}, "spec": asked}]


def annotations(parent: Any, **more: Any) -> dict[str, str]:
    result: dict[str, str] = objects(parent, **more)["StatefulSet/slurm-controller"]["spec"]["template"]["metadata"][
        "annotations"
    ]
    return result


def test_a_changed_file_key_or_reference_rolls_the_pod() -> None:
    before = annotations(controller())
    for change in (
        {"slurm_key": "other"},
        {"jwt_key": b"other"},
        {"jwks": "other"},
        {"files": Files(contents={"extra/gres.conf": "x"})},
        {"node_sets": (node_set(),)},
    ):
        assert annotations(controller(), **change) != before, change


def test_reconfiguring_in_place_does_not_replace_the_pod() -> None:
    parent = controller(inplaceReconfigure=True)
    assert metadata.SLURM_CONFIG_HASH not in annotations(parent)
    assert annotations(parent) == annotations(parent, node_sets=(node_set(),))
    made = objects(parent)["StatefulSet/slurm-controller"]["spec"]["template"]["spec"]["initContainers"]
    assert [container["name"] for container in made] == ["reconfigure", "logfile"]
    # scontrol proves itself through slurmctld's own socket.
    assert "/run/slurmctld" in [result["mountPath"] for result in made[0]["volumeMounts"]]


def test_slurmctld_waits_for_slurmdbd_with_a_visible_reason() -> None:
    parent = controller(accountingRef={"name": "slurm"})
    pod = objects(parent, accounting=accounting())["StatefulSet/slurm-controller"]["spec"]["template"]["spec"]
    gate = pod["initContainers"][-1]
    assert gate["name"] == "await-accounting"
    assert {"name": "ACCOUNTING_HOST", "value": "slurm-accounting.ns"} in gate["env"]
    assert "slurm-accounting" not in str(gate["command"])


def test_a_missing_accounting_blocks_the_controller() -> None:
    with pytest.raises(Blocked, match="AccountingMissing"):
        planned(controller(accountingRef={"name": "x"}))


def test_the_address_of_an_external_accounting_is_in_slurm_conf() -> None:
    outside = accounting(external=True, externalConfig={"host": "dbd.example", "port": 7777})
    result = settings(slurm_conf(controller(), outside, (), Files()))
    assert result["AccountingStorageHost"] == ["dbd.example"]
    assert result["AccountingStoragePort"] == ["7777"]


def test_an_external_controller_has_a_configuration_and_no_pods() -> None:
    made = planned(controller(external=True, externalConfig={"host": "ctl", "port": 7000}))
    assert [resource for resource, _ in made.apply] == [CONFIG_MAPS]
    assert {resource for resource, _ in made.delete} == {STATEFUL_SETS, SERVICES}


def test_node_sets_and_partitions_are_in_the_file_in_order() -> None:
    sets = (
        node_set("b", partition={"enabled": True, "config": "State=UP"}),
        node_set("a", template={"spec": {"hostname": "x-"}}),
    )
    lines = slurm_conf(controller(), None, sets, Files()).splitlines()
    assert [line for line in lines if line.startswith(("NodeSet=", "PartitionName="))] == [
        "NodeSet=x Feature=x",
        "NodeSet=b Feature=b",
        "PartitionName=b Nodes=b State=UP",
    ]


def test_a_node_set_keeps_its_partition_until_it_is_deleted() -> None:
    going = node_set(deleting=1, partition={"enabled": True})
    lines = slurm_conf(controller(), None, (going,), Files()).splitlines()
    assert [line.split("=")[0] for line in lines if line.startswith(("NodeSet=", "PartitionName="))] == [
        "NodeSet",
        "PartitionName",
    ]


@pytest.mark.parametrize(
    "spec",
    [
        {"partition": {"enabled": True, "config": "PartitionName=other"}},
        {"partition": {"enabled": True, "config": "State=UP # PrologSlurmctld=/bin/sh"}},
        {"partition": {"enabled": True, "config": "State=UP \\"}},
        {"template": {"spec": {"hostname": "a b"}}},
        {"template": {"spec": {"hostname": "a\nPrologSlurmctld=/bin/sh"}}},
        {"template": {"spec": {"hostname": "$(reboot)"}}},
    ],
)
def test_a_value_cannot_add_a_setting(spec: dict[str, Any]) -> None:
    with pytest.raises(ConfError, match="NodeSet gpu: "):
        slurm_conf(controller(), None, (node_set(**spec),), Files())


@pytest.mark.parametrize("text", ["Include /etc/passwd", "include\t/x", "A=1 \\\ninclude /x", "no equals sign", "A="])
def test_extra_conf_includes_no_file_and_parses_back(text: str) -> None:
    with pytest.raises(ConfError):
        slurm_conf(controller(extraConf=text), None, (), Files())


def test_two_partitions_of_one_name_are_rejected() -> None:
    parent = controller(extraConf="PartitionName=gpu Nodes=ALL")
    with pytest.raises(ConfError, match="gpu is defined 2 times"):
        slurm_conf(parent, None, (node_set(partition={"enabled": True}),), Files())


def test_max_node_count_allows_twice_the_workers() -> None:
    room = settings(slurm_conf(controller(), None, (node_set(replicas=3000),), Files()))["MaxNodeCount"]
    assert room == ["8192"]
    assert settings(slurm_conf(controller(), None, (), Files()))["MaxNodeCount"] == [str(MIN_NODE_COUNT)]


def test_files_of_the_site_never_replace_the_operators() -> None:
    parent = controller(configFileRefs=[{"name": "extra"}], prologScriptRefs=[{"name": "scripts"}])
    maps = {
        "extra": ConfigMap(ObjectMeta(name="extra"), {"cgroup.conf": "CgroupPlugin=disabled", "gres.conf": "x"}),
        "scripts": ConfigMap(ObjectMeta(name="scripts"), {"10-check.sh": "#!/bin/sh"}),
    }
    result = collect_files(parent, maps)
    made = objects(parent, files=result)["ConfigMap/slurm-config"]["data"]
    assert (made["cgroup.conf"], made["10-check.sh"]) == ("CgroupPlugin=disabled", "#!/bin/sh")
    assert settings(made["slurm.conf"])["Prolog"] == ["10-check.sh"]
    bad = {**maps, "extra": ConfigMap(ObjectMeta(name="extra"), {"slurm.conf": "x"})}
    with pytest.raises(Blocked, match="ForbiddenFile"):
        collect_files(parent, bad)
    with pytest.raises(Blocked, match="ForbiddenFile"):
        collect_files(parent, {**maps, "scripts": ConfigMap(ObjectMeta(name="scripts"), {"slurm.conf": "x"})})


def test_a_service_monitor_is_created_if_enabled_and_served() -> None:
    wanted = controller(metrics={"enabled": True, "serviceMonitor": {"enabled": True, "interval": "30s"}})
    made = objects(wanted, service_monitors=True)["ServiceMonitor/slurm-controller"]["spec"]
    assert [endpoint["interval"] for endpoint in made["endpoints"]] == ["30s"] * 4
    assert "ServiceMonitor/slurm-controller" not in objects(wanted)
    assert [r for r, _ in planned(controller(), service_monitors=True).delete] == [SERVICE_MONITORS]


def test_scripts_contain_no_text_from_a_spec() -> None:
    parent = controller(clusterName="x", extraConf="SchedulerParameters=a=$(reboot)", inplaceReconfigure=True)
    pod = objects(parent, accounting=None)["StatefulSet/slurm-controller"]["spec"]["template"]["spec"]
    assert "reboot" not in str([c["command"] for c in pod["initContainers"]])


STATUS: list[tuple[str, Any, ReplicaStatus | None, SlurmSnapshot, bool]] = [
    ("nothing yet", controller(), None, SlurmSnapshot(), False),
    ("one ready", controller(), ReplicaStatus(ready_replicas=1, updated_replicas=1), trusted_snapshot(), True),
    (
        "a standby is never ready",
        controller(**HA),
        ReplicaStatus(ready_replicas=1, updated_replicas=3),
        SlurmSnapshot(),
        True,
    ),
]


@pytest.mark.parametrize(("law", "parent", "status", "sight", "ready"), STATUS, ids=[case[0] for case in STATUS])
def test_when_a_controller_is_ready(
    law: str, parent: Any, status: ReplicaStatus | None, sight: SlurmSnapshot, ready: bool
) -> None:
    made = Generation(1, "d", {}, GenerationState.LOADED)
    assert health(parent, status, True, sight, Decision(made, made, made.id), made.id).ready.value is ready
