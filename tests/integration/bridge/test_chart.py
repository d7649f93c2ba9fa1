# SPDX-License-Identifier: Apache-2.0
"""The chart of the bridge: Helm renders it, a real API server accepts it, and its RBAC rules are sufficient."""

import asyncio
import base64
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.chart.helm import CHARTS, Helm, Objects, Refused, one, program
from tests.integration.bridge.bridge_stage import BridgeStage, bridge_stage, cancel
from tests.support.waiting import eventually

from slinky.api import Token
from slinky.bridge import config, names
from slinky.bridge.admission import server as webhook
from slinky.bridge.views import BATCH_JOBS, OUR_PODS
from slinky.bridge.workload import policy
from slinky.kube import NAMESPACES, Forbidden, Invalid, Key, KubeClient, Resource, ServerError, Unstructured, connect
from slinky.kube.client import MERGE
from slinky.lab.kubernetes.bare_plane import BarePlane, free_port
from slinky.lab.kubernetes.pki import Authority
from slinky.slurm import SlurmClient as Slurm

FAMILIAR = """
schedulerConfig: {schedulerName: my-scheduler, partition: gpu, mcsLabel: kubernetes}
sharedConfig: {slurmRestApi: "http://slurm-restapi.slurm:6820", slurmJwtSecret: slurm-bridge-token}
scheduler: {replicaCount: 2, leaderElect: true, pdb: {enabled: true}, verbosity: 4}
controllers: {replicas: 1, image: {repository: x, tag: "1.2"}, verbosity: 2, leaderElect: false, pdb: {enabled: true}}
admission:
  managedNamespaces: []
  managedNamespaceSelector: {matchLabels: {bridge: "yes"}}
  certManager: {enabled: true, duration: 43800h, renewBefore: 8760h}
"""
RICH: dict[str, Any] = {
    "imagePullSecrets": [{"name": "pull"}],
    "scheduler": {
        "image": {"repository": "x/y", "digest": f"sha256:{'0' * 64}"},
        "featureGates": {"DRAExtendedResource": True},
        "metricsPort": 0,
        "tolerations": [{"operator": "Exists"}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
        ],
        "priorityClassName": "system-cluster-critical",
    },
    "admission": {"pdb": {"enabled": True, "maxUnavailable": "50%"}, "managedNamespaces": ["a", "b"]},
    "controllers": {"podWorkers": 4, "pdb": {"enabled": True}, "resources": {}},
    "sharedConfig": {
        "slurmRestApi": "https://slurm.example:6820",
        "slurmTlsSecret": "tls",
        "slurmJwtSecret": {"name": "mine", "key": "SLURM_JWT"},
        "token": {"create": True, "username": "slurm", "lifetime": "30m", "jwtKeyRef": {"name": "k", "key": "jwt.key"}},
    },
    "completer": {"enabled": True, "slurmctldHosts": ["a.example", "b.example"], "clusterName": "hpc"},
    "policy": {"mode": "strict", "rules": [{"name": "a", "namespaces": ["team-a"], "force": {"account": "a"}}]},
    "extraConfig": {
        "taint": "NoSchedule",
        "priorityClasses": {"urgent": {"qos": "high"}},
    },
}
#: Wrong values, and what Helm says about them.
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"schedulr": {}}, "'schedulr' not allowed"),
    ({"scheduler": {"replicas": 2}}, "/scheduler'.*'replicas' not allowed"),
    ({"scheduler": {"replicaCount": "two"}}, "/scheduler/replicaCount'"),
    ({"scheduler": {"image": {"tagg": "x"}}}, "/scheduler/image'.*'tagg' not allowed"),
    ({"scheduler": {"verbosity": "loud"}}, "/scheduler/verbosity'"),
    ({"schedulerConfig": {"partition": "a b"}}, "/schedulerConfig/partition'"),
    ({"schedulerConfig": {"schedulerName": "My Scheduler"}}, "/schedulerConfig/schedulerName'"),
    ({"admission": {"managedNamespaces": "all"}}, "/admission/managedNamespaces'"),
    ({"admission": {"failurePolicy": "Maybe"}}, "/admission/failurePolicy'"),
    ({"admission": {"certManager": {"duration": "a year"}}}, "/admission/certManager/duration'"),
    ({"admission": {"managedNamespaceSelector": {"labels": {}}}}, "'labels' not allowed"),
    ({"controllers": {"worker": 2}}, "/controllers'.*'worker' not allowed"),
    ({"sharedConfig": {"slurmRestApi": "slurm:6820"}}, "/sharedConfig/slurmRestApi'"),
    ({"sharedConfig": {"slurmJwtSecret": {"secret": "x"}}}, "/sharedConfig/slurmJwtSecret'"),
    ({"sharedConfig": {"slurmJwtSecret": ""}}, "sharedConfig.slurmJwtSecret: the name of a Secret is required"),
    ({"sharedConfig": {"token": {"create": True, "jwtKeyRef": {"name": ""}}}}, "sharedConfig.token.jwtKeyRef.name"),
    ({"completer": {"enabled": True, "slurmctldHosts": []}}, "completer.slurmctldHosts: at least one host is required"),
    ({"completer": {"slurmctldHosts": ["a\nSlurmUser=root"]}}, "/completer/slurmctldHosts/0'"),
    ({"extraConfig": {"tain": "None"}}, "/extraConfig'.*'tain' not allowed"),
    ({"extraConfig": {"taint": "Sometimes"}}, "/extraConfig/taint'"),
    ({"policy": {"rules": [{"forced": {}}]}}, "/policy/rules/0'.*'forced' not allowed"),
]
PATHS = {
    "ClusterRole": ("rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "Role": ("rbac.authorization.k8s.io/v1", "roles", True),
    "RoleBinding": ("rbac.authorization.k8s.io/v1", "rolebindings", True),
    "ServiceAccount": ("v1", "serviceaccounts", True),
    "ConfigMap": ("v1", "configmaps", True),
    "Secret": ("v1", "secrets", True),
    "Service": ("v1", "services", True),
    "Pod": ("v1", "pods", True),
    "Deployment": ("apps/v1", "deployments", True),
    "PodDisruptionBudget": ("policy/v1", "poddisruptionbudgets", True),
    "NetworkPolicy": ("networking.k8s.io/v1", "networkpolicies", True),
    "MutatingWebhookConfiguration": ("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", False),
    "ValidatingWebhookConfiguration": ("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", False),
    "ValidatingAdmissionPolicy": ("admissionregistration.k8s.io/v1", "validatingadmissionpolicies", False),
    "ValidatingAdmissionPolicyBinding": ("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings", False),
}


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(program(), tmp_path_factory.mktemp("helm"))


def settings_of(objects: Objects) -> config.BridgeSettings:
    """The bridge settings in the rendered configuration file, which must all be known."""
    settings, unknown = config.parse(one(objects, "ConfigMap")["data"]["config.yaml"])
    assert unknown == ()
    return settings


async def apply(client: KubeClient, objects: Objects, *, dry_run: bool = False) -> None:
    for manifest in objects:
        version, plural, namespaced = PATHS[manifest["kind"]]
        resource: Resource[Unstructured] = Resource(
            version, manifest["kind"], plural, Unstructured, namespaced=namespaced
        )
        await client.apply(resource, manifest, manager="helm", dry_run=dry_run)


def test_familiar_values_work_unchanged(helm: Helm) -> None:
    objects = helm.render("slurm-bridge", yaml.safe_load(FAMILIAR))
    settings = settings_of(objects)
    assert (settings.scheduler_name, settings.partition, settings.leader_elect) == ("my-scheduler", "gpu", True)
    assert settings.managed_namespace_selector.match_labels == {"bridge": "yes"}


@pytest.mark.parametrize("values", [{}, RICH], ids=["smallest", "rich"])
async def test_the_api_server_accepts_every_object(helm: Helm, kube: KubeClient, values: dict[str, Any]) -> None:
    objects = helm.render("slurm-bridge", values, space="kube-system")
    await apply(kube, [manifest for manifest in objects if manifest["kind"] != "Token"], dry_run=True)


def test_two_replicas_have_leader_election_and_disruption_budgets(helm: Helm) -> None:
    objects = helm.render("slurm-bridge", {"scheduler": {"leaderElect": False}})
    assert [manifest["spec"]["replicas"] for manifest in objects if manifest["kind"] == "Deployment"] == [2, 2]
    assert len([manifest for manifest in objects if manifest["kind"] == "PodDisruptionBudget"]) == 2
    assert settings_of(objects).leader_elect
    alone = {"scheduler": {"replicaCount": 1, "leaderElect": False}, "admission": {"replicas": 1}}
    objects = helm.render("slurm-bridge", alone)
    assert not [manifest for manifest in objects if manifest["kind"] == "PodDisruptionBudget"]
    assert not settings_of(objects).leader_elect
    scheduler = one(objects, "Deployment", "slurm-slurm-bridge-scheduler")
    assert scheduler["spec"]["strategy"] == {"type": "Recreate"}  # two bridges must not run at once


def test_the_example_values_are_valid(helm: Helm) -> None:
    example = CHARTS.parent / "examples" / "bridge" / "values.yaml"
    settings = settings_of(helm.render("slurm-bridge", yaml.safe_load(example.read_text())))
    policy.check_policy(settings.policy, settings.priority_classes)
    assert settings.priority_classes["urgent"].qos == "high"


def test_everything_configurable_reaches_the_configuration(helm: Helm) -> None:
    objects = helm.render("slurm-bridge", RICH)
    settings = settings_of(objects)
    assert settings.policy.rules[0].force == {"account": "a"}
    assert settings.policy.mode == "strict"
    assert (settings.taint, settings.tls_folder, settings.completer_socket) == (
        "NoSchedule",
        "/run/slurm-tls",
        "/run/slurm-complete/socket",
    )
    token = msgspec.convert(one(objects, "Token"), Token)
    pod = one(objects, "Deployment", "slurm-slurm-bridge-scheduler")["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["token"]["secret"]["secretName"] == token.secret_name == "mine"
    bridge, completer = pod["containers"]
    assert bridge["env"][0]["value"] == completer["args"][1] == f"/run/slurm-bridge/{token.secret_key}"
    conf = one(objects, "ConfigMap")["data"]["slurm.conf"].splitlines()
    assert conf[:3] == ["ClusterName=hpc", "SlurmctldHost=slurmctld0(a.example)", "SlurmctldHost=slurmctld1(b.example)"]


@pytest.mark.parametrize(("values", "message"), WRONG, ids=[str(values) for values, _ in WRONG])
def test_a_wrong_value_is_refused_by_its_name(
    helm: Helm, plane: BarePlane, tmp_path: Path, values: dict[str, Any], message: str
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    with pytest.raises(Refused, match=message):
        helm.into(plane.kubeconfig, "install", "slurm-bridge", "--values", str(file), space="default")


@pytest.mark.parametrize(
    ("values", "kinds", "argument"),
    [
        ({}, {"Secret"}, "--secret=slurm-slurm-bridge-admission-tls"),
        ({"certManager": {"enabled": True}}, {"Issuer", "Certificate"}, "--certificates=/certificates"),
        ({"tls": {"existingSecret": "own", "caBundle": "Zm9v"}}, set(), "--certificates=/certificates"),
    ],
    ids=["own", "cert-manager", "given"],
)
def test_certificates_come_from_exactly_one_source(
    helm: Helm, values: dict[str, Any], kinds: set[str], argument: str
) -> None:
    objects = helm.render("slurm-bridge", {"admission": values})
    assert {manifest["kind"] for manifest in objects} & {"Secret", "Issuer", "Certificate"} == kinds
    pod = one(objects, "Deployment", "slurm-slurm-bridge-admission")["spec"]["template"]["spec"]
    assert argument in pod["containers"][0]["args"]
    hooks = one(objects, "ValidatingWebhookConfiguration")["webhooks"]
    assert {hook["clientConfig"].get("caBundle", "") for hook in hooks} == {values.get("tls", {}).get("caBundle", "")}


async def test_pods_meet_the_restricted_standard(helm: Helm, kube: KubeClient) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    space = Key("", f"br-{secrets.token_hex(3)}")
    await kube.create(NAMESPACES, NAMESPACES.manifest(space, metadata={"labels": labels}))
    objects = helm.render("slurm-bridge", RICH, space=space.name)
    for manifest in objects:
        if manifest["kind"] == "ServiceAccount":
            await apply(kube, [manifest])
    for manifest in objects:
        if manifest["kind"] == "Deployment":
            pod = {"apiVersion": "v1", "kind": "Pod", **manifest["spec"]["template"]}
            pod["metadata"] = {"name": manifest["metadata"]["name"], "namespace": space.name}
            body = json.dumps(pod).encode()
            await kube.send("POST", f"/api/v1/namespaces/{space.name}/pods?dryRun=All", body=body)
    loose = {"name": "c", "image": "x"}
    body = json.dumps({"kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [loose]}}).encode()
    with pytest.raises(Forbidden, match="PodSecurity"):
        await kube.send("POST", f"/api/v1/namespaces/{space.name}/pods?dryRun=All", body=body)


@contextlib.asynccontextmanager
async def as_bridge(kube: KubeClient, plane: BarePlane, objects: Objects, folder: Path) -> AsyncIterator[KubeClient]:
    """A client with the rights that the chart gives to the bridge, and no others."""
    wanted = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    await apply(kube, [manifest for manifest in objects if manifest["kind"] in wanted])
    accounts = (manifest["metadata"]["name"] for manifest in objects if manifest["kind"] == "ServiceAccount")
    name = next(name for name in accounts if name.endswith("-scheduler"))
    async with as_account(kube, plane, name, folder) as client:
        yield client


@contextlib.asynccontextmanager
async def as_account(kube: KubeClient, plane: BarePlane, name: str, folder: Path) -> AsyncIterator[KubeClient]:
    """A client with the rights of a service account in kube-system."""
    path = f"/api/v1/namespaces/kube-system/serviceaccounts/{name}/token"
    answer = json.loads(await kube.send("POST", path, body=b'{"spec": {}}'))
    settings = yaml.safe_load(plane.kubeconfig.read_text())
    settings["users"][0]["user"] = {"token": answer["status"]["token"]}
    file = folder / f"kubeconfig-{name}"
    file.write_text(yaml.safe_dump(settings))
    async with connect(file, manager="slurm-bridge") as client:
        yield client


@pytest.fixture
async def limited(helm: Helm, kube: KubeClient, plane: BarePlane, tmp_path: Path) -> AsyncIterator[KubeClient]:
    """The bridge of the smallest chart."""
    async with as_bridge(kube, plane, helm.render("slurm-bridge", space="kube-system"), tmp_path) as client:
        yield client


async def test_the_rbac_rules_of_the_chart_are_sufficient(kube: KubeClient, limited: KubeClient, ctld: Slurm) -> None:
    async with bridge_stage(kube, ctld) as stage:
        everything, stage.client = stage.client, limited
        await stage.start()
        stage.client = everything
        await stage.add_node()
        await stage.create_pod()
        await stage.wait_bound()
        job = await stage.wait_job()
        await stage.report_phase("p", "Running")
        await stage.wait_reason("p", "Allocated")
        await stage.slurm.cancel(job.job_id)
        await stage.wait_evicted("p", "SlurmJobCancelled", final=True)
        await stage.report_stopped("p")
        await stage.wait_gone("p")


def by_address(manifest: dict[str, Any], port: int, authority: bytes) -> dict[str, Any]:
    """The same configuration, calling a process on this machine."""
    for hook in manifest["webhooks"]:
        path = hook["clientConfig"]["service"]["path"]
        bundle = base64.b64encode(authority).decode()
        hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}
    return manifest


async def delete(client: KubeClient, objects: Objects) -> None:
    """Delete cluster-wide objects."""
    for manifest in objects:
        version, plural, _ = PATHS[manifest["kind"]]
        await client.send("DELETE", f"/apis/{version}/{plural}/{manifest['metadata']['name']}")


async def wait_rejected(stage: BridgeStage, message: str, **fields: Any) -> None:
    """Wait until a pod with these fields is rejected with this message."""

    async def is_rejected() -> bool:
        with contextlib.suppress(ServerError):
            try:
                await stage.create_pod("probe", **fields)
            except Invalid as error:
                return message in str(error)
            await stage.delete_pod("probe", grace=0)  # the API server does not apply the configuration yet
        return False

    await eventually(is_rejected, f"a rejection with {message!r}")


StartAdmission = Callable[[BridgeStage], contextlib.AbstractAsyncContextManager[asyncio.Task[None]]]


@pytest.fixture
def start_admission(
    helm: Helm, kube: KubeClient, plane: BarePlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> StartAdmission:
    """Starts admission for a stage, as the chart registers it; yields its task."""
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig))
    Authority(tmp_path, "ca").issue("tls", "admission", hosts=["127.0.0.1"])

    @contextlib.asynccontextmanager
    async def admission(managed: BridgeStage) -> AsyncIterator[asyncio.Task[None]]:
        values = {
            "schedulerConfig": {"schedulerName": managed.settings.scheduler_name},
            "admission": {"managedNamespaces": [managed.namespace]},
        }
        objects = helm.render("slurm-bridge", values, space="kube-system")
        port, bundle = free_port(), (tmp_path / "ca.crt").read_bytes()
        server = asyncio.create_task(webhook.main(settings_of(objects), tmp_path, port=port))
        hooks = [manifest for manifest in objects if "webhooks" in manifest]
        policies = [manifest for manifest in objects if "AdmissionPolicy" in manifest["kind"]]
        try:
            await apply(kube, policies)
            await wait_rejected(managed, "only the scheduler may set", labels={names.JOB_LABEL: "7"})
            await apply(kube, [by_address(hook, port, bundle) for hook in hooks])
            await wait_rejected(managed, "is not a job option", annotations={names.OPTION + "x": "7"})
            yield server
        finally:
            await delete(kube, [*hooks, *policies])
            await cancel(server)

    return admission


async def test_admission_assigns_the_scheduler_in_managed_namespaces_only(
    kube: KubeClient, ctld: Slurm, start_admission: StartAdmission
) -> None:
    async with bridge_stage(kube, ctld) as managed, bridge_stage(kube, ctld) as other, start_admission(managed):
        for stage, scheduler in ((managed, managed.settings.scheduler_name), (other, "default-scheduler")):
            plain = stage.pod_manifest("plain")
            plain["spec"].pop("schedulerName")
            assert (await kube.create(OUR_PODS, plain)).spec.scheduler_name == scheduler
        template = {"spec": {**other.pod_manifest("x")["spec"], "restartPolicy": "Never"}}
        meta = {"annotations": {names.OPTION + "timelimit": "soon"}}
        with pytest.raises(Invalid, match="timelimit"):
            key = Key(other.namespace, "j")
            await kube.create(BATCH_JOBS, BATCH_JOBS.manifest(key, metadata=meta, spec={"template": template}))


async def test_only_the_bridge_labels_pods_with_jobs_and_it_works_without_admission(
    kube: KubeClient, limited: KubeClient, ctld: Slurm, start_admission: StartAdmission
) -> None:
    async with (
        bridge_stage(kube, ctld) as managed,
        bridge_stage(kube, ctld) as other,
        start_admission(managed) as server,
    ):
        managed.client = limited
        await managed.start()
        managed.client = kube
        await managed.add_node()
        await managed.create_pod()
        key = (await managed.wait_bound()).key
        await managed.report_phase("p", "Running")
        job = await managed.wait_job()
        for metadata in ({"labels": {names.JOB_LABEL: "7"}}, {"annotations": {names.SLUID_ANNOTATION: "s7"}}):
            with pytest.raises(Invalid, match="only the scheduler may set"):
                await kube.patch(OUR_PODS, key, {"metadata": metadata})
            # The bridge itself may: it labels a running pod anew when its job is lost.
            body, path = (
                json.dumps({"metadata": metadata}).encode(),
                f"/api/v1/namespaces/{key.namespace}/pods/{key.name}",
            )
            await limited.send("PATCH", path, {"dryRun": "All"}, body, content=MERGE)
        await cancel(server)
        with pytest.raises(Invalid, match="only the scheduler may set"):  # the API server itself applies the policy
            await kube.patch(OUR_PODS, key, {"metadata": {"labels": {names.JOB_LABEL: "7"}}})
        with pytest.raises(ServerError, match="failed calling webhook"):
            await kube.patch(OUR_PODS, key, {"metadata": {"annotations": {names.OPTION + "qos": "x"}}})
        await other.create_pod()  # other namespaces do not need admission
        with pytest.raises(ServerError, match="failed calling webhook"):
            await managed.create_pod("late")
        await managed.report_phase("p", "Succeeded", 0)
        await managed.wait_state(job, "CANCELLED")
        await managed.wait_released()


JOB_TRACKING = "batch.kubernetes.io/job-tracking"
CHANGES: list[dict[str, Any]] = [
    {"metadata": {"finalizers": None}},
    {"metadata": {"labels": {"team": "x"}, "annotations": {"note": "x"}}},
]


async def test_controllers_update_pods_while_admission_is_down(
    kube: KubeClient, ctld: Slurm, start_admission: StartAdmission
) -> None:
    async with bridge_stage(kube, ctld) as managed, start_admission(managed) as server:
        manifest = managed.pod_manifest("tracked", annotations={names.OPTION + "qos": "low"})
        manifest["metadata"]["finalizers"] = [JOB_TRACKING]
        await kube.create(OUR_PODS, manifest)
        await cancel(server)
        with pytest.raises(ServerError, match="failed calling webhook"):
            await managed.create_pod("late")
        # The batch controller removes its finalizer from the pods of a Job that has ended.
        for change in reversed(CHANGES):
            await managed.patch_pod("tracked", change)
        assert not (await managed.get_pod("tracked")).metadata.finalizers
        with pytest.raises(ServerError, match="failed calling webhook"):
            await managed.patch_pod("tracked", {"metadata": {"annotations": {names.OPTION + "qos": "high"}}})


FORGED: list[dict[str, Any]] = [
    {"nodeName": "n1"},
    {"labels": {names.JOB_LABEL: "7"}},
    {"annotations": {names.SLUID_ANNOTATION: "s7"}},
    {"annotations": {names.NODE_ANNOTATION: "n1"}},
]


async def test_the_api_server_protects_the_job_metadata_without_the_webhook(
    helm: Helm, kube: KubeClient, limited: KubeClient, plane: BarePlane, ctld: Slurm, tmp_path: Path
) -> None:
    async with bridge_stage(kube, ctld) as stage, bridge_stage(kube, ctld) as other:
        values = {"schedulerConfig": {"schedulerName": stage.settings.scheduler_name}, "admission": {"enabled": False}}
        objects = helm.render("slurm-bridge", values, space="kube-system")
        assert not [manifest for manifest in objects if "webhooks" in manifest]
        policies = [manifest for manifest in objects if "AdmissionPolicy" in manifest["kind"]]
        role = "cluster-admin-of-pods"
        rules = [{"apiGroups": [""], "resources": ["pods", "pods/binding"], "verbs": ["*"]}]
        binder: Objects = [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": role, "namespace": "kube-system"}},
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": role},
                "rules": rules,
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": role},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "ServiceAccount", "name": role, "namespace": "kube-system"}],
            },
        ]
        await apply(kube, [*policies, *binder])
        try:
            await wait_rejected(stage, "only the scheduler may set", labels={names.JOB_LABEL: "7"})
            for fields in FORGED:
                with pytest.raises(Invalid, match=r"only the scheduler may set|cannot name its node"):
                    await stage.create_pod("forged", **fields)
                await other.create_pod(f"free-{len(await kube.list(OUR_PODS, namespace=other.namespace))}", **fields)
            await stage.create_pod("p")
            body = json.dumps({"metadata": {"labels": {names.JOB_LABEL: "7"}}}).encode()
            path = f"/api/v1/namespaces/{stage.namespace}/pods/p"
            with pytest.raises(Invalid, match="only the scheduler may set"):
                await kube.send("PATCH", f"{path}/status", body=body, content=MERGE)
            forged = {"name": "p", "annotations": {names.SLUID_ANNOTATION: "s7"}}
            target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
            async with as_account(kube, plane, role, tmp_path) as stranger:
                binding = json.dumps({"metadata": forged, "target": target}).encode()
                with pytest.raises(Invalid, match="only the scheduler may set"):
                    await stranger.send("POST", f"{path}/binding", body=binding)
                plain = json.dumps({"metadata": {"name": "p"}, "target": target}).encode()
                await stranger.send("POST", f"{path}/binding", {"dryRun": "All"}, plain)
            await limited.send("POST", f"{path}/binding", body=binding)  # the bridge may
            assert (await stage.get_pod("p")).metadata.annotations[names.SLUID_ANNOTATION] == "s7"
            with pytest.raises(Invalid, match="of a running pod cannot be removed"):
                await stage.patch_pod("p", {"metadata": {"annotations": {names.SLUID_ANNOTATION: None}}})
            await stage.report_phase("p", "Failed", 1)
            await stage.patch_pod("p", {"metadata": {"annotations": {names.SLUID_ANNOTATION: None}}})
        finally:
            await delete(kube, policies)
