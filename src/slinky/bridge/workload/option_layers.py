# SPDX-License-Identifier: Apache-2.0
"""Merges the job options of a pod, of its group and of its owners, and reports the values that have no effect. Pure.

Every object between a pod and its topmost owner may have options. Of several values of one option, that of the highest
object counts. In a gang, pods may have different owners; then the pod of the lowest rank decides.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from slinky.bridge import names
from slinky.bridge.workload import annotations

#: Notes of one workload: they become events, which are limited as well.
NOTES_MAX = 8


@dataclass(frozen=True, slots=True)
class OptionLayer:
    """The annotations of one object, and the name of the object for messages, such as "Job training"."""

    source: str
    annotations: Mapping[str, str]


class MergedOptions(NamedTuple):
    """The options of a workload as annotations, and sentences about annotations that users should change."""

    annotations: dict[str, str]
    notes: tuple[str, ...]


class _Setting(NamedTuple):
    value: str
    source: str


def merge_layers(chains: Iterable[Sequence[OptionLayer]]) -> MergedOptions:
    """The options of pods; each chain has the objects from one pod to the topmost, and the lowest rank comes first."""
    notes: dict[str, None] = {}
    chosen: dict[str, _Setting] = {}
    for chain in chains:
        for name, setting in _merge_chain(chain, notes).items():
            _note_conflict(notes, name, setting, chosen.setdefault(name, setting))
    merged = {names.OPTION + name: setting.value for name, setting in chosen.items()}
    return MergedOptions(merged, tuple(notes)[:NOTES_MAX])


def _merge_chain(chain: Sequence[OptionLayer], notes: dict[str, None]) -> dict[str, _Setting]:
    chosen: dict[str, _Setting] = {}
    for layer in chain:
        for text in annotations.name_problems(layer.annotations):
            notes[f"{layer.source}: {text}"] = None
        for name, value in annotations.option_values(layer.annotations).items():
            setting = _Setting(value, layer.source)
            if name in chosen:
                _note_conflict(notes, name, chosen[name], setting)
            chosen[name] = setting
    return chosen


def _note_conflict(notes: dict[str, None], name: str, unused: _Setting, used: _Setting) -> None:
    if unused.value.strip() != used.value.strip():
        notes[
            f"the option {name} of {unused.source} has no effect ({unused.value[:80]!r}), "
            f"because {used.source} sets it to {used.value[:80]!r}"
        ] = None
