# SPDX-License-Identifier: Apache-2.0
"""The users of a key own its key ring."""

from types import SimpleNamespace
from typing import Any

import msgspec
from tests.unit.operator.samples import accounting, controller

from slinky.api.fields.refs import KeyRef
from slinky.kube.types import Key
from slinky.operator.framework import references
from slinky.operator.keys.users import has_other_owners, key_secret, owner_reference, users_by_key


class Known(list[Any]):
    """A cache with one index."""

    def by(self, index: str, value: str) -> list[Any]:
        names = {
            references.SECRETS: lambda user: (ref.name for ref in (user.spec.slurm_key_ref, user.spec.jwt_key) if ref)
        }
        return [user for user in self if value in {f"ns/{name}" for name in names[index](user)}]


def test_all_users_of_a_key_share_one_ring_however_the_reference_is_written() -> None:
    key = {"name": "keys", "key": "jwt.key"}
    one, other = controller(jwtKeyRef=key), accounting(jwtKeyRef=None, jwtHs256KeyRef={**key, "optional": False})
    context: Any = SimpleNamespace(controllers=Known([one]), accountings=Known([other]))
    result = users_by_key(context, Key("ns", "keys"), lambda spec: spec.jwt_key)
    assert result == {KeyRef(key="jwt.key", name="keys"): [one, other]}
    assert users_by_key(context, Key("ns", "keys"), lambda spec: spec.slurm_key_ref) == {}
    assert key_secret(lambda spec: spec.jwt_key)(other) == (Key("ns", "keys"),)


def test_a_ring_with_other_owners_than_its_users_is_recognized() -> None:
    user = controller()
    ring: Any = SimpleNamespace(metadata=SimpleNamespace(owner_references=[SimpleNamespace(uid="uid-slurm")]))
    assert not has_other_owners(ring, [user])
    assert has_other_owners(ring, [user, accounting()])
    assert has_other_owners(ring, [])
    assert "controller" not in msgspec.to_builtins(owner_reference(user)), "none of several owners is the controller"
