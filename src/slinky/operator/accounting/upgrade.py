# SPDX-License-Identifier: Apache-2.0
"""Chooses the image of slurmdbd: that of the spec, or the present one until its version may run and a backup exists."""

from slinky.api.accounting import ACCOUNTINGS, Accounting
from slinky.api.names import metadata
from slinky.kube.errors import AlreadyExists
from slinky.kube.types import Key
from slinky.kube.views import BATCH_JOBS, STATEFUL_SETS
from slinky.operator.accounting.objects import wanted_image
from slinky.operator.framework import references
from slinky.operator.framework.children import container_image
from slinky.operator.framework.context import Context
from slinky.operator.metrics import WRITES
from slinky.operator.upgrades.backup import BackupState, backup_job, backup_key, backup_state
from slinky.operator.upgrades.rules import ALLOWED, Peer, UpgradeAction, UpgradeVerdict, judge_upgrade
from slinky.operator.upgrades.version_reader import ImageChoice, VersionReader, VersionReading
from slinky.slurm.releases import SlurmVersion, parse_version

SLURMDBD = "slurmdbd"


class AccountingUpgrade:
    """Upgrades slurmdbd."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.versions = VersionReader(context)

    async def choose_image(self, accounting: Accounting) -> ImageChoice:
        """Return the image to run now."""
        wanted = wanted_image(accounting, self.context.images)
        live = self.context.children.find(STATEFUL_SETS, _workload(accounting))
        running = container_image(live, SLURMDBD) if live else None
        recorded = live.metadata.annotations.get(metadata.SLURM_VERSION, "") if live else ""
        if running is None:
            return ImageChoice(wanted)
        if running == wanted:
            return ImageChoice(wanted, recorded or str((await self._read(accounting, wanted)).version or ""))
        present = ImageChoice(running, recorded)
        known = parse_version(recorded)
        before = VersionReading(known) if known else await self._read(accounting, running)
        reading = await self._read(accounting, wanted)
        if reading.version is None:
            return present._replace(verdict=reading.verdict(SLURMDBD, wanted), failure=reading.failure)
        if before.version is None:
            return present._replace(verdict=before.verdict(SLURMDBD, running), failure=before.failure)
        present = present._replace(version=str(before.version))
        clients = self._clients(accounting)
        verdict = judge_upgrade(SLURMDBD, before.version, reading.version, clients=clients)
        another = reading.version.release != before.version.release
        if verdict.allowed and another and not accounting.spec.backup.skip:
            verdict = await self._back_up(accounting, before.version)
        return ImageChoice(wanted, str(reading.version)) if verdict.allowed else present._replace(verdict=verdict)

    async def _read(self, accounting: Accounting, image: str) -> VersionReading:
        return await self.versions.read(ACCOUNTINGS, accounting, SLURMDBD, image, accounting.spec.template)

    def _clients(self, accounting: Accounting) -> list[Peer]:
        controllers = self.context.controllers.by(references.ACCOUNTING, str(accounting.key))
        versions = ((item, parse_version(item.status.slurm_version)) for item in controllers)
        return [Peer(f"slurmctld of Controller {item.metadata.name}", found) for item, found in versions if found]

    async def _back_up(self, accounting: Accounting, running: SlurmVersion) -> UpgradeVerdict:
        if not accounting.spec.backup.claim_name:
            text = f"slurmdbd {running} is upgraded to another release only after a backup of its database"
            hint = "set spec.backup.claimName, or spec.backup.skip if you have made one"
            return UpgradeVerdict(UpgradeAction.REFUSE, "BackupMissing", f"{text}; {hint}")
        key = backup_key(accounting)
        job = await self.context.client.find(BATCH_JOBS, key)
        if job is None:
            manifest = backup_job(accounting, running)
            WRITES.labels("create", "Job").inc()
            try:
                job = await self.context.client.create(BATCH_JOBS, manifest)
            except AlreadyExists:
                job = await self.context.client.get(BATCH_JOBS, key)
        state = backup_state(job)
        if state is BackupState.COMPLETE:
            return ALLOWED
        if state is BackupState.FAILED:
            text = f"the backup of the database failed, so that slurmdbd {running} is not upgraded"
            hint = f"read the log of Job {key.name}, and delete the Job to try again"
            return UpgradeVerdict(UpgradeAction.REFUSE, "BackupFailed", f"{text}; {hint}")
        text = f"Job {key.name} backs up the database of slurmdbd {running} before the upgrade"
        return UpgradeVerdict(UpgradeAction.WAIT, "BackingUp", text)


def _workload(accounting: Accounting) -> Key:
    return Key(accounting.metadata.namespace, accounting.workload_name)
