# SPDX-License-Identifier: Apache-2.0
"""The cache never shows half an artifact, whatever happens to the run that builds it."""

import io
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from slinky.lab.errors import LabError
from slinky.lab.prepare.artifact_cache import Artifact, ArtifactCache, tree_digest
from slinky.lab.progress import Progress


def artifact(folder_name: str = "thing", inputs: tuple[str, ...] = ("1",), text: str = "content") -> Artifact:
    def build(folder: Path, progress: Progress) -> dict[str, str]:
        with (folder.parent / "builds").open("a") as count:
            count.write("x")
        (folder / "file").write_text(text)
        return {"version": inputs[0]}

    return Artifact(folder_name, f"a {folder_name}", inputs, build, gigabytes=0, digested=("file",))


def quiet() -> Progress:
    return Progress(io.StringIO())


def builds(store: ArtifactCache) -> int:
    return len((store.folder / "thing" / "builds").read_text())


def test_what_is_there_is_not_built_again(tmp_path: Path) -> None:
    store = ArtifactCache(tmp_path)
    assert store.ensure(artifact(), quiet()) == store.ensure(artifact(), quiet())
    assert builds(store) == 1
    assert store.facts(artifact()) == {"version": "1"}


def test_other_inputs_make_another_artifact_and_the_old_one_stays(tmp_path: Path) -> None:
    store = ArtifactCache(tmp_path)
    first, second = artifact(), artifact(inputs=("2",))
    assert store.ensure(first, quiet()) != store.ensure(second, quiet())
    assert store.ready(first)
    assert store.prune([second]) == [store.path(first)]
    assert not store.ready(first)


def test_a_damaged_file_is_noticed_and_mended(tmp_path: Path) -> None:
    store = ArtifactCache(tmp_path)
    path = store.ensure(artifact(), quiet())
    (path / "file").write_text("rot")
    assert store.damage(artifact()) == "file"
    said = io.StringIO()
    store.ensure(artifact(), Progress(said))
    assert "file does not match its digest" in said.getvalue()
    assert (path / "file").read_text() == "content"


def test_a_failed_build_leaves_nothing_that_looks_ready(tmp_path: Path) -> None:
    def build(folder: Path, progress: Progress) -> dict[str, str]:
        (folder / "file").write_text("half")
        raise OSError(28, "No space left on device", "file")

    broken = Artifact("thing", "a thing", ("1",), build, gigabytes=0)
    store = ArtifactCache(tmp_path)
    with pytest.raises(LabError, match="a thing: No space left on device: file"):
        store.ensure(broken, quiet())
    assert not store.ready(broken)
    assert (store.ensure(artifact(), quiet()) / "file").exists()


def test_what_is_not_prepared_is_named_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"a thing is not prepared\n  next: run `slinky lab prepare` first"):
        ArtifactCache(tmp_path).require(artifact())


def test_a_full_disk_is_refused_before_the_work(tmp_path: Path) -> None:
    huge = Artifact("thing", "a thing", ("1",), lambda folder, progress: {}, gigabytes=1e9)
    with pytest.raises(LabError, match=r"preparing a thing needs 1e\+09 GB but the disk of .* has"):
        ArtifactCache(tmp_path).ensure(huge, quiet())


def slow(folder: Path, progress: Progress) -> dict[str, str]:
    (folder.parent / "started").touch()
    (folder / "file").write_text("half")
    time.sleep(0.5 if (folder.parent / "go").exists() else 60)
    return {}


def run_slow(root: Path) -> None:
    ArtifactCache(root).ensure(Artifact("thing", "a thing", ("1",), slow, gigabytes=0), quiet())


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


def test_a_killed_build_is_done_again_from_the_start(tmp_path: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=run_slow, args=(tmp_path,))
    process.start()
    wait_for(tmp_path / "thing" / "started")
    assert process.pid
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    store = ArtifactCache(tmp_path)
    assert not store.ready(artifact())
    assert (store.ensure(artifact(), quiet()) / "file").read_text() == "content"


def test_two_runs_at_once_build_once(tmp_path: Path) -> None:
    (tmp_path / "thing").mkdir()
    (tmp_path / "thing" / "go").touch()
    process = multiprocessing.get_context("fork").Process(target=run_slow, args=(tmp_path,))
    process.start()
    wait_for(tmp_path / "thing" / "started")
    said = io.StringIO()
    path = ArtifactCache(tmp_path).ensure(artifact(), Progress(said))
    process.join()
    assert "another run is preparing it; waiting" in said.getvalue()
    assert (path / "file").read_text() == "half"


def test_a_tree_digest_sees_names_modes_and_contents_of_what_matters(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    first = tree_digest(tmp_path)
    (tmp_path / "a").chmod(0o755)
    second = tree_digest(tmp_path)
    (tmp_path / "b").write_text("ignored")
    assert first != second
    assert tree_digest(tmp_path, lambda path: path.name == "a") == second
    assert tree_digest(tmp_path) != second
