# SPDX-License-Identifier: Apache-2.0
"""Renders the API reference from the definitions: `python -m slinky.api.reference docs/reference`."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slinky.api.crds import DEFINITIONS
from slinky.api.fields import conditions
from slinky.api.names import events, metadata, wellknown

Schema = dict[str, Any]

HEAD = "<!-- SPDX-License-Identifier: Apache-2.0. Made by `python -m slinky.api.reference docs/reference`. -->\n\n"


def pages() -> dict[str, str]:
    """Render every page, by file name."""
    kinds = {f"{definition['spec']['names']['singular']}.md": kind_page(definition) for definition in DEFINITIONS}
    return {"README.md": index_page(), "metadata.md": metadata_page(), **kinds}


def index_page() -> str:
    """Render the table of kinds."""
    rows = [
        (
            f"[{names['kind']}]({names['singular']}.md)",
            ", ".join(names["shortNames"]),
            schema_of(definition)["description"],
        )
        for definition in DEFINITIONS
        for names in (definition["spec"]["names"],)
    ]
    text = "# API reference\n\nKinds of `slinky.slurm.net/v1beta1`. `kubectl explain nodeset.spec` shows the same.\n\n"
    text += "".join(table(("kind", "short names", "description"), rows))
    return HEAD + text + "\n[Annotations, labels, conditions, events and ports](metadata.md)\n"


def kind_page(definition: Schema) -> str:
    """Render one kind: its fields, then its validation rules."""
    names, version, schema = definition["spec"]["names"], definition["spec"]["versions"][0], schema_of(definition)
    text = f"# {names['kind']}\n\n{schema['description']}\n\n"
    text += f"`kubectl get {names['plural']}` (short: {', '.join(names['shortNames'])})"
    text += ", with the scale subresource.\n" if "scale" in version["subresources"] else ".\n"
    for part in ("spec", "status"):
        rows = fields(schema["properties"][part], part)
        text += f"\n## {part}\n\n" + "".join(table(("field", "type", "default", "meaning"), rows))
    text += "\n## Validation rules\n\n" + "".join(f"- `{path}`: {message}\n" for path, message in rules(schema, ""))
    return HEAD + text


def metadata_page() -> str:
    """Render the tables of annotations, labels, finalizers, taints, conditions, events and ports."""
    text = "# Annotations, labels, conditions, events, ports\n"
    for title, rows in (
        ("Annotations", metadata.ANNOTATIONS),
        ("Labels", metadata.LABELS),
        ("Finalizers and taints", metadata.FINALIZERS_AND_TAINTS),
    ):
        body = ((f"`{row.key}`", row.on, row.by, row.meaning) for row in rows)
        text += f"\n## {title}\n\n" + "".join(table(("key", "on", "written by", "meaning"), body))
    condition_rows = ((row.type, row.kinds, row.true) for row in conditions.CONDITIONS)
    text += "\n## Conditions\n\n" + "".join(table(("type", "on", "meaning of True"), condition_rows))
    event_rows = ((f"`{row.reason}`", row.on, row.when) for row in events.EVENTS)
    text += "\n## Events\n\n" + "".join(table(("reason", "on", "when"), event_rows))
    ports = ((name, str(port)) for name, port in wellknown.PORTS.items())
    return HEAD + text + "\n## Ports\n\n" + "".join(table(("service", "port"), ports))


def schema_of(definition: Schema) -> Schema:
    """The OpenAPI schema of a kind."""
    schema: Schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def fields(schema: Schema, path: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row for every field below `schema`, in order."""
    required = schema.get("required", ())
    for name, inner in schema.get("properties", {}).items():
        value = f"`{json.dumps(inner['default'])}`" if inner.get("default", "") != "" else ""
        value = "required" if name in required else value
        yield f"`{path}.{name}`", type_name(inner), value, inner.get("description", "")
        below = inner.get("items", inner)
        yield from fields(below, f"{path}.{name}" + ("[]" if "items" in inner else ""))


def type_name(schema: Schema) -> str:
    """Name of the type of a field."""
    if schema.get("x-kubernetes-int-or-string"):
        return "number or percentage"
    if "enum" in schema:
        return ", ".join(schema["enum"])
    if "items" in schema:
        return f"list of {type_name(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of {type_name(schema['additionalProperties'])}"
    return str(schema.get("format") or schema.get("type", "anything"))


def rules(schema: Schema, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path of the field and the message of every rule."""
    for rule in schema.get("x-kubernetes-validations", ()):
        yield path or ".", rule["message"]
    for name, inner in schema.get("properties", {}).items():
        yield from rules(inner, f"{path}.{name}".lstrip("."))
    if "items" in schema:
        yield from rules(schema["items"], f"{path}[]")


def table(head: tuple[str, ...], rows: Any) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield "| " + " | ".join(head) + " |\n"
    yield "|" + " --- |" * len(head) + "\n"
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n"


def main(folder: Path) -> None:
    """Write every page to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
