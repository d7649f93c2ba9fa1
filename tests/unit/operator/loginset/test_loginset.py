# SPDX-License-Identifier: Apache-2.0
"""Child objects of a LoginSet, and sshd."""

from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from tests.unit.operator.samples import controller

from slinky.api.loginset import LoginSet
from slinky.kube.errors import Blocked
from slinky.operator.build.pod_parts import Images
from slinky.operator.build.sshd import (
    KEY_TYPES,
    generate_host_keys,
    login_config,
    private_name,
    public_name,
    worker_config,
)
from slinky.operator.framework.references import login_set_secrets
from slinky.operator.loginset import objects as login

IMAGES = Images("reg/{daemon}:1")


def login_set(**spec: Any) -> LoginSet:
    body = {"controllerRef": {"name": "slurm"}, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}, **spec}
    return msgspec.convert({"metadata": {"name": "login", "namespace": "ns", "uid": "u"}, "spec": body}, LoginSet)


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


def test_a_login_port_in_the_spec_replaces_the_default() -> None:
    parent = login_set(login={"ports": [{"name": "login", "containerPort": 2222}]})
    made = login.deployment(parent, controller(), login.LoginSetHashes(), IMAGES, "x")["spec"]["template"]["spec"][
        "containers"
    ][0]
    assert made["ports"] == [{"name": "login", "containerPort": 2222}]


def test_how_login_hosts_are_replaced() -> None:
    def strategy(**asked: Any) -> Any:
        parent = login_set(strategy=asked)
        return login.deployment(parent, controller(), login.LoginSetHashes(), IMAGES, "x")["spec"].get("strategy")

    usual = {"maxSurge": "25%", "maxUnavailable": "25%"}
    assert strategy() == {"type": "RollingUpdate", "rollingUpdate": usual}
    assert strategy(rollingUpdate={"maxSurge": 0})["rollingUpdate"] == {**usual, "maxSurge": 0}
    assert strategy(type="Recreate") == {"type": "Recreate"}


def test_a_login_set_without_a_controller_is_blocked() -> None:
    with pytest.raises(Blocked, match="ControllerMissing"):
        login.manifests(login_set(), None, login.LoginSetHashes(), IMAGES, "x")


def test_sshd_settings_of_the_site_follow_the_operators() -> None:
    assert login_config("Banner none").splitlines()[-1] == "Banner none"
    assert "X11Forwarding" not in worker_config("")
    with pytest.raises(Blocked):
        login_config("a\x00b")
