# SPDX-License-Identifier: Apache-2.0
"""Objects that JSON can express and the API server cannot read as YAML, on a real API server."""

import pytest
from tests.integration.operator.stage import REF, OperatorStage

from slinky.api.restapi import REST_APIS
from slinky.kube import Key
from slinky.kube.views import Unstructured

pytestmark = pytest.mark.plane


async def test_a_key_that_yaml_refuses_blocks_its_object_and_is_no_bug(stage: OperatorStage) -> None:
    """The server reads an apply as YAML, whose keys have at most 1,024 characters."""
    await stage.create_keys()
    await stage.apply_controller()
    spec = {"controllerRef": REF, "service": {"metadata": {"annotations": {"k" * 1100: ""}}}}
    manifest = REST_APIS.manifest(Key(stage.namespace, "long"), spec=spec)
    await stage.client.create(REST_APIS.viewed_as(Unstructured), manifest)
    await stage.wait_condition(REST_APIS, "long", "Degraded", "True", "Invalid")
