# SPDX-License-Identifier: Apache-2.0
"""The labs of one test process. Labs end with the process, however it ends, because it owns them."""

import os
import secrets

from slinky.lab import bringup
from slinky.lab.bringup import LabOptions
from slinky.lab.lab import Lab
from slinky.lab.progress import Progress


class SessionLabs:
    """Brings up labs, and shares one with nodes and one with only Slurm among the tests of the process."""

    def __init__(self) -> None:
        self._labs: list[Lab] = []
        self._with_nodes: Lab | None = None
        self._with_slurm: Lab | None = None

    def make(self, **options: object) -> Lab:
        """A lab of its own; `options` are those of `LabOptions`."""
        name = f"test-{secrets.token_hex(3)}"
        lab = bringup.up(LabOptions(name=name, owner=os.getpid(), **options), Progress())  # type: ignore[arg-type]
        self._labs.append(lab)
        return lab

    def with_nodes(self) -> Lab:
        """The shared lab with two nodes and Slurm."""
        if self._with_nodes is None:
            self._with_nodes = self.make(nodes=2, slurm="beside")
        return self._with_nodes

    def with_slurm(self) -> Lab:
        """The shared lab with only Slurm."""
        if self._with_slurm is None:
            self._with_slurm = self.make(nodes=0, slurm="alone")
        return self._with_slurm

    def end_nodes(self) -> None:
        """End the shared lab with nodes, whose idle daemons take time from tests that do not need them."""
        if self._with_nodes is not None:
            self.remove(self._with_nodes)
            self._with_nodes = None

    def remove(self, lab: Lab) -> None:
        """Remove a lab of its own before the end of the process."""
        self._labs.remove(lab)
        bringup.down(lab.name)

    def ended_daemons(self) -> str:
        """The daemons that do not run, with the ends of their logs."""
        return "\n".join(
            f"{name} on {machine.name} of {lab.name} (exit {state['exit']}):\n{machine.tail(name, lines=30)}"
            for lab in self._labs
            for machine in lab.machines()
            if machine.alive()
            for name, state in machine.status().items()
            if state["pid"] is None
        )

    def end(self) -> None:
        """End every lab, even if one of them fails to end."""
        errors = []
        for lab in self._labs:
            try:
                bringup.down(lab.name)
            except Exception as error:
                errors.append(error)
        if errors:
            raise ExceptionGroup("labs that did not end", errors)
