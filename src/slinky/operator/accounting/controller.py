# SPDX-License-Identifier: Apache-2.0
"""Glue: reads what an Accounting refers to, carries out its plan, writes its status."""

from slinky.api.accounting import ACCOUNTINGS, Accounting
from slinky.kube.errors import ApiError, Blocked
from slinky.kube.types import Key
from slinky.kube.views import PODS, STATEFUL_SETS
from slinky.operator.accounting.plan import AccountingInputs, plan
from slinky.operator.accounting.status import health
from slinky.operator.framework import references
from slinky.operator.framework.context import Context
from slinky.operator.framework.deletion_order import OrderedReconciler
from slinky.operator.framework.reconciler import ReconcileResult
from slinky.operator.framework.references import users
from slinky.operator.keys.jwt_keyring import Ring
from slinky.operator.slurm.clusters import Clusters

#: Seconds between looks at a slurmdbd that is not ready.
LOOK = 5.0


class AccountingReconciler(OrderedReconciler[Accounting]):
    """Keeps slurmdbd running."""

    resource = ACCOUNTINGS

    def __init__(self, world: Context, clusters: Clusters) -> None:
        super().__init__(world, world.accountings)
        world.accountings.add_indexes(
            {
                references.SECRETS: references.local(references.accounting_secrets),
                references.CONFIG_MAPS: references.local(references.accounting_maps),
            }
        )
        self.controller.watch(world.contents.secrets, users(world.accountings, references.SECRETS))
        self.controller.watch(world.contents.config_maps, users(world.accountings, references.CONFIG_MAPS))

    async def act(self, found: Accounting) -> ReconcileResult:
        """Apply everything the Accounting consists of."""
        facts = AccountingInputs() if found.spec.external else await self._facts(found)
        planned = plan(found, facts, self.world.settings.images)
        for resource, manifest in planned.apply:
            await self.world.children.ensure(resource, manifest)
        for resource, key in planned.remove:
            await self.world.children.remove(resource, key, found.metadata.uid)
        workload = Key(found.metadata.namespace, found.workload_name)
        live, observed = self.world.children.progress(STATEFUL_SETS, workload)
        output = await self._output(found)
        known = health(found, live, observed, output)
        if known.degraded.value:
            self.note(found, known.degraded.reason, known.degraded.message, warning=True)
        waiting = live is not None and not live.ready_replicas
        return ReconcileResult(self.with_health(found, known), LOOK if waiting else None)

    async def _output(self, of: Accounting) -> str:
        """The end of what a slurmdbd says that runs and is not ready; it complains there and nowhere else."""
        pod = self.world.pods.get(Key(of.metadata.namespace, of.pod_name))
        if of.spec.external or pod is None or pod.ready or pod.status.phase != "Running":
            return ""
        query = {"container": "slurmdbd", "tailLines": 20}
        try:
            text = await self.world.client.send("GET", PODS.path(pod.key, subresource="log"), query, accept="*/*")
        except ApiError:
            return ""
        return text.decode(errors="replace")

    def needed_by(self, found: Accounting) -> list[str]:
        """Controllers that name it."""
        named = self.world.controllers.by(references.ACCOUNTING, str(found.key))
        return sorted(f"Controller {one.metadata.name}" for one in named)

    async def _facts(self, of: Accounting) -> AccountingInputs:
        namespace, contents, spec = of.metadata.namespace, self.world.contents, of.spec
        if spec.storage_config is None:
            raise Blocked("StorageMissing", "set storageConfig: slurmdbd needs a database")
        ring = await contents.jwt(namespace, spec.jwt_key) if spec.jwt_key else Ring(b"")
        password = await contents.secret_value(namespace, spec.storage_config.password_key_ref)
        return AccountingInputs(
            slurm_key=await contents.slurm_keys(namespace, spec.slurm_key_ref),
            jwt_key=ring.current,
            jwks=ring.document(await contents.config_value(namespace, spec.jwks_key_ref) if spec.jwks_key_ref else ""),
            password=password.decode(errors="replace").rstrip("\n"),
        )
