# SPDX-License-Identifier: Apache-2.0
"""What verbs that change something share: they name what they will do, ask, and take `--yes` and `--dry-run`."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from slinky.cli.cluster.command import CommandError, ExitStatus
from slinky.insight.plain_text import plain

if TYPE_CHECKING:
    from slinky.slurm import SlurmClient

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]


def confirm(actions: Sequence[str], *, yes: bool, dry_run: bool) -> bool:
    """Print the actions and return whether to carry them out. Raises `CommandError` if there is no terminal."""
    for action in actions:
        typer.echo(f"would {plain(action, 400)}" if dry_run else plain(action, 400))
    if dry_run or not actions:
        return False
    if yes:
        return True
    if not sys.stdin.isatty():
        raise CommandError("there is no terminal to ask on; use --yes or --dry-run", ExitStatus.USAGE)
    return typer.confirm("Continue?")


@contextlib.contextmanager
def explained_denial(client: "SlurmClient", action: str, needs: str) -> Iterator[None]:
    """Say which right is missing if Slurm denies an action."""
    from slinky.slurm.errors import Denied
    from slinky.slurm.tokens import TokenError, read_claims

    try:
        yield
    except Denied as error:
        try:
            user = read_claims(client.session.tokens.token()).user
        except TokenError:
            user = ""
        text = f"the user {user or 'of the token'} may not {action}: this needs {needs} ({error})"
        raise CommandError(text, ExitStatus.DENIED) from error
