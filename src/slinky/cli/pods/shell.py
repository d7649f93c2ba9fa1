# SPDX-License-Identifier: Apache-2.0
"""`slinky shell`: a shell in the login pod of a LoginSet."""

from typing import Annotated

import typer

from slinky.cli.cluster.command import ClusterOptions, ExitStatus, cluster_app, fail, run_command


def shell(
    options: ClusterOptions,
    command: Annotated[list[str] | None, typer.Argument(help="Command in place of a shell, after `--`.")] = None,
    login_set: Annotated[
        str, typer.Option("--login-set", "-l", help="LoginSet, if there are several: NAME or NAMESPACE/NAME.")
    ] = "",
    user: Annotated[str, typer.Option("--user", "-u", help="User of the login pod; by default root.")] = "",
) -> None:
    """Open a shell in a login pod.

    The exit code is that of the shell or command. It needs the right to `create` the subresource `pods/exec`; users
    without it log in with ssh.
    """
    if options.url:
        fail("a login pod needs Kubernetes: leave out --url, or log in with ssh", ExitStatus.USAGE)
    from slinky.cli.pods.login_shell import open_shell

    run_command(open_shell(options, login_set, command or [], user))


app = cluster_app(shell)
