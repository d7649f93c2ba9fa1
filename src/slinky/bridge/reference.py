# SPDX-License-Identifier: Apache-2.0
"""Writes the generated tables into the pages of the bridge: `python -m slinky.bridge.reference docs/bridge`.

A page contains its table between the lines `BEGIN` and `END`; the rest of the page is written by hand.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from slinky.bridge.config import BridgeSettings
from slinky.bridge.status.reason_tables import render_tables as render_reasons
from slinky.bridge.workload.annotations import render_table
from slinky.kube.openapi import schema_of

BEGIN = "<!-- Written by `make generate`: begin -->\n"
END = "<!-- Written by `make generate`: end -->\n"

#: The chart values of settings that have a value of their own. All others are keys of `extraConfig`.
CHART_VALUES = {
    "schedulerName": "schedulerConfig.schedulerName",
    "slurmRestApi": "sharedConfig.slurmRestApi",
    "mcsLabel": "schedulerConfig.mcsLabel",
    "partition": "schedulerConfig.partition",
    "managedNamespaces": "admission.managedNamespaces",
    "managedNamespaceSelector": "admission.managedNamespaceSelector",
    "tokenFile": "sharedConfig.slurmJwtSecret",
    "tlsFolder": "sharedConfig.slurmTlsSecret",
    "completerSocket": "completer.enabled",
    "leaseNamespace": "namespaceOverride",
    "leaderElect": "scheduler.leaderElect",
    "deviceProfiles": "sharedConfig.deviceProfiles",
    "policy": "policy",
}


def render_settings() -> str:
    """The table of the settings as Markdown."""
    rows = ["| key | default | chart value | meaning |", "| --- | --- | --- | --- |"]
    properties = schema_of(BridgeSettings)["properties"]
    for field in msgspec.structs.fields(BridgeSettings):
        name = field.encode_name
        value = CHART_VALUES.get(name, f"extraConfig.{name}")
        default = _render_default(getattr(BridgeSettings(), field.name))
        rows.append(f"| `{name}` | {default} | `{value}` | {properties[name]['description']} |")
    return "\n".join(rows) + "\n"


def _render_default(value: object) -> str:
    plain = msgspec.to_builtins(value)
    if plain in ("", (), [], {}):
        return ""
    return f"`{plain if isinstance(plain, str) else json.dumps(plain).removesuffix('.0')}`"


#: The function that renders the generated part of each page.
PAGES: dict[str, Callable[[], str]] = {
    "annotations.md": render_table,
    "configuration.md": render_settings,
    "reasons.md": render_reasons,
}


def render_page(page: str, text: str) -> str:
    """The text of a page with its generated part replaced."""
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"{page}: the lines that enclose the generated part are missing")
    return f"{before}{BEGIN}\n{PAGES[page]()}\n{END}{after}"


def main(folder: Path) -> None:
    """Rewrite the generated parts of all pages in `folder`."""
    for page in PAGES:
        path = folder / page
        path.write_text(render_page(page, path.read_text()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
