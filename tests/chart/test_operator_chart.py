# SPDX-License-Identifier: Apache-2.0
"""The operator's chart: what it installs, with which rights, and which values it refuses."""

import asyncio
import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.chart.helm import Helm, Objects, Refused, images, one
from tests.integration.api.conftest import Kubectl
from tests.support.waiting import eventually

from slinky.api.nodeset import NODE_SETS
from slinky.cli.main import SlinkyGroup
from slinky.kube import NAMESPACES, PODS, Forbidden, Key, KubeClient, ServerError, Unstructured, connect
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.observe import Health
from slinky.operator.app import LEASE
from slinky.webhook.application import BINDING_PATH, RULES, path
from slinky.webhook.server import WebhookSettings, serving

Install = Callable[[Objects], None]

CERT_MANAGER = {"certManager": {"enabled": True}}


@pytest.fixture
def install(kubectl: Kubectl) -> Iterator[Install]:
    """Applies objects; webhook configurations and policies are deleted after the test, because they hold everywhere."""
    called: set[tuple[str, str]] = set()

    def apply(objects: Objects) -> None:
        called.update(
            (item["kind"], item["metadata"]["name"])
            for item in objects
            if "webhooks" in item or "AdmissionPolicy" in item["kind"]
        )
        done = kubectl("apply", "--server-side", "--validate=strict", "-f", "-", input=yaml.safe_dump_all(objects))
        assert done.returncode == 0, done.stderr

    yield apply
    for kind, name in called:
        kubectl("delete", kind, name)


@pytest.fixture
async def home(client: KubeClient, installed: list[Unstructured]) -> str:
    """A namespace that only takes pods of the restricted kind."""
    name = f"op-{secrets.token_hex(3)}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await client.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    return name


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"webhook": {"podsBinding": True}, "operator": {"profile": True}, "flowControl": {"enabled": True}},
        {"operator": {"replicas": 1, "leaderElection": False}, "webhook": {"enabled": False}},
        {"propagatedNodeConditions": ["GPUUnhealthy"], "priorityClassName": "system-cluster-critical"},
        {"operator": {"image": "registry.example/slinky:1"}, "webhook": {"pdb": {"maxUnavailable": 1}}},
    ],
    ids=str,
)
async def test_the_api_server_takes_everything(install: Install, helm: Helm, home: str, values: dict[str, Any]) -> None:
    install(helm.render("slurm-operator", values, home, home))


async def test_our_own_pods_are_restricted(client: KubeClient, install: Install, helm: Helm, home: str) -> None:
    objects = helm.render("slurm-operator", {}, home, home)
    install(objects)
    deployments = [item for item in objects if item["kind"] == "Deployment"]
    assert len(deployments) == 2
    for deployment in deployments:
        pod = {**deployment["spec"]["template"]}
        pod["metadata"] = {**pod["metadata"], "name": deployment["metadata"]["name"], "namespace": home}
        await client.create(PODS, {"apiVersion": "v1", "kind": "Pod", **pod}, dry_run=True)
        loose = yaml.safe_load(yaml.safe_dump(pod))
        loose["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
        with pytest.raises(Forbidden, match="PodSecurity"):
            await client.create(PODS, {"apiVersion": "v1", "kind": "Pod", **loose}, dry_run=True)


def test_two_replicas_elect_a_leader_and_survive_a_drain(helm: Helm) -> None:
    objects = helm.render("slurm-operator")
    operator = one(objects, "Deployment", "slurm-slurm-operator")["spec"]
    assert operator["replicas"] == 2
    assert "--leader-elect" in operator["template"]["spec"]["containers"][0]["args"]
    assert one(objects, "PodDisruptionBudget", "slurm-slurm-operator")["spec"]["minAvailable"] == 1
    assert "strategy" not in operator
    alone = helm.render("slurm-operator", {"operator": {"replicas": 1, "leaderElection": False}})
    assert one(alone, "Deployment", "slurm-slurm-operator")["spec"]["strategy"] == {"type": "Recreate"}


def test_every_path_of_the_webhook_is_registered_and_no_other(helm: Helm) -> None:
    objects = helm.render("slurm-operator", {"webhook": {"podsBinding": True}})
    paths = {
        webhook["clientConfig"]["service"]["path"]
        for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
        for webhook in one(objects, kind)["webhooks"]
    }
    assert paths == {path(kind) for kind in RULES} | {BINDING_PATH}


def test_a_deletion_never_waits_for_the_webhook(helm: Helm) -> None:
    for webhook in one(helm.render("slurm-operator"), "ValidatingWebhookConfiguration")["webhooks"]:
        deletes = "DELETE" in webhook["rules"][0]["operations"]
        assert webhook["failurePolicy"] == ("Ignore" if deletes else "Fail")


def test_foreign_pods_never_wait_for_the_webhook(helm: Helm) -> None:
    objects = helm.render("slurm-operator", {"webhook": {"podsBinding": True, "failurePolicy": "Fail"}})
    (binding,) = one(objects, "MutatingWebhookConfiguration")["webhooks"]
    assert binding["failurePolicy"] == "Ignore"


async def test_pods_are_bound_while_the_webhook_does_not_answer(
    client: KubeClient, install: Install, helm: Helm, home: str, space: str
) -> None:
    install(helm.render("slurm-operator", {"webhook": {"podsBinding": True}}, home, home))
    key = Key(space, "foreign")
    pod = {"containers": [{"name": "main", "image": "x"}]}
    await client.create(PODS, PODS.manifest(key, spec=pod))
    await client.bind(key, "some-node")
    assert (await client.get(PODS, key)).spec.node_name == "some-node"


async def test_objects_can_be_deleted_and_the_operator_works_while_the_webhook_is_down(
    client: KubeClient, kubectl: Kubectl, install: Install, helm: Helm, home: str, space: str
) -> None:
    sets, key = NODE_SETS.viewed_as(Unstructured), Key(space, "gpu")
    metadata = {"finalizers": ["example.com/wait"]}
    await client.create(sets, sets.manifest(key, metadata=metadata, spec={"controllerRef": {"name": "slurm"}}))
    install(helm.render("slurm-operator", {"operator": {"namespaces": space}}, home, home))  # nothing answers

    async def is_asked() -> bool:
        try:
            await client.patch(sets, key, {"spec": {"replicas": 2}})
        except ServerError as error:
            return "failed calling webhook" in str(error)
        return False

    await eventually(is_asked, "the webhook configuration in force")
    await client.patch(sets, key, {"metadata": {"labels": {"team": "a"}}})
    operator = f"--as=system:serviceaccount:{home}:{home}-slurm-operator"
    for patch in ({"spec": {"replicas": 3}}, {"metadata": {"annotations": {"a": "b"}}}):
        done = kubectl("patch", "nodeset", "gpu", "-n", space, operator, "--type=merge", "-p", json.dumps(patch))
        assert done.returncode == 0, done.stderr
    await client.delete(sets, key)
    await client.patch(sets, key, {"metadata": {"finalizers": []}})
    assert await client.find(sets, key) is None


def test_the_webhook_is_not_called_for_system_namespaces(helm: Helm) -> None:
    objects = helm.render("slurm-operator", {"webhook": {"podsBinding": True, "namespaces": "a, b"}}, "op", "home")
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
        for webhook in one(objects, kind)["webhooks"]:
            out, only = webhook["namespaceSelector"]["matchExpressions"]
            assert {"kube-system", "kube-public", "kube-node-lease"} <= set(out["values"])
            assert only["values"] == ["a", "b"]
            assert ("home" in out["values"]) == (kind == "MutatingWebhookConfiguration")


def test_every_image_has_a_fixed_tag(helm: Helm) -> None:
    full = {"nodesets": {"a": {}}, "loginsets": {"a": {}}, "accounting": {"enabled": True}}
    complete: dict[str, Any] = {"completer": {"enabled": True}}
    for chart, values in (("slurm-operator", {}), ("slurm", full), ("slurm-bridge", complete)):
        objects = helm.render(chart, values)
        names = [name for item in objects for name in images(item)]
        assert names
        for name in names:
            assert ":" in name.rpartition("/")[2], name
            assert not name.endswith(":latest"), name


RIGHTS: list[tuple[str, str, bool]] = [
    ("operator", "list secrets", True),
    ("operator", "delete pods", True),
    ("operator", "patch nodesets.slinky.slurm.net/status", True),
    ("operator", "delete nodesets.slinky.slurm.net", False),
    ("operator", "create leases.coordination.k8s.io", False),
    ("operator", "delete deployments.apps", False),
    ("operator", "create rolebindings.rbac.authorization.k8s.io", False),
    ("operator", "create pods/exec", False),
    ("webhook", "get configmaps", True),
    ("webhook", "list nodesets.slinky.slurm.net", True),
    ("webhook", "get nodesets.slinky.slurm.net", False),
    ("webhook", "list secrets", False),
    ("webhook", "get secrets", False),
    ("webhook", "patch pods", False),
    ("webhook", "create nodesets.slinky.slurm.net", False),
]


@pytest.mark.parametrize("limited", [False, True], ids=["everywhere", "one namespace"])
async def test_permissions_are_limited_to_what_is_needed(
    client: KubeClient, install: Install, helm: Helm, home: str, limited: bool
) -> None:
    work, other = f"{home}-work", f"{home}-other"
    for name in (work, other):
        await client.create(NAMESPACES, {"metadata": {"name": name}})
    only = {"namespaces": work} if limited else {}
    install(helm.render("slurm-operator", {"operator": only, "webhook": only}, home, home))
    accounts = {"operator": f"{home}-slurm-operator", "webhook": f"{home}-slurm-operator-webhook"}
    for part, what, allowed in RIGHTS:
        for space in (work, other):
            is_allowed = await can(client, f"system:serviceaccount:{home}:{accounts[part]}", what, space)
            assert is_allowed == (allowed and (space == work or not limited)), (part, what, space)


#: Not resources: policies in the API server ask whether the sender of a request may update them.
MARKS = ("jobmetadata", "childmetadata")


@pytest.mark.parametrize("chart", ["slurm-operator", "slurm-bridge"])
def test_no_role_allows_updates_or_wildcards(helm: Helm, chart: str) -> None:
    """All writes are patches. The API server demands `update` of finalizers before it accepts owner references, and the
    policies of the charts ask for `update` of `jobmetadata` and `childmetadata`, which are no resources.
    """
    rich = {"slurm-operator": {"webhook": {"podsBinding": True}}, "slurm-bridge": {"completer": {"enabled": True}}}
    users = {f"slurm-slurm-operator-{role}" for role in ("view", "edit", "admin")}
    objects = [item for item in helm.render(chart, rich[chart]) if item["metadata"]["name"] not in users]
    rules = [rule for item in objects for rule in item.get("rules", ())]
    assert rules
    for rule in rules:
        assert "*" not in (*rule["apiGroups"], *rule["resources"], *rule["verbs"]), rule
        if "update" in rule["verbs"]:
            assert all(name.endswith("/finalizers") or name in MARKS for name in rule["resources"]), rule


async def test_the_operator_may_write_its_own_lease_only(
    client: KubeClient, install: Install, helm: Helm, home: str
) -> None:
    install(helm.render("slurm-operator", {}, home, home))
    who = f"system:serviceaccount:{home}:{home}-slurm-operator"
    for what, name, allowed in (("create", "", True), ("patch", LEASE, True), ("patch", "another", False)):
        assert await can(client, who, f"{what} leases.coordination.k8s.io", home, name) == allowed, (what, name)


async def can(client: KubeClient, who: str, what: str, space: str, name: str = "") -> bool:
    """What the API server says about a right such as `patch nodesets.slinky.slurm.net/status`."""
    verb, named = what.split()
    named, _, sub = named.partition("/")
    resource, _, group = named.partition(".")
    asked = {"verb": verb, "resource": resource, "group": group, "subresource": sub, "namespace": space, "name": name}
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    body = msgspec.json.encode({**kind, "spec": {"user": who, "resourceAttributes": asked}})
    answer = await client.send("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body=body)
    allowed: bool = msgspec.json.decode(answer)["status"]["allowed"]
    return allowed


async def test_the_permissions_of_the_webhook_suffice_for_its_certificates(
    plane: BarePlane, kubectl: Kubectl, install: Install, helm: Helm, home: str, tmp_path: Path
) -> None:
    install(helm.render("slurm-operator", {}, home, home))
    name = f"{home}-slurm-operator-webhook"
    token = (await asyncio.to_thread(kubectl, "create", "token", name, "-n", home)).stdout.strip()
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    settings = WebhookSettings(namespace=home, service=name, configuration=name, host="127.0.0.1", port=0)
    async with connect(tmp_path / "kubeconfig") as limited, serving(settings, Health(), limited):
        bundles = kubectl(
            "get", "validatingwebhookconfiguration", name, "-o", "jsonpath={.webhooks[*].clientConfig.caBundle}"
        )
        assert len(set(bundles.stdout.split())) == 1
        assert len(bundles.stdout.split()) == len(RULES) + 3  # three kinds have a second entry, for their deletion
        ca = kubectl("get", "secret", "slurm-operator-webhook-ca", "-n", home, "-o", "jsonpath={.data.ca\\.crt}")
        assert ca.stdout == bundles.stdout.split()[0]
    install([item for item in helm.render("slurm-operator", {}, home, home) if item["kind"] == "Secret"])
    again = kubectl("get", "secret", "slurm-operator-webhook-ca", "-n", home, "-o", "jsonpath={.data.ca\\.crt}")
    assert again.stdout == ca.stdout


def test_cert_manager_is_an_option(helm: Helm) -> None:
    objects = helm.render("slurm-operator", CERT_MANAGER, "op", "home")
    assert sorted(item["kind"] for item in objects if item["apiVersion"] == "cert-manager.io/v1") == [
        "Certificate",
        "Certificate",
        "Issuer",
        "Issuer",
    ]
    hook = one(objects, "ValidatingWebhookConfiguration")
    assert hook["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] == "home/op-slurm-operator-webhook"
    assert not [item for item in objects if item["kind"] == "Secret"]
    assert [item["kind"] for item in objects if item["kind"] == "Role"] == ["Role"]


def test_definitions_are_an_optional_dependency(helm: Helm) -> None:
    kinds = [item["kind"] for item in helm.render("slurm-operator", {"crds": {"enabled": True}})]
    assert kinds.count("CustomResourceDefinition") == 6
    assert "CustomResourceDefinition" not in [item["kind"] for item in helm.render("slurm-operator")]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"operater": {}}, "operater"),
    ({"operator": {"replica": 2}}, "'replica' not allowed"),
    ({"webhook": None}, "missing property 'webhook'"),
    ({"operator": {"affinity": {"nodeAfinity": {}}}}, "/operator/affinity"),
    ({"operator": {"metricsPort": 70000}}, "/operator/metricsPort"),
    ({"operator": {"metricsPort": "http"}}, "/operator/metricsPort"),
    ({"operator": {"logLevel": "loud"}}, "/operator/logLevel"),
    ({"operator": {"image": {"tag": "a b"}}}, "/operator/image/tag"),
    ({"webhook": {"validating": {"failurePolicy": "Maybe"}}}, "/webhook/validating/failurePolicy"),
    ({"webhook": {"timeoutSeconds": 60}}, "/webhook/timeoutSeconds"),
    ({"operator": {"image": {"digest": "sha256:1"}}}, "/operator/image"),
    ({"operator": {"metricsSecure": True, "metricsPort": 0}}, "operator.metricsSecure needs a port"),
    ({"webhook": {"metricsSecure": True}}, "webhook.metricsSecure needs a port: set webhook.metricsPort"),
    ({"operator": {"metricsPort": 8081}}, "operator.metricsPort and operator.healthPort must differ"),
]


@pytest.mark.parametrize(("values", "why"), WRONG, ids=str)
def test_a_wrong_value_is_refused_by_name(helm: Helm, values: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused) as refusal:
        helm.render("slurm-operator", values)
    assert why in str(refusal.value)


def test_every_flag_of_the_chart_is_one_of_the_command(helm: Helm) -> None:
    secure = {"metricsPort": 8080, "metricsSecure": True}
    for item in helm.render("slurm-operator", {"operator": {**secure, "profile": True}, "webhook": secure}):
        if item["kind"] == "Deployment":
            (container,) = item["spec"]["template"]["spec"]["containers"]
            verb, *flags = container["args"]
            assert ("--profile" in flags) == (verb == "operator")
            known = {option for given in SlinkyGroup.load(verb).params for option in given.opts}
            assert {flag.split("=")[0] for flag in flags} <= known


WORKER = {"app.kubernetes.io/name": "slurmd", "app.kubernetes.io/component": "worker"}
RING = {"slinky.slurm.net/key-stage": "Settled"}
CHILDREN: list[dict[str, Any]] = [
    {"kind": "Pod", "metadata": {"labels": WORKER}, "spec": {"containers": [{"name": "main", "image": "x"}]}},
    {"kind": "Secret", "metadata": {"annotations": RING}, "stringData": {"slurm.key": "forged"}},
]


@pytest.mark.parametrize("child", CHILDREN, ids=lambda child: child["kind"])
async def test_only_the_operator_creates_workers_and_key_rings(
    kubectl: Kubectl, install: Install, helm: Helm, home: str, space: str, child: dict[str, Any]
) -> None:
    install(helm.render("slurm-operator", {"operator": {"namespaces": space}}, home, home))
    verbs = "--verb=get,list,create,update,patch,delete"
    for command in (
        ("role", "tenant", verbs, "--resource=pods,secrets"),
        ("rolebinding", "tenant", "--role=tenant", "--user=tenant"),
    ):
        done = kubectl("create", *command, "-n", space)
        assert done.returncode == 0, done.stderr
    meta = {**child["metadata"], "name": "x", "namespace": space}
    plain = {**child, "apiVersion": "v1", "metadata": {"name": "x", "namespace": space}}
    marked = {**plain, "metadata": meta}

    def create(item: dict[str, Any], user: str, *words: str) -> str:
        done = kubectl("create", "-f", "-", f"--as={user}", *words, input=yaml.safe_dump(item))
        return done.stderr

    await eventually(lambda: "only slurm-operator may create" in create(marked, "tenant", "--dry-run=server"), "policy")
    operator = f"system:serviceaccount:{home}:{home}-slurm-operator"
    assert create(marked, operator, "--dry-run=server") == ""
    assert create(plain, "tenant") == ""
    verb, marks = ("label", WORKER) if child["kind"] == "Pod" else ("annotate", RING)
    words = [f"{key}={value}" for key, value in marks.items()]
    done = kubectl(verb, child["kind"].lower(), "x", *words, "-n", space, "--as=tenant")
    assert "only slurm-operator may create" in done.stderr
    # What an operator has marked can be changed otherwise: finalizers, owner references, other labels.
    assert kubectl(verb, child["kind"].lower(), "x", *words, "-n", space).returncode == 0
    assert kubectl("label", child["kind"].lower(), "x", "a=b", "-n", space, "--as=tenant").returncode == 0


USERS: list[tuple[str, str, bool]] = [
    ("view", "list nodesets.slinky.slurm.net", True),
    ("view", "create nodesets.slinky.slurm.net", False),
    ("edit", "create nodesets.slinky.slurm.net", True),
    ("edit", "update nodesets.slinky.slurm.net/scale", True),
    ("edit", "create tokens.slinky.slurm.net", False),
    ("edit", "create controllers.slinky.slurm.net", False),
    ("admin", "create tokens.slinky.slurm.net", True),
    ("admin", "patch controllers.slinky.slurm.net", True),
    ("admin", "update childmetadata.slinky.slurm.net", False),
]


async def test_the_roles_of_users_allow_what_the_page_says(
    client: KubeClient, kubectl: Kubectl, install: Install, helm: Helm, home: str, space: str
) -> None:
    install(helm.render("slurm-operator", {}, home, home))
    for role in ("view", "edit", "admin"):
        name = f"{home}-slurm-operator-{role}"
        done = kubectl("create", "rolebinding", role, f"--clusterrole={name}", f"--user={name}", "-n", space)
        assert done.returncode == 0, done.stderr
    for role, what, allowed in USERS:
        assert await can(client, f"{home}-slurm-operator-{role}", what, space) == allowed, (role, what)


@pytest.mark.parametrize(
    ("values", "roles"),
    [({}, {"view"}), ({"edit": True, "admin": True}, {"view", "edit", "admin"}), ({"view": False}, set())],
)
def test_the_roles_that_become_part_of_those_of_kubernetes(
    helm: Helm, values: dict[str, bool], roles: set[str]
) -> None:
    objects = helm.render("slurm-operator", {"aggregateRoles": values})
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    labels = {
        item["metadata"]["name"]: {key for key in item["metadata"]["labels"] if key.startswith(prefix)}
        for item in objects
        if item["kind"] == "ClusterRole"
    }
    assert {name: found for name, found in labels.items() if found} == {
        f"slurm-slurm-operator-{role}": {prefix + role} for role in roles
    }
