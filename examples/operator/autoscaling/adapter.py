# SPDX-License-Identifier: Apache-2.0
"""Tells the autoscaler of Kubernetes what waits and runs in each partition, as external metrics.

It asks slurmctld's own metrics (`controller.metrics.enabled: true`), once for each question of the autoscaler, and
keeps nothing. Every gauge of a partition can be asked for by its name; `slurm_partition_demand` is how many workers
the partition could use now: those at work and those that the largest waiting job needs. What it tells is what every
pod can read from slurmctld, so it asks nobody who they are.
"""

import os
import re
import ssl
import tempfile
from datetime import UTC, datetime, timedelta

from aiohttp import ClientSession, ClientTimeout, web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

GROUP = "external.metrics.k8s.io/v1beta1"
DEMAND = "slurm_partition_demand"
AT_WORK = ("slurm_partition_nodes_alloc", "slurm_partition_nodes_mixed", "slurm_partition_nodes_cg")
WAITING = "slurm_partition_jobs_max_job_nodes_nohold"
LINE = re.compile(r'^(\w+)\{partition="([^"]*)"\} (\S+)$', re.MULTILINE)


def gauges(text: str) -> dict[tuple[str, str], float]:
    """Every gauge of every partition: (name, partition) to value."""
    found = {(name, partition): float(value) for name, partition, value in LINE.findall(text)}
    for partition in {partition for _, partition in found}:
        found[DEMAND, partition] = sum(found.get((part, partition), 0) for part in (*AT_WORK, WAITING))
    return found


def answer(metric: str, partition: str, text: str) -> dict[str, object]:
    """The list that the autoscaler expects; empty for what Slurm does not know."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    items = [
        {"metricName": name, "metricLabels": {"partition": of}, "timestamp": now, "value": str(round(value))}
        for (name, of), value in gauges(text).items()
        if name == metric and partition in ("", of)
    ]
    return {"kind": "ExternalMetricValueList", "apiVersion": GROUP, "metadata": {}, "items": items}


async def metric(request: web.Request) -> web.Response:
    """One question of the autoscaler."""
    wanted = request.query.get("labelSelector", "").removeprefix("partition=")
    url = f"{os.environ['SLURMCTLD']}/metrics/partitions"
    async with ClientSession(timeout=ClientTimeout(5)) as session, session.get(url) as told:
        told.raise_for_status()
        return web.json_response(answer(request.match_info["metric"], wanted, await told.text()))


async def resources(_: web.Request) -> web.Response:
    """What this API has."""
    kind = {"name": DEMAND, "namespaced": True, "kind": "ExternalMetricValueList", "verbs": ["get"]}
    return web.json_response(
        {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP, "resources": [kind]}
    )


def tls() -> ssl.SSLContext:
    """A certificate for as long as the process lives; the APIService is told not to look at it."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "slurm-metrics")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(now).not_valid_after(now + timedelta(3650))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.NamedTemporaryFile() as file:
        pem = serialization.Encoding.PEM
        file.write(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        file.write(made.sign(key, hashes.SHA256()).public_bytes(pem))
        file.flush()
        context.load_cert_chain(file.name)
    return context


if __name__ == "__main__":
    app = web.Application()
    app.router.add_get(f"/apis/{GROUP}", resources)
    app.router.add_get(f"/apis/{GROUP}/namespaces/{{namespace}}/{{metric}}", metric)
    web.run_app(app, port=8443, ssl_context=tls(), print=None)
