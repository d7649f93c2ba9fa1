# SPDX-License-Identifier: Apache-2.0
"""Who holds a key owns the ring beside it."""

from types import SimpleNamespace
from typing import Any

import msgspec
from tests.unit.operator.made import accounting, controller

from slinky.api.fields.refs import KeyRef
from slinky.kube.types import Key
from slinky.operator.framework import references
from slinky.operator.keys.users import holders, owner, source, strange


class Known(list[Any]):
    """A cache with one index."""

    def by(self, index: str, value: str) -> list[Any]:
        names = {references.SECRETS: lambda of: (ref.name for ref in (of.spec.slurm_key_ref, of.spec.jwt_key) if ref)}
        return [of for of in self if value in {f"ns/{name}" for name in names[index](of)}]


def test_everybody_with_the_same_key_shares_one_ring_however_it_is_spelt() -> None:
    key = {"name": "keys", "key": "jwt.key"}
    one, other = controller(jwtKeyRef=key), accounting(jwtKeyRef=None, jwtHs256KeyRef={**key, "optional": False})
    world: Any = SimpleNamespace(controllers=Known([one]), accountings=Known([other]))
    found = holders(world, Key("ns", "keys"), lambda spec: spec.jwt_key)
    assert found == {KeyRef(key="jwt.key", name="keys"): [one, other]}
    assert holders(world, Key("ns", "keys"), lambda spec: spec.slurm_key_ref) == {}
    assert source(lambda spec: spec.jwt_key)(other) == (Key("ns", "keys"),)


def test_a_ring_of_others_is_strange() -> None:
    of = controller()
    ring: Any = SimpleNamespace(metadata=SimpleNamespace(owner_references=[SimpleNamespace(uid="uid-slurm")]))
    assert not strange(ring, [of])
    assert strange(ring, [of, accounting()])
    assert strange(ring, [])
    assert "controller" not in msgspec.to_builtins(owner(of)), "none of several owners is in charge"
