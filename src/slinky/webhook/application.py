# SPDX-License-Identifier: Apache-2.0
"""The paths of the webhook and their handlers."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from slinky.api.names.wellknown import FIELD_MANAGER
from slinky.kube import AdmissionRequest, AdmissionResponse, KubeClient
from slinky.kube.admission import Handler
from slinky.kube.managed_fields import ManagedObject
from slinky.webhook.binding import BindingWebhook
from slinky.webhook.evaluate import AdmissionChange, Rules, evaluate
from slinky.webhook.lookups import read_context, read_dependents
from slinky.webhook.rules import accounting, controller, loginset, nodeset, restapi, token
from slinky.webhook.rules.deletion import review_deletion

BINDING_PATH = "/mutate--v1-binding"

RULES: Mapping[str, Rules[Any]] = {
    "accounting": accounting.RULES,
    "controller": controller.RULES,
    "loginset": loginset.RULES,
    "nodeset": nodeset.RULES,
    "restapi": restapi.RULES,
    "token": token.RULES,
}


def path(kind: str) -> str:
    """The path for admission requests of a kind."""
    return f"/validate-slinky-slurm-net-v1beta1-{kind}"


def handlers(client: KubeClient) -> dict[str, Handler]:
    """All handlers by path."""
    validations: dict[str, Handler] = {path(kind): _validation(client, rules) for kind, rules in RULES.items()}
    return {**validations, BINDING_PATH: BindingWebhook(client)}


def _validation(client: KubeClient, rules: Rules[Any]) -> Handler:
    async def validate(request: AdmissionRequest) -> AdmissionResponse:
        if request.operation == "DELETE":
            target = request.old(rules.view)
            return review_deletion(target, await read_dependents(client, target), request.propagation)
        new = request.new(rules.view)
        old = request.old(rules.view) if request.operation == "UPDATE" else None
        managers = frozenset(item.name for item in request.new(ManagedObject).managers("spec", "replicas"))
        context = replace(await read_context(client, new), replicas_managers=managers - {FIELD_MANAGER})
        return evaluate(rules, AdmissionChange(new, old, context))

    return validate
