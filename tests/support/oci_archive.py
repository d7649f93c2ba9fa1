# SPDX-License-Identifier: Apache-2.0
"""A small image as an OCI archive, written without a builder, for nodes that must refuse it or fail with it."""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slinky.lab.prepare.emulation import ARCHITECTURES, magic

#: A program for arm64: the beginning of one, which is all that a kernel of another architecture reads.
ARM64_PROGRAM = bytes.fromhex(magic(ARCHITECTURES["arm64"])).ljust(64, b"\0")
_OCI = "application/vnd.oci.image"


def write_archive(file: Path, name: str, files: Mapping[str, bytes], architecture: str) -> None:
    """Write an image that has these executable files, and runs the first of them."""
    layer = _tar({path: (content, 0o755) for path, content in files.items()})
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Entrypoint": [f"/{next(iter(files))}"]},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }
    blobs: dict[str, tuple[bytes, int]] = {}

    def add(media_type: str, content: bytes) -> dict[str, Any]:
        blobs[f"blobs/{_digest(content).replace(':', '/')}"] = (content, 0o644)
        return {"mediaType": f"{_OCI}.{media_type}", "digest": _digest(content), "size": len(content)}

    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.manifest.v1+json",
        "config": add("config.v1+json", json.dumps(config).encode()),
        "layers": [add("layer.v1.tar", layer)],
    }
    entry = add("manifest.v1+json", json.dumps(manifest).encode())
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    index = {"schemaVersion": 2, "manifests": [{**entry, "annotations": names}]}
    texts = {"oci-layout": {"imageLayoutVersion": "1.0.0"}, "index.json": index}
    file.write_bytes(_tar({**blobs, **{path: (json.dumps(text).encode(), 0o644) for path, text in texts.items()}}))


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _tar(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w") as archive:
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return output.getvalue()
