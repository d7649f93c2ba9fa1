# SPDX-License-Identifier: Apache-2.0
"""The Secret of a Token. Pure.

The Secret is owned by the Token, so that deleting the Token deletes the credential. A Secret that belongs to another
object is never written.
"""

from base64 import b64encode

from slinky.api.token import TOKENS, Token
from slinky.kube.types import Key
from slinky.kube.views import SECRETS, Secret
from slinky.operator.build.child_metadata import inherited_annotations
from slinky.operator.build.pod_parts import JsonObject
from slinky.operator.keyrings.jwt_keyring import Signer
from slinky.slurm.tokens import new_token_id

ISSUER = "slurm-operator"


def secret(token: Token, credential: str) -> JsonObject:
    """Return the Secret with the credential; it is immutable if the credential is never replaced."""
    manifest = SECRETS.manifest(
        Key(token.metadata.namespace, token.secret_name),
        metadata={
            "labels": dict(token.metadata.labels),
            "annotations": inherited_annotations(token),
            "ownerReferences": [TOKENS.owner(token)],
        },
        data={token.secret_key: b64encode(credential.encode()).decode()},
    )
    return manifest if token.spec.refresh else {**manifest, "immutable": True}


def belongs_to(secret: Secret, token: Token, signer: Signer) -> bool:
    """Return whether a Secret belongs to the Token.

    It does if the Token owns it. A Secret of slurm-operator, or one that was kept by `--cascade=orphan`, belongs to the
    Token if it was signed with the Token's key.
    """
    owner, ref = secret.metadata.controller, token.spec.jwt_key
    if owner is None:
        return signer.signed(secret.data.get(token.secret_key, b""))
    # slurm-operator makes the Secret with the key the owner of every token that is signed with it.
    owned_by_key = ref is not None and (owner.kind, owner.name) == (SECRETS.kind, ref.name)
    return owned_by_key or owner.uid == token.metadata.uid


def sign_credential(token: Token, signer: Signer, now: float) -> str:
    """Return a new credential."""
    return signer.sign(token.username, lifetime=token.lifetime, now=now, issuer=ISSUER, identity=new_token_id())
