# SPDX-License-Identifier: Apache-2.0
"""Command-line flags derived from a settings struct.

Each field of the struct becomes a flag of the same name, with the description and the limits of its `msgspec.Meta` and
its default. A field with several values becomes a flag that takes a list separated by commas.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import typer

SettingsT = TypeVar("SettingsT", bound=msgspec.Struct)
Command = Callable[..., None]


def with_settings(settings: type[msgspec.Struct]) -> Callable[[Command], Command]:
    """Decorate a command so that its `**fields` become one flag for each field of a settings struct."""

    def decorate(command: Command) -> Command:
        own = [p for p in inspect.signature(command).parameters.values() if p.kind is not p.VAR_KEYWORD]
        flags = list(setting_parameters(settings))
        command.__signature__ = inspect.Signature([*own, *flags])  # type: ignore[attr-defined]
        return command

    return decorate


def setting_parameters(settings: type[msgspec.Struct]) -> Iterable[inspect.Parameter]:
    """Return the parameters, as typer reads them, for the fields of a settings struct."""
    hints = get_type_hints(settings, include_extras=True)
    for field in msgspec.structs.fields(settings):
        value_type, *rest = get_args(hints[field.name])
        metas: list[msgspec.Meta] = rest
        is_list = get_origin(value_type) is tuple
        option = typer.Option(
            help=_help(metas, is_list),
            min=next((meta.ge for meta in metas if meta.ge is not None), None),
            max=next((meta.le for meta in metas if meta.le is not None), None),
        )
        yield inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=",".join(field.default) if is_list else field.default,
            annotation=Annotated[str if is_list else value_type, option],
        )


def build_settings(settings: type[SettingsT], fields: Mapping[str, Any]) -> SettingsT:
    """Build the struct from the values of the flags; a value outside its limits is a usage error."""
    hints = get_type_hints(settings)
    values = {
        name: _split(value) if get_origin(hints[name]) is tuple else value  # flags of lists take one text
        for name, value in fields.items()
    }
    try:
        return msgspec.convert(values, settings)
    except msgspec.ValidationError as error:
        raise typer.BadParameter(str(error)) from None


def _help(metas: Iterable[msgspec.Meta], is_list: bool) -> str:
    description = next(meta.description for meta in metas if meta.description)
    return f"{description} Separate several with commas." if is_list else description


def _split(text: str) -> list[str]:
    return [part for word in text.split(",") if (part := word.strip())]
