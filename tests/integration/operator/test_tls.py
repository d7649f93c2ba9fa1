# SPDX-License-Identifier: Apache-2.0
"""TLS to slurmrestd: the operator makes the certificate once, and removes it with the TLS."""

import base64

from tests.integration.operator.stage import REF, OperatorStage

from slinky.api.restapi import REST_APIS
from slinky.kube import CONFIG_MAPS, SECRETS
from slinky.kube.views import DEPLOYMENTS

PROXY = {"image": "registry.example/slinky:1"}


async def test_the_certificate_comes_and_goes_with_tls_and_is_made_once(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.apply_controller()
    await stage.apply(REST_APIS, "slurm", spec={"controllerRef": REF, "tls": {"enabled": True}})
    await stage.wait_condition(REST_APIS, "slurm", "Degraded", "True", "ProxyImageMissing")
    await stage.apply(REST_APIS, "slurm", spec={"controllerRef": REF, "tls": {"enabled": True, "proxy": PROXY}})
    pod = (await stage.get(DEPLOYMENTS, "slurm-restapi")).spec["template"]["spec"]
    assert [container["name"] for container in pod["initContainers"]] == ["tls-proxy"]
    first = await stage.get(SECRETS, "slurm-restapi-tls")
    config = await stage.get(CONFIG_MAPS, "slurm-restapi-ca")
    assert base64.b64decode(first.data["ca.crt"]).decode() == config.data["ca.crt"]
    await stage.quiescent()
    writes = stage.writes()
    await stage.apply(
        REST_APIS, "slurm", labels={"x": "y"}, spec={"controllerRef": REF, "tls": {"enabled": True, "proxy": PROXY}}
    )
    await stage.quiescent()
    assert (await stage.get(SECRETS, "slurm-restapi-tls")).data == first.data
    assert stage.writes() - writes < 10  # labels of children
    await stage.apply(REST_APIS, "slurm", spec={"controllerRef": REF, "tls": {"enabled": False}})
    await stage.wait_deleted(SECRETS, "slurm-restapi-tls")
    await stage.wait_deleted(CONFIG_MAPS, "slurm-restapi-ca")
