# SPDX-License-Identifier: Apache-2.0
"""What the verbs of a cluster share: the flags that name the cluster, exit codes, and errors as one sentence."""

import inspect
import os
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, fields
from difflib import get_close_matches
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from slinky.insight.plain_text import plain


class ExitStatus(IntEnum):
    """Exit codes of the verbs of a cluster."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    UNREACHABLE = 4
    DENIED = 5


EXIT_CODES = (
    "Exit codes: 0 success, 1 failure, 2 wrong usage, 3 no such job or node, 4 Slurm or Kubernetes cannot be reached, "
    "5 no permission."
)


class CommandError(Exception):
    """An error that a person can act on, with its exit code."""

    def __init__(self, message: str, status: ExitStatus = ExitStatus.FAILED) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class ClusterOptions:
    """Which cluster to talk to, and how: plain Slurm by URL and token, or a cluster of the operator on Kubernetes."""

    url: Annotated[
        str,
        typer.Option(
            help="URL of slurmrestd, for a Slurm without Kubernetes: http(s)://HOST:PORT or unix:/PATH.",
            envvar="SLINKY_SLURM_URL",
        ),
    ] = ""
    token_file: Annotated[
        str, typer.Option(help="File with a Slurm token; without it the variable SLURM_JWT.", envvar="SLURM_JWT_FILE")
    ] = ""
    kubeconfig: Annotated[str, typer.Option(help="Path of the kubeconfig.")] = ""
    context: Annotated[str, typer.Option(help="Context of the kubeconfig.")] = ""
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of the Slurm cluster; by default all are searched.")
    ] = ""
    cluster: Annotated[
        str, typer.Option("--cluster", "-c", help="Name of the Controller, if there are several clusters.")
    ] = ""
    slurm_user: Annotated[str, typer.Option(help="Slurm user whose Token is used, if there are several.")] = ""


def with_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command whose first parameter is `options`, so that it takes the flags of `ClusterOptions`."""

    def run(**values: Any) -> None:
        options = ClusterOptions(**{field.name: values.pop(field.name) for field in fields(ClusterOptions)})
        try:
            command(options, **values)
        except CommandError as error:
            # A flag that is refused before the cluster is asked.
            fail(str(error), error.status)

    own = list(inspect.signature(command).parameters.values())[1:]
    flags = [
        inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
        for field in fields(ClusterOptions)
    ]
    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    run.__signature__ = inspect.Signature([*keywords, *flags])  # type: ignore[attr-defined]
    run.__doc__, run.__name__ = command.__doc__, command.__name__
    return run


def cluster_app(command: Callable[..., None]) -> typer.Typer:
    """The application of one verb."""
    return cluster_apps(command)


def cluster_apps(*commands: Callable[..., None]) -> typer.Typer:
    """The application of several verbs of one module."""
    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, rich_markup_mode=None)
    for command in commands:
        app.command(epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})(with_cluster(command))
    return app


def run_command(work: Coroutine[Any, Any, None], *, endless: bool = False) -> None:
    """Run a command; every expected error becomes one sentence on standard error and an exit code.

    For a command that runs until it is interrupted (`endless`), Ctrl-C is success.
    """
    # Imported here: only a verb that talks to a cluster needs the library.
    import asyncio

    try:
        asyncio.run(work)
    except CommandError as error:
        fail(str(error), error.status)
    except KeyboardInterrupt:
        if not endless:
            fail("interrupted", ExitStatus.FAILED)
    except Exception as error:
        if (cause := find_cause(error)) is None:
            raise
        words, status = cause
        fail(f"{words}: {error}", status)


def find_cause(error: Exception) -> tuple[str, ExitStatus] | None:
    """What an error of Slurm or Kubernetes means, and its exit code; None for any other error."""
    from slinky.kube.errors import ApiError, Forbidden, KubeError, Unauthorized, Unreachable
    from slinky.slurm.errors import AuthError, Denied, Retryable, SlurmError, SlurmNotFound

    statuses: tuple[tuple[type[Exception], ExitStatus, str], ...] = (
        (SlurmNotFound, ExitStatus.NOT_FOUND, "Slurm does not know it"),
        (Denied, ExitStatus.DENIED, "Slurm denies the request"),
        (AuthError, ExitStatus.DENIED, "Slurm refuses the token, which may have expired (`scontrol token` makes one)"),
        (Retryable, ExitStatus.UNREACHABLE, "Slurm cannot be reached"),
        (SlurmError, ExitStatus.FAILED, "Slurm rejects the request"),
        (Forbidden, ExitStatus.DENIED, "Kubernetes denies the request"),
        (Unauthorized, ExitStatus.DENIED, "Kubernetes refuses the credentials"),
        (Unreachable, ExitStatus.UNREACHABLE, "Kubernetes cannot be reached"),
        (ApiError, ExitStatus.FAILED, "Kubernetes rejects the request"),
        (KubeError, ExitStatus.FAILED, "Kubernetes cannot be used"),
    )
    return next(((words, status) for kind, status, words in statuses if isinstance(error, kind)), None)


def fail(message: str, status: ExitStatus) -> None:
    """Print one sentence to standard error and exit."""
    text = f"slinky: {plain(message, 1000)}"
    typer.secho(text, err=True, fg=typer.colors.RED if sys.stderr.isatty() and "NO_COLOR" not in os.environ else None)
    raise typer.Exit(int(status))


def not_found(noun: str, name: str, known: list[str], where: str = "") -> CommandError:
    """The error for an unknown name, with near ones; `where` says in which set it was searched."""
    near = get_close_matches(name, known, n=3)
    hint = f"; did you mean {' or '.join(plain(other, 80) for other in near)}?" if near else ""
    return CommandError(f"there is no {noun} {plain(name, 80)}{where and ' ' + where}{hint}", ExitStatus.NOT_FOUND)


def read_token(path: str) -> str:
    """The token of a file or of the environment; empty if there is none."""
    text = Path(path).read_text() if path else os.environ.get("SLURM_JWT", "")
    return text.strip().removeprefix("SLURM_JWT=")
