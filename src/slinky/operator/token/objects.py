# SPDX-License-Identifier: Apache-2.0
"""The Secret of a Token, and how to tell whose one is. Pure.

The Secret belongs to the Token: when the Token goes, the credential goes with it. So one that is somebody else's is
never written to.
"""

from base64 import b64encode

from slinky.api.token import TOKENS, Token
from slinky.kube.types import Key
from slinky.kube.views import SECRETS, Secret
from slinky.operator.build.child_metadata import inherited
from slinky.operator.build.pod_parts import Piece
from slinky.operator.keys.jwt_keyring import Signer
from slinky.slurm.tokens import new_token_id

ISSUER = "slurm-operator"


def secret(of: Token, token: str) -> Piece:
    """The Secret with the token; immutable if it is never to be replaced."""
    found = SECRETS.manifest(
        Key(of.metadata.namespace, of.secret_name),
        metadata={
            "labels": dict(of.metadata.labels),
            "annotations": inherited(of),
            "ownerReferences": [TOKENS.owner(of)],
        },
        data={of.secret_key: b64encode(token.encode()).decode()},
    )
    return found if of.spec.refresh else {**found, "immutable": True}


def is_of(found: Secret, of: Token, signer: Signer) -> bool:
    """Whether a Secret is this Token's: by its owner, or as another operator or an orphaning deletion has left it."""
    owner, ref = found.metadata.controller, of.spec.jwt_key
    if owner is None:
        return signer.signed(found.data.get(of.secret_key, b""))
    # slurm-operator makes the Secret with the key the owner of every token signed with it.
    left = ref is not None and (owner.kind, owner.name) == (SECRETS.kind, ref.name)
    return left or owner.uid == of.metadata.uid


def signed(of: Token, signer: Signer, now: float) -> str:
    """A new token."""
    return signer.sign(of.username, lifetime=of.lifetime, now=now, issuer=ISSUER, identity=new_token_id())
