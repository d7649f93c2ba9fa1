# SPDX-License-Identifier: Apache-2.0
"""What a bundle holds of Slurm: what `scontrol show` would print, read from slurmrestd; versions; doctor's findings."""

import json
from typing import Any

import msgspec

from slinky import __version__
from slinky.cli.access.connection import ConnectedCluster
from slinky.cli.bundle.archive import BundleWriter
from slinky.cli.doctor.doctor import format_findings, slurm_findings
from slinky.insight.plain_text import plain
from slinky.slurm import SlurmError
from slinky.slurm.transport.endpoints import Endpoint, Slurmctld

DUMPS: dict[str, Endpoint] = {
    "ping": Slurmctld.PING,
    "diag": Slurmctld.DIAG,
    "config": Slurmctld.CONF,
    "nodes": Slurmctld.NODES,
    "partitions": Slurmctld.PARTITIONS,
    "reservations": Slurmctld.RESERVATIONS,
    "licenses": Slurmctld.LICENSES,
    "jobs": Slurmctld.JOBS,
}
#: Records of one answer at most.
RECORDS_MAX = 5000


async def add_slurm(cluster: ConnectedCluster, bundle: BundleWriter, problems: list[str]) -> None:
    """Add the answers of slurmrestd, as far as it answers."""
    for name, endpoint in DUMPS.items():
        try:
            raw = await cluster.client.session.send(endpoint)
        except SlurmError as error:
            problems.append(f"slurm {name}: {plain(str(error), 300)}")
            continue
        bundle.add(f"slurm/{name}.json", dump_text(bundle, raw.body))
    try:
        bundle.add("doctor.txt", format_findings(await slurm_findings(cluster)) + "\n")
        bundle.add("versions.json", json.dumps(await _versions(cluster), indent=1) + "\n")
    except SlurmError as error:
        problems.append(f"doctor: {plain(str(error), 300)}")


def dump_text(bundle: BundleWriter, body: bytes | bytearray) -> str:
    """An answer of slurmrestd without secrets; of a long list the first records."""
    try:
        value = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        return bundle.redactor.redact_text(body[:100_000].decode(errors="replace"))
    if isinstance(value, dict):
        value = {key: item[:RECORDS_MAX] if isinstance(item, list) else item for key, item in value.items()}
    return json.dumps(bundle.redactor.redact_object(value), indent=1) + "\n"


async def _versions(cluster: ConnectedCluster) -> dict[str, Any]:
    server = cluster.client.session.server
    parser = await cluster.client.version()
    return {"slinky": __version__, "slurm": server.release, "cluster": server.cluster, "data parser": str(parser)}
