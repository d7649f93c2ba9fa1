# SPDX-License-Identifier: Apache-2.0
"""TLS to slurmrestd: the operator makes the certificate once, verifies it, and removes it with the TLS."""

import base64
import secrets
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.integration.operator.stage import REF, OperatorStage, slurm_stage
from yarl import URL

from slinky.api.controller import CONTROLLERS
from slinky.api.names.wellknown import SLURMRESTD_PORT
from slinky.api.restapi import REST_APIS
from slinky.kube import CONFIG_MAPS, PODS, SECRETS, Key
from slinky.kube.certificates import create_authority, create_serving_pair
from slinky.kube.tls import CERTIFICATE, PRIVATE_KEY, server_context
from slinky.kube.views import DEPLOYMENTS
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.lab.slurm.cluster import LabSlurm
from slinky.tlsproxy.proxy import TlsProxy

PROXY = {"image": "registry.example/slinky:1"}
SECURED = {"controllerRef": REF, "tls": {"enabled": True, "required": True, "proxy": PROXY}}


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


@pytest.mark.lab
async def test_a_certificate_of_another_authority_is_reported_until_it_is_replaced(
    plane: BarePlane, crds: None, own_slurm: LabSlurm, tmp_path: Path
) -> None:
    certificate, key, upstream = tmp_path / CERTIFICATE, tmp_path / PRIVATE_KEY, URL(own_slurm.url)
    address = f"127.{secrets.randbelow(200) + 20}.{secrets.randbelow(250)}.{secrets.randbelow(250) + 2}"
    async with slurm_stage(plane, own_slurm, tmp_path) as stage:
        await stage.apply(REST_APIS, "slurm", spec=SECURED)
        data = (await stage.get(SECRETS, "slurm-restapi-tls")).data
        own = [base64.b64decode(data[name]).decode() for name in (CERTIFICATE, PRIVATE_KEY)]
        foreign = create_serving_pair(
            create_authority(datetime.now(UTC)), (f"slurm-restapi.{stage.namespace}",), datetime.now(UTC)
        )
        certificate.write_text(own[0])
        key.write_text(own[1])
        context, reload_certificate = server_context(certificate, key)
        proxy = TlsProxy((str(upstream.host), int(upstream.port or 0)), context, required=True)
        async with proxy.serving(address, SLURMRESTD_PORT):
            status = {"podIP": address, "podIPs": [{"ip": address}]}
            await stage.client.patch(PODS, Key(stage.namespace, "slurmrestd"), {"status": status}, subresource="status")
            for pair, reported, reason in (
                (own, "True", "Answering"),
                ((foreign.certificate, foreign.key), "False", "CertificateNotTrusted"),
                (own, "True", "Answering"),
            ):
                certificate.write_text(pair[0])
                key.write_text(pair[1])
                reload_certificate()
                for resource in (REST_APIS, CONTROLLERS):
                    await stage.wait_condition(resource, "slurm", "SlurmReachable", reported, reason)
