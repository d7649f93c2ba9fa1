# SPDX-License-Identifier: Apache-2.0
"""Logs and shells: where the output of a job is, which lines are printed, which login pod is chosen."""

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.insight.queues import running

from slinky.api.loginset import LoginSet
from slinky.cli.cluster.command import CommandError, ExitStatus
from slinky.cli.cluster.output import OutputFormat
from slinky.cli.pods.job_output import OutputFile, expand_pattern, locate_output
from slinky.cli.pods.line_printer import LINE_LIMIT, LinePrinter
from slinky.cli.pods.log_options import LogOptions
from slinky.cli.pods.login_shell import choose_login_pod, choose_login_set, shell_command
from slinky.cli.pods.native_output import find_tail, tail_command
from slinky.cli.pods.pod_logs import choose_containers
from slinky.kube import Condition, KubeError, ObjectMeta, Pod
from slinky.kube.exec import read_exit_code
from slinky.kube.views import ContainerRunState, ContainerStatus, ContainerWaiting, PodSpec, PodStatus
from slinky.slurm import Job, number


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("out-%j.txt", "out-7.txt"),
        ("%x_%u_%N_%%", "run-7_alice_n1_%"),
        ("%5j", "00007"),
        ("%A_%3a", "7_4294967294"),
        ("plain", "plain"),
        ("%q", None),
    ],
)
def test_patterns_of_sbatch(pattern: str, path: str | None) -> None:
    assert expand_pattern(pattern, running(7, "n1"), "n1.example.org") == path


def test_where_the_output_is() -> None:
    fields: dict[str, Any] = {"current_working_directory": "/home/alice", "user_id": 1001}
    assert locate_output(running(7, "n[1-2]", **fields)) == OutputFile(7, "/home/alice/slurm-7.out", "n1", 1001)
    task = running(9, "n3", array_job_id=number(8), array_task_id=number(4), batch_host="n3", **fields)
    assert locate_output(task).path == "/home/alice/slurm-8_4.out"
    absolute = running(7, "n1", standard_output="/scratch/%j", **fields)
    assert locate_output(absolute).path == "/scratch/7"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"job_state": ("PENDING",)}, "has written nothing yet; `slinky explain 7`"),
        ({"job_state": ("RUNNING",), "flags": ("EXTERNAL_JOB",)}, "stands for pods"),
        ({"job_state": ("CANCELLED",)}, "has never run"),
        ({"job_state": ("RUNNING",), "nodes": "n1", "standard_output": "%Q\x1b"}, "only slurmd can resolve"),
    ],
)
def test_a_job_without_output_says_why(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(CommandError) as error:
        locate_output(Job(job_id=7, **fields))
    assert words in str(error.value)
    assert "\x1b" not in str(error.value)


@given(st.lists(st.text(alphabet="ab", max_size=3), max_size=12), st.integers(0, 14), st.booleans())
def test_the_tail_of_a_file(tmp_path_factory: pytest.TempPathFactory, lines: list[str], tail: int, ended: bool) -> None:
    path = tmp_path_factory.mktemp("tail") / "out"
    text = "\n".join(lines) + ("\n" if lines and ended else "")
    path.write_text(text)
    wanted = "".join(text.splitlines(keepends=True)[-tail:]) if tail else ""
    assert path.read_bytes()[find_tail(path, tail) :].decode() == wanted


def test_a_file_larger_than_a_chunk(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("".join(f"{index:07}\n" for index in range(50_000)))
    assert path.read_bytes()[find_tail(path, 20_000) :].startswith(b"0030000\n")
    assert find_tail(path, 60_000) == 0


def test_the_worker_reads_with_the_rights_of_the_user() -> None:
    command = tail_command(OutputFile(7, "-x", "n1", 1001), LogOptions(5, follow=True))
    assert command[:3] == ["setpriv", "--reuid", "1001"]
    assert command[-6:] == ["tail", "-n", "5", "-F", "--", "-x"]


def test_lines_are_raw_in_a_pipe_and_escaped_on_a_terminal() -> None:
    pipe, terminal = io.StringIO(), Terminal()
    for stream in (pipe, terminal):
        printer = LinePrinter("a", OutputFormat.TEXT, prefixed=True, stream=stream)
        printer.feed(b"x\ty\x1b[2J\r\n\xff")
        printer.finish()
    assert pipe.getvalue() == "[a] x\ty\x1b[2J\n[a] \ufffd\n"
    assert terminal.getvalue() == "[a] x\ty\\x1b[2J\n[a] \ufffd\n"


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    stream = io.StringIO()
    printer = LinePrinter("a", OutputFormat.JSON, prefixed=False, stream=stream)
    for _ in range(5):
        printer.feed(b"x" * LINE_LIMIT)
    printer.finish()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [len(line["line"]) for line in lines] == [LINE_LIMIT] * 5
    assert lines[0]["source"] == "a"


def pod(name: str = "p", *statuses: ContainerStatus, phase: str = "Running", ready: bool = True) -> Pod:
    conditions = (Condition(type="Ready", status="True" if ready else "False"),)
    status = PodStatus(phase=phase, container_statuses=statuses, conditions=conditions)
    return Pod(metadata=ObjectMeta(name=name, namespace="s"), spec=PodSpec(), status=status)


WAITING = ContainerRunState(waiting=ContainerWaiting("ImagePullBackOff", "no\x1b such image"))


def test_containers_that_have_started() -> None:
    both = pod("p", ContainerStatus("a"), ContainerStatus("b", state=WAITING))
    assert choose_containers(both, "") == ["a"]
    with pytest.raises(CommandError, match=r"has no container c; it has a and b"):
        choose_containers(both, "c")
    with pytest.raises(CommandError, match=r"s/p has not started \(ImagePullBackOff no\\x1b such image\)"):
        choose_containers(both, "b")
    with pytest.raises(CommandError, match=r"has not started \(Pending\)"):
        choose_containers(pod("p", phase=""), "")


def login_set(name: str, controller: str = "slurm", replicas: int = 1) -> LoginSet:
    spec = {"controllerRef": {"name": controller}, "sssdConfRef": {"name": "s", "key": "k"}, "replicas": replicas}
    return msgspec.convert({"metadata": {"name": name, "namespace": "s"}, "spec": spec}, LoginSet)


def test_the_only_login_set_is_chosen() -> None:
    assert choose_login_set([login_set("a")], "", "").metadata.name == "a"
    both = [login_set("a"), login_set("b")]
    assert choose_login_set(both, "b", "").metadata.name == "b"
    assert choose_login_set(both, "s/a", "").metadata.name == "a"
    with pytest.raises(CommandError, match="several LoginSets: s/a and s/b; choose one with -l") as error:
        choose_login_set(both, "", "")
    assert error.value.status is ExitStatus.USAGE
    with pytest.raises(CommandError, match="there is no LoginSet c"):
        choose_login_set(both, "c", "")
    with pytest.raises(CommandError, match="there is no LoginSet; create one"):
        choose_login_set([], "", "")


def test_a_login_pod_that_is_missing_is_named() -> None:
    assert choose_login_pod([pod("b"), pod("a"), pod("0", ready=False)], login_set("l")).metadata.name == "a"
    with pytest.raises(CommandError, match=r"1 pod, none ready: b \(Pending\)"):
        choose_login_pod([pod("b", phase="Pending", ready=False)], login_set("l"))
    with pytest.raises(CommandError, match="no pod yet"):
        choose_login_pod([], login_set("l"))


def test_the_command_of_a_shell() -> None:
    assert shell_command([], "")[0] == "sh"
    assert shell_command(["id", "-u"], "") == ["id", "-u"]
    assert shell_command([], "alice") == ["runuser", "-l", "alice"]
    assert shell_command(["id"], "alice")[-2:] == ["--", "id"]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (b'{"status":"Success"}', 0),
        (b'{"status":"Failure","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}', 3),
    ],
)
def test_exit_codes_of_commands_in_pods(status: bytes, code: int) -> None:
    assert read_exit_code(status) == code


@pytest.mark.parametrize("status", [b"", b'{"status":"Failure","message":"no such container"}'])
def test_a_command_that_does_not_start_is_an_error(status: bytes) -> None:
    with pytest.raises(KubeError):
        read_exit_code(status)
