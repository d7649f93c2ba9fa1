# SPDX-License-Identifier: Apache-2.0
"""Glue: keeps a ring beside every JWT key, and carries a change of the key through the stages of `jwtring`.

Where a rotation stands is in the ring's own Secret, so that another operator goes on with it. Controllers, Accountings
and Tokens read the ring and follow it by themselves; here it is only seen how far they are.
"""

import asyncio
from base64 import b64decode
from collections.abc import Iterable, Sequence

from slinky.api.controller import Controller as Cluster
from slinky.api.fields.refs import KeyRef
from slinky.api.names import metadata, wellknown
from slinky.api.token import Token
from slinky.kube.controller import ControlLoop, RequeueAfter
from slinky.kube.types import Key
from slinky.kube.views import CONFIG_MAPS, SECRETS, STATEFUL_SETS
from slinky.operator.build.pod_parts import hashed
from slinky.operator.framework import references
from slinky.operator.framework.children import Child
from slinky.operator.framework.context import Context
from slinky.operator.framework.reconciler import WORKERS, judge
from slinky.operator.keys import jwt_keyring
from slinky.operator.keys.jwt_keyring import MEANING, Reach, Ring, Stage, Step, describe, read
from slinky.operator.keys.users import Holder, holders, owner, ring_of, source, sources, strange, tell, write
from slinky.slurm.tokens import TokenError, read_claims

#: Seconds between looks at a rotation; it has no event of its own.
LOOK = 3.0


class JwtRotation:
    """Keeps the rings of JWT keys."""

    def __init__(self, world: Context) -> None:
        self.world = world
        self.controller: ControlLoop[Key] = ControlLoop(
            "jwt-keyring-controller", self.reconcile, workers=WORKERS, error_classifiers=(judge,), clock=world.clock
        )
        watch = self.controller.watch
        watch(world.contents.secrets, sources(world, lambda spec: spec.jwt_key))
        watch(world.controllers, source(lambda spec: spec.jwt_key))
        watch(world.accountings, source(lambda spec: spec.jwt_key))
        world.runtime.add_controller(self.controller)

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        """Look at one Secret that may hold a JWT key."""
        found = holders(self.world, key, lambda spec: spec.jwt_key)
        turns = [await self._turn(key.namespace, ref, held_by) for ref, held_by in found.items()]
        return next((again for again in turns if again), None)

    async def _turn(self, namespace: str, ref: KeyRef, held_by: Sequence[Holder]) -> RequeueAfter | None:
        wanted = await self.world.contents.secret_value(namespace, ref)
        held = await ring_of(self.world, Key(namespace, jwt_keyring.name(ref)))
        if held is None:
            await self._write(namespace, ref, Ring(wanted), "", held_by)
            return None
        before = read(held)
        settled = before.stage is Stage.SETTLED and before.current == wanted
        found = Step(before) if settled else await self._step(namespace, ref, before, wanted, held_by)
        said = describe(found)
        changed = (found.ring, said) != (before, held.metadata.annotations.get(metadata.KEY_ROTATION, ""))
        if changed or strange(held, held_by):
            await self._write(namespace, ref, found.ring, said, held_by)
        if before.stage is not found.ring.stage:
            words = MEANING.get(found.ring.stage, "done, tokens are signed with the new JWT key")
            tell(self.world, held_by, f"Rotation of the JWT key: {words}")
        return None if found.ring.stage is Stage.SETTLED else RequeueAfter(LOOK)

    async def _step(self, namespace: str, ref: KeyRef, before: Ring, wanted: bytes, held_by: Sequence[Holder]) -> Step:
        reach, now = await self._reach(namespace, ref, before, held_by), self.world.clock.now().timestamp()
        # Made whether or not it is needed: a key in the loop's own thread would hold up everybody else.
        made = await asyncio.to_thread(jwt_keyring.new_bridge) if before.stage is Stage.SETTLED else b""
        return jwt_keyring.step(before, wanted, reach, now, settle=self.world.settings.key_settle, bridge=lambda: made)

    async def _reach(self, namespace: str, ref: KeyRef, ring: Ring, held_by: Sequence[Holder]) -> Reach:
        daemons = [of for of in held_by if not of.spec.external]
        behind = tuple(f"{of.workload_name}" for of in daemons if not self._has_read(of, ring))
        # One that is not to be replaced ends with its key, whatever is done here.
        tokens = [of for of in self._tokens(namespace, ref) if of.spec.refresh]
        late, signed = [], 0.0
        for of in tokens:
            held = await self._token(of)
            if held is None or not ring.signer.signed(held):
                late.append(of.metadata.name)
            else:
                signed = max(signed, _issued(held))
        return Reach(behind, tuple(late), signed, bool(tokens), len(daemons) == len(held_by))

    def _has_read(self, of: Holder, ring: Ring) -> bool:
        """Whether a daemon has been started with the key and the bridge."""
        key, files, marks = Key(of.metadata.namespace, of.config_name), self.world.children, {}
        config = files.find(CONFIG_MAPS if isinstance(of, Cluster) else SECRETS, key)
        if config is None or ring.kid not in _document(config):
            return False
        noted = config.metadata.annotations
        if isinstance(of, Cluster):
            used = noted.get(metadata.CONFIG_GENERATION, "")
            if of.status.loaded_config != used:
                return False
            if not of.spec.inplace_reconfigure:
                marks[metadata.SLURM_CONFIG_HASH] = used.partition("-")[2]
        else:
            marks[metadata.SLURMDBD_CONF_HASH] = noted.get(metadata.SLURMDBD_CONF_HASH, "")
        marks[metadata.JWT_KEY_HASH] = hashed(ring.current)
        return files.rolled(STATEFUL_SETS, key._replace(name=of.workload_name), marks)

    def _tokens(self, namespace: str, ref: KeyRef) -> Iterable[Token]:
        found = self.world.tokens.by(references.SECRETS, str(Key(namespace, ref.name)))
        return (of for of in found if of.spec.jwt_key is not None and of.spec.jwt_key.target == ref.target)

    async def _token(self, of: Token) -> bytes | None:
        key = Key(of.metadata.namespace, of.secret_name)
        if self.world.contents.secrets.get(key) is None:
            return None
        return (await self.world.contents.secret(*key)).data.get(of.secret_key)

    async def _write(self, namespace: str, ref: KeyRef, ring: Ring, said: str, held_by: Sequence[Holder]) -> None:
        await write(self.world, jwt_keyring.secret(namespace, ref, ring, said, [owner(of) for of in held_by]))


def _document(config: Child) -> str:
    """The keys beside a configuration, in a ConfigMap or in a Secret."""
    found: str = (config.data or {}).get(wellknown.JWKS, "")
    return found if found.startswith("{") else b64decode(found).decode()


def _issued(token: bytes) -> float:
    try:
        return read_claims(token.decode(errors="replace")).issued or 0.0
    except TokenError:
        return 0.0
