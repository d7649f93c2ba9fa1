# SPDX-License-Identifier: Apache-2.0
"""Chooses a login pod and runs a shell or a command in it."""

import sys

import typer

from slinky.api.loginset import LOGIN_SETS, LoginSet
from slinky.api.names.child_names import LOGIN
from slinky.cli.access.kubernetes import open_kubernetes
from slinky.cli.cluster.command import ClusterOptions, CommandError, ExitStatus, not_found
from slinky.cli.pods.terminal import connect_terminal
from slinky.insight.plain_text import counted, listed, plain
from slinky.kube import PODS, KubeClient, NotFound, Pod
from slinky.kube.exec import run_in_pod

#: The container of a login pod, and its shell.
CONTAINER = "login"
SHELL = ("sh", "-c", "if command -v bash >/dev/null; then exec bash -l; fi; exec sh -l")


async def open_shell(options: ClusterOptions, name: str, command: list[str], user: str) -> None:
    """Connect this terminal with a shell or command in a login pod. Raises `typer.Exit` with its exit code."""
    async with open_kubernetes(options) as kube:
        login_set = choose_login_set(await _list_login_sets(kube, options), name, options.cluster)
        key = login_set.metadata.key
        pods = await kube.list(PODS, namespace=key.namespace, labels=LOGIN.selector_text(key.name))
        pod = choose_login_pod(pods, login_set)
        is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
        words = shell_command(command, user)
        async with run_in_pod(kube, pod.metadata.key, CONTAINER, words, stdin=True, tty=is_terminal) as session:
            code = await connect_terminal(session, is_terminal=is_terminal)
    if code:
        raise typer.Exit(code)


async def _list_login_sets(kube: KubeClient, options: ClusterOptions) -> list[LoginSet]:
    try:
        return await kube.list(LOGIN_SETS, namespace=options.namespace)
    except NotFound as error:
        raise CommandError("this Kubernetes has no LoginSet: the operator's kinds are not installed") from error


def choose_login_set(login_sets: list[LoginSet], name: str, cluster: str) -> LoginSet:
    """The LoginSet of this name, or the only one. Raises `CommandError` with the others."""
    if cluster:
        login_sets = [each for each in login_sets if each.spec.controller_ref.name == cluster]
    names = sorted(str(each.metadata.key) for each in login_sets)
    if not login_sets:
        where = f" of the cluster {plain(cluster, 80)}" if cluster else ""
        raise CommandError(
            f"there is no LoginSet{where}; create one, for example with `loginsets` of the chart slurm",
            ExitStatus.NOT_FOUND,
        )
    if name:
        found = [each for each in login_sets if name in (each.metadata.name, str(each.metadata.key))]
        if not found:
            raise not_found("LoginSet", name, [*names, *(each.metadata.name for each in login_sets)])
        login_sets = found
    if len(login_sets) > 1:
        raise CommandError(f"there are several LoginSets: {listed(names)}; choose one with -l", ExitStatus.USAGE)
    return login_sets[0]


def choose_login_pod(pods: list[Pod], login_set: LoginSet) -> Pod:
    """A ready pod of a LoginSet. Raises `CommandError` with what the others wait for."""
    key = login_set.metadata.key
    ready = [pod for pod in pods if pod.ready and not pod.metadata.deleting]
    if ready:
        return min(ready, key=lambda pod: pod.metadata.name)
    if not login_set.spec.replicas:
        raise CommandError(f"the LoginSet {key} has no replicas: scale it with `kubectl scale loginset/{key.name}`")
    phases = listed(f"{pod.metadata.name} ({pod.status.phase or 'unknown'})" for pod in pods)
    state = f"{counted(len(pods), 'pod')}, none ready: {phases}" if pods else "no pod yet"
    raise CommandError(f"the LoginSet {key} has {state}; see `kubectl -n {key.namespace} describe loginset/{key.name}`")


def shell_command(command: list[str], user: str) -> list[str]:
    """The words to run in the container: a shell or a command, of root or of another user."""
    if not user:
        return command or list(SHELL)
    return ["runuser", "-u", user, "--", *command] if command else ["runuser", "-l", user]
