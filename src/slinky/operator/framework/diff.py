# SPDX-License-Identifier: Apache-2.0
"""Whether a live object already is what is wanted. Pure.

The server adds defaults and other managers add fields, so the wanted manifest must be contained in the live one, not
equal to it. What was wanted before and is not any more shows in `FINGERPRINT`, an annotation with a digest of all that
was last applied.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

FINGERPRINT = "slinky.slurm.net/applied"


def fingerprint(manifest: Mapping[str, Any]) -> str:
    """A short digest of a manifest, independent of the order of keys."""
    raw = msgspec.json.encode(manifest, order="sorted")
    return hashlib.sha256(raw).hexdigest()[:16]


def marked(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with its own fingerprint in its annotations."""
    meta = manifest["metadata"]
    annotations = {**meta.get("annotations", {}), FINGERPRINT: fingerprint(manifest)}
    return {**manifest, "metadata": {**meta, "annotations": annotations}}


def contains(live: Any, wanted: Any) -> bool:
    """Everything in `wanted` is in `live`, with the same value; what is empty may be absent."""
    if isinstance(wanted, Mapping):
        if not isinstance(live, Mapping):
            return not wanted and live is None
        return all(contains(live.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list | tuple):
        return _contains_items(live, wanted)
    if live is None:
        return not wanted
    return bool(live == wanted)


def _contains_items(live: Any, wanted: list[Any] | tuple[Any, ...]) -> bool:
    if not wanted:
        return not live
    if not isinstance(live, list | tuple):
        return False
    if all(isinstance(item, Mapping) for item in wanted):
        return all(any(contains(there, item) for there in live) for item in wanted)
    return list(live) == list(wanted)
