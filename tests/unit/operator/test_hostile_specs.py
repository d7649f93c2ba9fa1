# SPDX-License-Identifier: Apache-2.0
"""Whatever spec the API server admits, its objects are built, or the spec is refused as the user's mistake."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.schema_values import admitted_object
from tests.unit.operator.samples import controller, node_set

from slinky.api import Accounting, Controller, LoginSet, NodeSet, RestApi
from slinky.kube.errors import Blocked
from slinky.operator.accounting import objects as accounting_objects
from slinky.operator.build.config_files import Files
from slinky.operator.build.pod_parts import DaemonHashes, Images
from slinky.operator.controller import conf, config_trial
from slinky.operator.controller import objects as controller_objects
from slinky.operator.controller.config_generation import Generation
from slinky.operator.loginset import objects as login_objects
from slinky.operator.nodeset import objects as node_objects
from slinky.operator.nodeset.decisions.claims import _ordinals
from slinky.operator.nodeset.objects import Slot, WorkerContext, WorkerHashes
from slinky.operator.restapi import objects as rest_objects
from slinky.slurm.conf import ConfError

IMAGES, FILES, HASHES = Images("x/{daemon}", proxy="x/slinky"), Files(), DaemonHashes()
WORKERS = WorkerContext(controller(), WorkerHashes(), IMAGES, "d")
LOGINS = login_objects.LoginSetHashes()
Builder = Callable[[Any], object]
#: What the operator builds from a spec.
BUILDERS: list[tuple[type[Any], str, Builder]] = [
    (NodeSet, "worker", lambda item: node_objects.pod(item, Slot(0), WORKERS)),
    (NodeSet, "worker of a node", lambda item: node_objects.pod(item, Slot(None, node="n", hostname="h"), WORKERS)),
    (NodeSet, "claims", lambda item: list(node_objects.claims(item, Slot(0)))),
    (NodeSet, "ordinals of claims", lambda item: _ordinals(item, ())),
    (NodeSet, "slurm.conf", lambda item: conf.slurm_conf(controller(), None, [item], FILES)),
    (Controller, "slurm.conf", lambda item: conf.slurm_conf(item, None, [node_set()], FILES)),
    (Controller, "slurmctld", lambda item: controller_objects.stateful_set(item, None, HASHES, FILES, IMAGES)),
    (Controller, "trial", lambda item: config_trial.pod(item, Generation(1, "d", {}), "n", FILES, IMAGES)),
    (Controller, "service", controller_objects.service),
    (Controller, "monitor", controller_objects.service_monitor),
    (Accounting, "slurmdbd", lambda item: accounting_objects.stateful_set(item, ["slurmdbd.conf"], HASHES, IMAGES)),
    (Accounting, "service", accounting_objects.service),
    (RestApi, "slurmrestd", lambda item: rest_objects.deployment(item, controller(), HASHES, IMAGES)),
    (RestApi, "service", rest_objects.service),
    (LoginSet, "login", lambda item: login_objects.manifests(item, controller(), LOGINS, IMAGES, "x")),
]


@pytest.mark.parametrize(
    ("kind", "build"),
    [(kind, build) for kind, _, build in BUILDERS],
    ids=[f"{k.__name__}: {n}" for k, n, _ in BUILDERS],
)
def test_objects_are_built_or_refused_for_any_spec_that_the_schema_admits(kind: type[Any], build: Builder) -> None:
    for seed in range(1500):
        item = admitted_object(kind, seed)
        if item is not None:
            with contextlib.suppress(Blocked, ConfError):  # both become the condition Degraded
                build(item)
