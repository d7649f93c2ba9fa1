# SPDX-License-Identifier: Apache-2.0
"""Tells whether a live object already matches its manifest. Pure.

The API server sets defaults and other managers set fields, so the manifest must be contained in the live object, not
equal to it. A field that was applied before and is no longer in the manifest shows in the annotation `FINGERPRINT`, a
digest of the last applied manifest.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

FINGERPRINT = "slinky.slurm.net/applied"


def fingerprint(manifest: Mapping[str, Any]) -> str:
    """Return a short digest of a manifest, independent of the order of keys."""
    raw = msgspec.json.encode(manifest, order="sorted")
    return hashlib.sha256(raw).hexdigest()[:16]


def with_fingerprint(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest with its fingerprint as an annotation."""
    meta = manifest["metadata"]
    annotations = {**meta.get("annotations", {}), FINGERPRINT: fingerprint(manifest)}
    return {**manifest, "metadata": {**meta, "annotations": annotations}}


def contains(live: Any, desired: Any) -> bool:
    """Return whether everything in `desired` is in `live` with the same value; empty values may be absent."""
    if isinstance(desired, Mapping):
        if not isinstance(live, Mapping):
            return not desired and live is None
        return all(contains(live.get(key), value) for key, value in desired.items())
    if isinstance(desired, list | tuple):
        return _contains_items(live, desired)
    if live is None:
        return not desired
    return bool(live == desired)


def _contains_items(live: Any, desired: list[Any] | tuple[Any, ...]) -> bool:
    if not desired:
        return not live
    if not isinstance(live, list | tuple):
        return False
    if all(isinstance(item, Mapping) for item in desired):
        return all(any(contains(candidate, item) for candidate in live) for item in desired)
    return list(live) == list(desired)
