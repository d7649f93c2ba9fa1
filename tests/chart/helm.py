# SPDX-License-Identifier: Apache-2.0
"""The real Helm, as the lab prepares it."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from slinky.lab.prepare.inventory import ArtifactInventory

CHARTS = Path(__file__).parents[2] / "charts"

Objects = list[dict[str, Any]]


def program() -> str:
    """The helm command that the lab prepares."""
    inventory = ArtifactInventory.of()
    return str(inventory.store.require(inventory.artifacts["helm"]) / "helm")


def images(value: Any) -> Iterator[str]:
    """The image of every container in objects, or in a part of one."""
    if isinstance(value, dict):
        if isinstance(value.get("image"), str):
            yield value["image"]
        for inner in value.values():
            yield from images(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from images(inner)


class Refused(Exception):  # noqa: N818
    """Helm would not render; the text says why."""


@dataclass(frozen=True)
class Helm:
    """Renders our charts."""

    command: str
    home: Path
    #: The value global.registry of every release; empty leaves it out.
    registry: str = "registry.example/slinky"

    def render(
        self, chart: str, values: dict[str, Any] | None = None, release: str = "slurm", space: str = "slurm"
    ) -> Objects:
        """The objects of a release."""
        text = self.text(chart, yaml.safe_dump(values or {}), release, space)
        return [item for item in yaml.safe_load_all(text) if item]

    def text(self, chart: str, values: str, release: str = "slurm", space: str = "slurm") -> str:
        """What `helm template` prints."""
        done = self._run(
            "template",
            release,
            str(CHARTS / chart),
            "--namespace",
            space,
            "--values",
            "-",
            *self._global(),
            input=values,
        )
        if done.returncode:
            raise Refused(done.stderr)
        return done.stdout

    def template(self, *words: str, folder: Path) -> str:
        """What `helm template` prints for these arguments, run in a folder."""
        done = self._run("template", *words, folder=folder)
        if done.returncode:
            raise Refused(done.stderr)
        return done.stdout

    def into(self, kubeconfig: Path, verb: str, chart: str, *words: str, release: str = "slurm", space: str) -> None:
        """`helm install` or `helm upgrade` into a real cluster."""
        place = ("--kubeconfig", str(kubeconfig), "--namespace", space)
        done = self._run(verb, release, str(CHARTS / chart), *place, *self._global(), *words)
        if done.returncode:
            raise Refused(done.stderr)

    def remove(self, kubeconfig: Path, release: str, space: str) -> None:
        """`helm uninstall` from a real cluster, whether the release exists or not."""
        place = ("--kubeconfig", str(kubeconfig), "--namespace", space)
        self._run("uninstall", release, "--no-hooks", "--ignore-not-found", *place)

    def lint(self, chart: str) -> str:
        """What `helm lint` says; empty when it is content."""
        done = self._run("lint", "--strict", str(CHARTS / chart), *self._global())
        return done.stdout + done.stderr if done.returncode else ""

    def _global(self) -> list[str]:
        return [f"--set=global.registry={self.registry}"] if self.registry else []

    def _run(self, *words: str, input: str = "", folder: Path | None = None) -> "subprocess.CompletedProcess[str]":
        homes = {f"HELM_{name}_HOME": str(self.home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        return subprocess.run(
            [self.command, *words],
            input=input,
            cwd=folder,
            env={**os.environ, **homes},
            text=True,
            capture_output=True,
            timeout=120,
            check=False,
        )


def one(objects: Objects, kind: str, name: str = "") -> dict[str, Any]:
    """The only object of that kind, or of that kind and name."""
    matches = [item for item in objects if item["kind"] == kind and name in ("", item["metadata"]["name"])]
    assert len(matches) == 1, [(item["kind"], item["metadata"]["name"]) for item in objects]
    return matches[0]
