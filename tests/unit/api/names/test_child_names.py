# SPDX-License-Identifier: Apache-2.0
"""Names are a contract with clusters that already run: the worked example of the compatibility notes."""

from typing import Any

import msgspec
import pytest

from slinky.api import Accounting, Controller, LoginSet, NodeSet, RestApi, Token
from slinky.api.controller import Persistence
from slinky.api.fields.templates import PersistentVolumeClaimSpec
from slinky.api.names import child_names

KEY = {"name": "k", "key": "k"}


def read(view: type[Any], name: str, **spec: Any) -> Any:
    return msgspec.convert({"metadata": {"name": name, "namespace": "slurm"}, "spec": spec}, view)


def controller(**spec: Any) -> Controller:
    made: Controller = read(Controller, "slurm", **spec)
    return made


def test_a_controllers_children_have_the_familiar_names() -> None:
    slurm = controller()
    assert slurm.cluster_name == "slurm_slurm"
    assert slurm.workload_name == slurm.service_name == "slurm-controller"
    assert slurm.internal_service_name == "slurm-controller-internal"
    assert slurm.config_name == "slurm-config"
    assert slurm.pod_names == ("slurm-controller-0",)
    assert slurm.pod_address("slurm-controller-0") == "slurm-controller-0.slurm-controller-internal.slurm"
    assert (slurm.host, slurm.port) == ("slurm-controller.slurm", 6817)
    assert slurm.state_folder == "/var/spool/slurmctld/slurm_slurm"
    assert (slurm.worker_service_name, slurm.worker_budget_name) == ("slurm-workers-slurm", "slurm-workers-pdb-slurm")


def test_standbys_are_pods_of_their_own() -> None:
    assert controller(ha={"enabled": True, "backups": 2}).replicas == 3
    assert controller(ha={"backups": 2}).replicas == 1


def test_an_external_daemon_is_found_where_it_is_said_to_be() -> None:
    where = {"external": True, "externalConfig": {"host": "db.example", "port": 7}}
    accounting: Accounting = read(Accounting, "slurm", **where)
    assert (accounting.host, accounting.port) == ("db.example", 7)
    assert (controller(**where).host, controller(**where).port) == ("db.example", 7)


def test_other_children_have_the_familiar_names() -> None:
    accounting: Accounting = read(Accounting, "slurm")
    rest: RestApi = read(RestApi, "slurm", controllerRef={"name": "slurm"})
    login: LoginSet = read(LoginSet, "slurm-login-main", controllerRef={"name": "slurm"}, sssdConfRef=KEY)
    assert (accounting.service_name, accounting.pod_name) == ("slurm-accounting", "slurm-accounting-0")
    assert rest.url == "http://slurm-restapi.slurm:6820"
    assert (login.service_name, login.host_keys_name) == ("slurm-login-main", "slurm-login-main-ssh-host-keys")
    assert login.ssh_config_name == "slurm-login-main-ssh-config"
    assert login.port == 22


def test_the_rest_url_follows_the_port_of_the_service() -> None:
    rest: RestApi = read(RestApi, "slurm", controllerRef={"name": "slurm"}, service={"port": 80})
    assert rest.url == "http://slurm-restapi.slurm:80"


@pytest.mark.parametrize(
    ("spec", "pod", "host", "slurm_name"),
    [
        ({}, "gpu-7", "gpu-7", "gpu"),
        ({"ordinalPadding": 3}, "gpu-007", "gpu-007", "gpu"),
        ({"template": {"spec": {"hostname": "h-"}}}, "gpu-7", "h-7", "h"),
        ({"template": {"spec": {"hostname": "h-"}}, "ordinalPadding": 2}, "gpu-07", "h-07", "h"),
    ],
)
def test_a_worker_is_named_by_its_ordinal(spec: dict[str, Any], pod: str, host: str, slurm_name: str) -> None:
    nodes: NodeSet = read(NodeSet, "gpu", controllerRef={"name": "slurm"}, **spec)
    assert (nodes.pod_name(7), nodes.hostname(7), nodes.slurm_name) == (pod, host, slurm_name)
    assert nodes.ordinal(pod) == 7
    assert nodes.ordinal("other-7") is None
    assert nodes.ordinal("gpu-x1") is None


def test_labels_and_selectors_are_the_familiar_ones() -> None:
    nodes: NodeSet = read(NodeSet, "gpu", controllerRef={"name": "slurm"})
    assert nodes.labels == {
        "app.kubernetes.io/name": "slurmd",
        "app.kubernetes.io/instance": "gpu",
        "app.kubernetes.io/component": "worker",
        "slinky.slurm.net/cluster": "slurm",
    }
    assert child_names.SLURMD.selector_text("gpu") == "app.kubernetes.io/instance=gpu,app.kubernetes.io/name=slurmd"


@pytest.mark.parametrize(
    ("spec", "secret", "key", "lifetime"),
    [
        ({"username": "alice"}, "t-jwt-alice", "SLURM_JWT", 900),
        ({"username": ""}, "t-jwt-nobody", "SLURM_JWT", 900),
        ({"username": "a", "lifetime": "0s", "secretRef": {"name": "s", "key": "k"}}, "s", "k", 900),
        ({"username": "a", "lifetime": "1h30m"}, "t-jwt-a", "SLURM_JWT", 5400),
    ],
)
def test_a_token_goes_where_it_is_expected(spec: dict[str, Any], secret: str, key: str, lifetime: float) -> None:
    token: Token = read(Token, "t", **spec)
    assert (token.secret_name, token.secret_key, token.lifetime) == (secret, key, lifetime)


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("search slurm.svc.k8s.example svc.k8s.example k8s.example\nnameserver 10.0.0.10\n", "k8s.example"),
        ("nameserver 10.0.0.10\n", "cluster.local"),
        ("search example.org\n", "cluster.local"),
        ("", "cluster.local"),
    ],
)
def test_the_domain_comes_from_the_search_list(text: str, domain: str) -> None:
    assert child_names.cluster_domain(text) == domain


def test_jwt_key_ref_wins_over_its_deprecated_alias() -> None:
    both = controller(jwtKeyRef={"name": "new", "key": "k"}, jwtHs256KeyRef={"name": "old", "key": "k"})
    assert both.spec.jwt_key is not None
    assert both.spec.jwt_key.name == "new"


def test_a_claim_has_only_what_claims_have() -> None:
    slurm = controller(persistence={"existingClaim": "a", "accessModes": ["ReadWriteMany"], "storageClassName": ""})
    usual = {"requests": {"storage": "4Gi"}}
    claim = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "resources": usual}
    assert slurm.spec.persistence.claim_spec() == claim
    assert Persistence().claim_spec() == {"accessModes": ["ReadWriteOnce"], "resources": usual}
    assert PersistentVolumeClaimSpec().claim_spec() == {}
