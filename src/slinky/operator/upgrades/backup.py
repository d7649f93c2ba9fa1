# SPDX-License-Identifier: Apache-2.0
"""The batch job that backs up the database before a newer slurmdbd converts it. Pure.

slurmdbd converts its tables when it starts, and an older one cannot use them any more. The dump is one transaction, so
that it is consistent while the old slurmdbd goes on writing. The file gets its name only after the dump is complete.
"""

from enum import Enum

from slinky.api.accounting import ACCOUNTINGS, Accounting
from slinky.api.names.child_names import SLURMDBD
from slinky.kube.errors import Blocked
from slinky.kube.types import Key
from slinky.kube.views import BATCH_JOBS, BatchJob
from slinky.operator.build.child_metadata import child_manifest
from slinky.operator.build.pod_parts import JsonObject, mount
from slinky.operator.upgrades.version_pod import SHARED_FIELDS
from slinky.slurm.releases import SlurmVersion

#: The image with mariadb-dump, unless the spec names another one.
DEFAULT_IMAGE = "docker.io/library/mariadb:11.8"
#: How often a failed dump is repeated.
RETRIES = 3

_SCRIPT = """
set -euo pipefail
file="/backup/$DATABASE-slurm-$VERSION-$(date -u +%Y%m%dT%H%M%SZ).sql.gz"
dump=$(command -v mariadb-dump || command -v mysqldump)
"$dump" --host="$HOST" --port="$PORT" --user="$USERNAME" --single-transaction --quick --databases "$DATABASE" |
    gzip >"$file.part"
gzip -dc "$file.part" | tail -n 1 | grep 'Dump completed'
mv "$file.part" "$file"
sync "$file"
echo "wrote $file"
"""


class BackupState(Enum):
    """How far the backup is."""

    RUNNING = "running"
    COMPLETE = "complete"
    FAILED = "failed"


def backup_key(accounting: Accounting) -> Key:
    """Return namespace and name of the batch job for the current spec; another edit makes another backup."""
    name = f"{accounting.workload_name}-backup-{accounting.metadata.generation}"
    return Key(accounting.metadata.namespace, name)


def backup_job(accounting: Accounting, running: SlurmVersion) -> JsonObject:
    """Return the batch job that writes the database to the claim."""
    storage, backup = accounting.spec.storage_config, accounting.spec.backup
    if storage is None:
        raise Blocked("StorageMissing", "slurmdbd needs a database; set storageConfig")
    password = {"name": storage.password_key_ref.name, "key": storage.password_key_ref.key}
    variables = {
        "HOST": storage.host,
        "PORT": str(storage.port),
        "USERNAME": storage.username or "slurm",
        "DATABASE": storage.database,
        "VERSION": str(running),
    }
    container = {
        "name": "backup",
        "image": backup.image or DEFAULT_IMAGE,
        "command": ["/bin/bash", "-c", _SCRIPT.strip()],
        "env": [
            *({"name": name, "value": value} for name, value in variables.items()),
            {"name": "MYSQL_PWD", "valueFrom": {"secretKeyRef": password}},
        ],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [mount("backup", "/backup"), mount("tmp", "/tmp")],  # noqa: S108 - a volume of this pod
    }
    template = accounting.spec.template.spec
    spec = {
        "backoffLimit": RETRIES,
        "template": {
            "metadata": {"labels": {"app.kubernetes.io/name": "slurmdbd-backup"}},
            "spec": {
                **{field: template[field] for field in SHARED_FIELDS if template.get(field)},
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65534,
                    "runAsGroup": 65534,
                    "fsGroup": 65534,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [container],
                "volumes": [
                    {"name": "backup", "persistentVolumeClaim": {"claimName": backup.claim_name}},
                    {"name": "tmp", "emptyDir": {}},
                ],
            },
        },
    }
    return child_manifest(ACCOUNTINGS, accounting, SLURMDBD, BATCH_JOBS, backup_key(accounting), spec=spec)


def backup_state(job: BatchJob) -> BackupState:
    """Return how far a backup is."""
    done = {condition.type for condition in job.status.conditions if condition.status == "True"}
    if "Complete" in done:
        return BackupState.COMPLETE
    return BackupState.FAILED if "Failed" in done else BackupState.RUNNING
