# SPDX-License-Identifier: Apache-2.0
"""Reconciles Accountings: reads what an Accounting refers to, carries out its plan, writes its status."""

from slinky.api.accounting import ACCOUNTINGS, Accounting
from slinky.api.controller import Controller
from slinky.api.names.child_names import SLURMDBD, VERSION_READER
from slinky.kube.errors import ApiError, Blocked
from slinky.kube.types import Key
from slinky.kube.views import PODS, STATEFUL_SETS
from slinky.operator.accounting.plan import AccountingInputs, plan
from slinky.operator.accounting.status import health
from slinky.operator.accounting.upgrade import AccountingUpgrade
from slinky.operator.framework import references
from slinky.operator.framework.context import Context, parents_of
from slinky.operator.framework.crash_message import plain_output
from slinky.operator.framework.deletion_order import OrderedReconciler
from slinky.operator.framework.failure_causes import describe_wait
from slinky.operator.framework.failures import FailureFinder
from slinky.operator.framework.reconciler import ReconcileResult, recheck_after
from slinky.operator.framework.references import referrers
from slinky.operator.keyrings.jwt_keyring import JwtKeyRing
from slinky.operator.outages.conditions import stopped_health
from slinky.operator.outages.decision import stops_accounting
from slinky.operator.slurm.clusters import Clusters
from slinky.operator.upgrades.conditions import with_verdict
from slinky.operator.upgrades.version_reader import ImageChoice


class AccountingReconciler(OrderedReconciler[Accounting]):
    """Keeps slurmdbd running."""

    resource = ACCOUNTINGS

    def __init__(self, context: Context, clusters: Clusters) -> None:
        super().__init__(context, context.accountings)
        self.failures = FailureFinder(context)
        self.upgrade = AccountingUpgrade(context)
        context.accountings.add_indexes(
            {
                references.SECRETS: references.qualified(references.accounting_secrets),
                references.CONFIG_MAPS: references.qualified(references.accounting_config_maps),
            }
        )
        data = context.referenced_data
        self.loop.watch(context.pods, parents_of(SLURMDBD))
        self.loop.watch(context.pods, parents_of(VERSION_READER))
        self.loop.watch(context.controllers, _accounting_of, when=_outage_changed)
        self.loop.watch(data.secrets, referrers(context.accountings, references.SECRETS))
        self.loop.watch(data.config_maps, referrers(context.accountings, references.CONFIG_MAPS))

    async def sync(self, accounting: Accounting) -> ReconcileResult:
        """Apply the children of an Accounting."""
        if accounting.spec.external:
            inputs, choice = AccountingInputs(), ImageChoice("")
        else:
            inputs, choice = await self._inputs(accounting), await self.upgrade.choose_image(accounting)
        controllers = self.context.controllers.by(references.ACCOUNTING, str(accounting.key))
        stops = stops_accounting(controllers) and not accounting.spec.external
        inputs = inputs._replace(image=choice.image, version=choice.version, is_stopped=stops)
        children = plan(accounting, inputs, self.context.images)
        await self.context.children.carry_out(children, accounting.metadata.uid)
        workload = Key(accounting.metadata.namespace, accounting.workload_name)
        replicas, observed = self.context.children.workload_status(STATEFUL_SETS, workload)
        pods = [] if accounting.spec.external else self.context.daemon_pods(SLURMDBD, accounting.key)
        failure = await self.failures.of_workload(STATEFUL_SETS, workload, pods) or choice.failure
        output = await self._output(accounting)
        current = health(accounting, replicas, observed, output, failure, describe_wait(pods))
        current = with_verdict(current, choice.verdict)
        current = stopped_health(current, controllers[0]) if stops else current
        # Others wait for a slurmdbd that runs, not for one that is about to.
        rolled_out = observed and replicas is not None and min(replicas.ready_replicas, replicas.updated_replicas) > 0
        version = (
            choice.version if rolled_out or not accounting.status.slurm_version else accounting.status.slurm_version
        )
        status = self.with_health(accounting, current, slurm_version=version)
        return ReconcileResult(status, recheck_after(current))

    async def _output(self, accounting: Accounting) -> str:
        """Return the end of the log of a slurmdbd that runs and is not ready; it reports its errors only there."""
        pod = self.context.pods.get(Key(accounting.metadata.namespace, accounting.pod_name))
        if accounting.spec.external or pod is None or pod.ready or pod.status.phase != "Running":
            return ""
        query = {"container": "slurmdbd", "tailLines": 20}
        try:
            text = await self.context.client.send("GET", PODS.path(pod.key, subresource="log"), query, accept="*/*")
        except ApiError:
            return ""
        return plain_output(text.decode(errors="replace"))

    def dependents(self, accounting: Accounting) -> list[str]:
        """Return the Controllers that refer to the Accounting."""
        controllers = self.context.controllers.by(references.ACCOUNTING, str(accounting.key))
        return sorted(f"Controller {controller.metadata.name}" for controller in controllers)

    async def _inputs(self, accounting: Accounting) -> AccountingInputs:
        namespace, data, spec = accounting.metadata.namespace, self.context.referenced_data, accounting.spec
        if spec.storage_config is None:
            raise Blocked("StorageMissing", "slurmdbd needs a database; set storageConfig")
        ring = await data.jwt_key_ring(namespace, spec.jwt_key) if spec.jwt_key else JwtKeyRing(b"")
        password = await data.secret_value(namespace, spec.storage_config.password_key_ref)
        site_jwks = await data.config_value(namespace, spec.jwks_key_ref) if spec.jwks_key_ref else ""
        return AccountingInputs(
            slurm_key=await data.slurm_keys(namespace, spec.slurm_key_ref),
            jwt_key=ring.current,
            jwks=ring.document(site_jwks),
            password=password.decode(errors="replace").rstrip("\n"),
        )


def _accounting_of(controller: Controller) -> tuple[Key, ...]:
    return (controller.accounting_key,) if controller.accounting_key else ()


def _outage_changed(old: Controller | None, new: Controller | None) -> bool:
    """Return whether slurmdbd may have to stop or to start."""
    return old is None or new is None or old.outage_phase != new.outage_phase
