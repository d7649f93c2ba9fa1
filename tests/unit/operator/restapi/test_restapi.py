# SPDX-License-Identifier: Apache-2.0
"""Child objects of a RestApi, and which RestApi the operator uses."""

from typing import Any

import msgspec
from tests.unit.operator.samples import controller

from slinky.api.restapi import RestApi
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


def test_the_oldest_of_several_rest_apis_is_used() -> None:
    apis = [rest_api("b", "2026-01-02T00:00:00Z"), rest_api("a", "2026-01-03T00:00:00Z")]
    result = preferred_rest_api(apis)
    assert result is not None
    assert result.metadata.name == "b"
    assert preferred_rest_api([]) is None
