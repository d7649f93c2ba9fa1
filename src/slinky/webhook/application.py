# SPDX-License-Identifier: Apache-2.0
"""Paths, and what answers at each of them."""

from collections.abc import Mapping
from typing import Any

from slinky.kube import AdmissionRequest, AdmissionResponse, KubeClient
from slinky.kube.admission import Handler
from slinky.webhook import accounting, controller, nodeset, people
from slinky.webhook.binding import BindingWebhook
from slinky.webhook.deletion import farewell
from slinky.webhook.evaluate import AdmissionChange, Rules, judge
from slinky.webhook.lookups import look, look_back

BINDING_PATH = "/mutate--v1-binding"

RULES: Mapping[str, Rules[Any]] = {
    "accounting": accounting.RULES,
    "controller": controller.RULES,
    "loginset": people.LOGIN_SET,
    "nodeset": nodeset.RULES,
    "restapi": people.REST_API,
    "token": people.TOKEN,
}


def path(kind: str) -> str:
    """Where questions about a kind go."""
    return f"/validate-slinky-slurm-net-v1beta1-{kind}"


def handlers(client: KubeClient) -> dict[str, Handler]:
    """Everything that is answered, by path."""
    ours: dict[str, Handler] = {path(kind): _validation(client, rules) for kind, rules in RULES.items()}
    return {**ours, BINDING_PATH: BindingWebhook(client)}


def _validation(client: KubeClient, rules: Rules[Any]) -> Handler:
    async def validate(ask: AdmissionRequest) -> AdmissionResponse:
        if ask.operation == "DELETE":
            old = ask.old(rules.view)
            return farewell(old, await look_back(client, old), ask.propagation)
        new = ask.new(rules.view)
        before = ask.old(rules.view) if ask.operation == "UPDATE" else None
        return judge(rules, AdmissionChange(new, before, await look(client, new)))

    return validate
