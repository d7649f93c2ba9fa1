# SPDX-License-Identifier: Apache-2.0
"""Serves the demand of each Slurm partition to the HorizontalPodAutoscaler, as external metrics.

For each request of the autoscaler it reads the metrics of slurmctld (`controller.metrics.enabled: true`) once; it has
no state. Every gauge of a partition is available by its name; `slurm_partition_demand` is the number of workers that
the partition can use now: the busy ones and those that the largest pending job needs. Every pod can read the same
metrics from slurmctld, so requests are not authenticated.
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
BUSY = ("slurm_partition_nodes_alloc", "slurm_partition_nodes_mixed", "slurm_partition_nodes_cg")
PENDING = "slurm_partition_jobs_max_job_nodes_nohold"
LINE = re.compile(r'^(\w+)\{partition="([^"]*)"\} (\S+)$', re.MULTILINE)


def gauges(text: str) -> dict[tuple[str, str], float]:
    """Parse every gauge of every partition: (name, partition) to value."""
    values = {(name, partition): float(value) for name, partition, value in LINE.findall(text)}
    for partition in {partition for _, partition in values}:
        values[DEMAND, partition] = sum(values.get((name, partition), 0) for name in (*BUSY, PENDING))
    return values


def metric_list(metric: str, partition: str, text: str) -> dict[str, object]:
    """The list that the autoscaler expects; empty for metrics that Slurm does not have."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    items = [
        {"metricName": name, "metricLabels": {"partition": label}, "timestamp": now, "value": str(round(value))}
        for (name, label), value in gauges(text).items()
        if name == metric and partition in ("", label)
    ]
    return {"kind": "ExternalMetricValueList", "apiVersion": GROUP, "metadata": {}, "items": items}


async def metric(request: web.Request) -> web.Response:
    """Handle a request for one metric."""
    partition = request.query.get("labelSelector", "").removeprefix("partition=")
    url = f"{os.environ['SLURMCTLD']}/metrics/partitions"
    async with ClientSession(timeout=ClientTimeout(5)) as session, session.get(url) as response:
        response.raise_for_status()
        return web.json_response(metric_list(request.match_info["metric"], partition, await response.text()))


async def resources(_: web.Request) -> web.Response:
    """List the resources of this API."""
    kind = {"name": DEMAND, "namespaced": True, "kind": "ExternalMetricValueList", "verbs": ["get"]}
    return web.json_response(
        {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP, "resources": [kind]}
    )


def tls() -> ssl.SSLContext:
    """Create a self-signed certificate; the APIService does not verify it."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "slurm-metrics")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = (
        builder.serial_number(x509.random_serial_number()).not_valid_before(now).not_valid_after(now + timedelta(3650))
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.NamedTemporaryFile() as file:
        pem = serialization.Encoding.PEM
        file.write(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        file.write(builder.sign(key, hashes.SHA256()).public_bytes(pem))
        file.flush()
        context.load_cert_chain(file.name)
    return context


if __name__ == "__main__":
    app = web.Application()
    app.router.add_get(f"/apis/{GROUP}", resources)
    app.router.add_get(f"/apis/{GROUP}/namespaces/{{namespace}}/{{metric}}", metric)
    web.run_app(app, port=8443, ssl_context=tls(), print=None)
