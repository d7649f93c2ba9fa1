# SPDX-License-Identifier: Apache-2.0
"""Accounting, RestApi and LoginSet, and the small pieces."""

from base64 import b64decode
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from tests.unit.operator.made import accounting, controller, host, seeing

from slinky.api.loginset import LoginSet
from slinky.api.names import metadata
from slinky.api.restapi import RestApi
from slinky.kube.errors import Blocked
from slinky.kube.views import SECRETS, SERVICES, STATEFUL_SETS, ReplicaStatus
from slinky.operator.accounting.plan import AccountingInputs
from slinky.operator.accounting.plan import plan as accounting_plan
from slinky.operator.accounting.status import health as accounting_health
from slinky.operator.build.pod_parts import DaemonHashes, Images
from slinky.operator.build.sshd import (
    KEY_TYPES,
    generate_host_keys,
    login_config,
    private_name,
    public_name,
    worker_config,
)
from slinky.operator.framework.references import accounting_secrets, controller_config_maps, login_set_secrets
from slinky.operator.loginset import objects as login
from slinky.operator.restapi import objects as rest
from slinky.operator.slurm.connections import preferred_rest_api
from slinky.operator.slurm.snapshot import SlurmSnapshot
from slinky.slurm import Presence
from slinky.slurm.conf import ConfError, parse

IMAGES = Images("reg/{daemon}:1")


def rest_api(name: str = "slurm", made: str = "", **spec: Any) -> RestApi:
    meta = {"name": name, "namespace": "ns", "uid": "u", "creationTimestamp": made}
    return msgspec.convert({"metadata": meta, "spec": {"controllerRef": {"name": "slurm"}, **spec}}, RestApi)


def login_set(**spec: Any) -> LoginSet:
    body = {"controllerRef": {"name": "slurm"}, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}, **spec}
    return msgspec.convert({"metadata": {"name": "login", "namespace": "ns", "uid": "u"}, "spec": body}, LoginSet)


def test_slurmdbd_gets_its_password_through_a_secret_only() -> None:
    made = accounting_plan(accounting(), AccountingInputs("k", b"j", "", "geheim"), IMAGES)
    assert [resource for resource, _ in made.apply] == [SERVICES, SECRETS, STATEFUL_SETS]
    conf = b64decode(made.apply[1][1]["data"]["slurmdbd.conf"]).decode()
    assert [line[0].value for line in parse(conf) if line[0].has_key("StoragePass")] == ["geheim"]
    assert "geheim" not in str(made.apply[0]) + str(made.apply[2])


def test_a_changed_password_restarts_slurmdbd() -> None:
    def seen(password: str) -> str:
        made = accounting_plan(accounting(), AccountingInputs("k", b"j", "", password), IMAGES).apply[2][1]
        return str(made["spec"]["template"]["metadata"]["annotations"][metadata.SLURMDBD_CONF_HASH])

    assert seen("a") != seen("b")
    assert "db" in accounting_secrets(accounting())


def test_a_password_cannot_add_a_line() -> None:
    with pytest.raises(ConfError) as refused:
        accounting_plan(accounting(), AccountingInputs(password="geheim\nStorageHost=evil"), IMAGES)
    assert "geheim" not in str(refused.value), "the words go into conditions and events"


def test_an_external_accounting_leaves_nothing_inside() -> None:
    of = accounting(external=True, externalConfig={"host": "x", "port": 1})
    made = accounting_plan(of, AccountingInputs(), IMAGES)
    assert made.apply == ()
    assert len(made.delete) == 3


def test_slurmrestd_is_restarted_by_a_new_key_or_file() -> None:
    def seen(hashes: DaemonHashes) -> Any:
        return rest.deployment(rest_api(), controller(), hashes, IMAGES)["spec"]["template"]["metadata"]["annotations"]

    assert len({str(seen(found)) for found in (DaemonHashes(), DaemonHashes("a"), DaemonHashes(config="b"))}) == 3


def test_slurmrestd_speaks_of_accounting_only_if_there_is_any() -> None:
    def args(of: Any, **spec: Any) -> Any:
        made = rest.deployment(rest_api(slurmrestd=spec), of, DaemonHashes(), IMAGES)
        return made["spec"]["template"]["spec"]["containers"][0]["args"]

    assert args(controller(), args=["-v"]) == ["-s", "openapi/slurmctld", "-v", "0.0.0.0:6820"]
    assert args(controller(accountingRef={"name": "x"})) == ["0.0.0.0:6820"]


def test_of_several_rest_apis_the_oldest_is_asked() -> None:
    apis = [rest_api("b", "2026-01-02T00:00:00Z"), rest_api("a", "2026-01-03T00:00:00Z")]
    found = preferred_rest_api(apis)
    assert found is not None
    assert found.metadata.name == "b"
    assert preferred_rest_api([]) is None


def test_host_keys_are_real_pairs() -> None:
    files = generate_host_keys()
    for key_type in KEY_TYPES:
        private = load_ssh_private_key(files[private_name(key_type)], None)
        public = load_ssh_public_key(files[public_name(key_type)])
        assert private.public_key() == public
    assert login.host_key_secret(login_set(), files)["immutable"] is True


def test_a_login_host_finds_its_controller_and_its_workers() -> None:
    made = login.deployment(login_set(), controller(), login.LoginSetHashes(), IMAGES, "cluster.local")["spec"][
        "template"
    ]["spec"]
    assert made["containers"][0]["env"][0]["value"] == "--conf-server slurm-controller.ns:6817"
    assert made["dnsConfig"]["searches"] == ["slurm-workers-slurm.ns.svc.cluster.local"]
    assert set(login_set_secrets(login_set())) == {"sssd", "login-ssh-host-keys"}


def test_a_persons_own_login_port_replaces_ours() -> None:
    of = login_set(login={"ports": [{"name": "login", "containerPort": 2222}]})
    made = login.deployment(of, controller(), login.LoginSetHashes(), IMAGES, "x")["spec"]["template"]["spec"][
        "containers"
    ][0]
    assert made["ports"] == [{"name": "login", "containerPort": 2222}]


def test_how_login_hosts_are_replaced() -> None:
    def strategy(**asked: Any) -> Any:
        of = login_set(strategy=asked)
        return login.deployment(of, controller(), login.LoginSetHashes(), IMAGES, "x")["spec"].get("strategy")

    usual = {"maxSurge": "25%", "maxUnavailable": "25%"}
    assert strategy() == {"type": "RollingUpdate", "rollingUpdate": usual}
    assert strategy(rollingUpdate={"maxSurge": 0})["rollingUpdate"] == {**usual, "maxSurge": 0}
    assert strategy(type="Recreate") == {"type": "Recreate"}


def test_a_login_set_without_a_controller_says_so() -> None:
    with pytest.raises(Blocked, match="ControllerMissing"):
        login.manifests(login_set(), None, login.LoginSetHashes(), IMAGES, "x")


def test_ssh_settings_of_the_site_come_after_ours() -> None:
    assert login_config("Banner none").splitlines()[-1] == "Banner none"
    assert "X11Forwarding" not in worker_config("")
    with pytest.raises(Blocked):
        login_config("a\x00b")


def test_what_is_not_fresh_is_not_known() -> None:
    fresh, stale = seeing(host("a", "IDLE+DRAIN")), seeing(host("a", "IDLE+DRAIN"), trusted=False)
    assert (fresh.presence("a"), fresh.presence("b")) == (Presence.PRESENT, Presence.ABSENT)
    assert (stale.presence("a"), stale.presence("b"), SlurmSnapshot().presence("a")) == (Presence.UNKNOWN,) * 3
    assert fresh.is_drained("a")
    assert not stale.is_drained("a")
    assert SlurmSnapshot().condition().value is None
    assert seeing().condition().value is True
    assert SlurmSnapshot(connected=True, error="refused").condition().value is False


def test_every_reference_is_watched() -> None:
    refs: dict[str, Any] = {
        field: [{"name": field}] for field in ("configFileRefs", "prologScriptRefs", "epilogSlurmctldScriptRefs")
    }
    assert set(controller_config_maps(controller(**refs, jwksKeyRef={"name": "jwks", "key": "k"}))) == {*refs, "jwks"}


SAID = [
    ("", None, ""),
    ("error: mysql_real_connect failed: 1045 Access denied for user 'slurm'@'x'", "DatabaseRefuses", "Secret db"),
    ("error: mysql_real_connect failed: 2002 Can't connect to server on 'db'", "DatabaseUnreachable", "db:3306"),
    ("error: x\nfatal: no such plugin", "Failing", "no such plugin"),
    ("error: only a complaint", None, ""),
]


@pytest.mark.parametrize(("output", "reason", "words"), SAID, ids=[str(case[1]) + case[2] for case in SAID])
def test_what_slurmdbd_complains_of_is_said(output: str, reason: str | None, words: str) -> None:
    said = accounting_health(accounting(), ReplicaStatus(), True, output)
    assert said.degraded.value is (reason is not None)
    assert reason is None or (said.degraded.reason, said.ready.reason) == (reason, reason)
    assert words in said.degraded.message
    ready = ReplicaStatus(ready_replicas=1, updated_replicas=1)
    assert accounting_health(accounting(), ready, True, output).degraded.value is False
