# SPDX-License-Identifier: Apache-2.0
"""The objects that a spec refers to."""

from typing import Any

from tests.unit.operator.samples import controller

from slinky.operator.framework.references import controller_config_maps


def test_every_reference_is_watched() -> None:
    refs: dict[str, Any] = {
        field: [{"name": field}] for field in ("configFileRefs", "prologScriptRefs", "epilogSlurmctldScriptRefs")
    }
    assert set(controller_config_maps(controller(**refs, jwksKeyRef={"name": "jwks", "key": "k"}))) == {*refs, "jwks"}
