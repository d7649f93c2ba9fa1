# SPDX-License-Identifier: Apache-2.0
"""Child objects of a RestApi, and which RestApi the operator uses."""

from typing import Any

import msgspec
import pytest
from tests.unit.operator.samples import controller

from slinky.api.restapi import RestApi
from slinky.kube.errors import Blocked
from slinky.operator.build.pod_parts import DaemonHashes, Images
from slinky.operator.restapi import objects as rest
from slinky.operator.slurm.connections import preferred_rest_api

IMAGES = Images("reg/{daemon}:1")


def rest_api(name: str = "slurm", made: str = "", **spec: Any) -> RestApi:
    meta = {"name": name, "namespace": "ns", "uid": "u", "creationTimestamp": made}
    return msgspec.convert({"metadata": meta, "spec": {"controllerRef": {"name": "slurm"}, **spec}}, RestApi)


def test_slurmrestd_is_restarted_by_a_new_key_or_file() -> None:
    def observed(hashes: DaemonHashes) -> Any:
        return rest.deployment(rest_api(), controller(), hashes, IMAGES)["spec"]["template"]["metadata"]["annotations"]

    assert len({str(observed(result)) for result in (DaemonHashes(), DaemonHashes("a"), DaemonHashes(config="b"))}) == 3


def test_slurmrestd_holds_no_key_of_the_cluster() -> None:
    pod = rest.deployment(rest_api(), controller(), DaemonHashes(), IMAGES)["spec"]["template"]["spec"]
    assert [list(source) for volume in pod["volumes"] for source in volume["projected"]["sources"]] == [["configMap"]]


def test_slurmrestd_serves_accounting_only_with_an_accounting() -> None:
    def args(parent: Any, **spec: Any) -> Any:
        made = rest.deployment(rest_api(slurmrestd=spec), parent, DaemonHashes(), IMAGES)
        return made["spec"]["template"]["spec"]["containers"][0]["args"]

    assert args(controller(), args=["-v"]) == ["-s", "openapi/slurmctld", "-v", "0.0.0.0:6820"]
    assert args(controller(accountingRef={"name": "x"})) == ["0.0.0.0:6820"]


def tls_pod(**tls: Any) -> Any:
    images = Images("reg/{daemon}:1", "reg/slinky:1")
    api = rest_api(tls={"enabled": True, **tls})
    return rest.deployment(api, controller(), DaemonHashes(), images)["spec"]["template"]["spec"]


def test_with_tls_slurmrestd_listens_on_the_loopback_address_behind_a_container_that_terminates_tls() -> None:
    pod = tls_pod()
    (slurmrestd,), (proxy,) = pod["containers"], pod["initContainers"]
    assert slurmrestd["args"][-1] == "127.0.0.1:6821"
    assert "ports" not in slurmrestd
    assert [(port["name"], port["containerPort"]) for port in proxy["ports"]] == [("slurmrestd", 6820)]
    assert (proxy["image"], proxy["restartPolicy"]) == ("reg/slinky:1", "Always")
    assert "--required" not in proxy["args"]
    assert "--required" in tls_pod(required=True)["initContainers"][0]["args"]
    assert tls_pod(proxy={"image": "mine"})["initContainers"][0]["image"] == "mine"


def test_the_pods_get_the_certificate_but_no_key_of_an_authority() -> None:
    sources = tls_pod()["volumes"][1]["projected"]["sources"]
    items = [(source["secret"]["name"], item["key"]) for source in sources for item in source["secret"]["items"]]
    assert items == [("slurm-restapi-tls", "tls.crt"), ("slurm-restapi-tls", "tls.key")]


def test_without_an_image_for_the_proxy_the_next_step_is_named() -> None:
    with pytest.raises(Blocked, match="--proxy-image") as caught:
        rest.deployment(rest_api(tls={"enabled": True}), controller(), DaemonHashes(), IMAGES)
    assert caught.value.reason == "ProxyImageMissing"


def test_the_oldest_of_several_rest_apis_is_used() -> None:
    apis = [rest_api("b", "2026-01-02T00:00:00Z"), rest_api("a", "2026-01-03T00:00:00Z")]
    result = preferred_rest_api(apis)
    assert result is not None
    assert result.metadata.name == "b"
    assert preferred_rest_api([]) is None
