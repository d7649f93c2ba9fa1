# SPDX-License-Identifier: Apache-2.0
"""Artifacts travel between machines as one file, complete or not at all."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from slinky.lab.errors import LabError
from slinky.lab.prepare.archive import INDEX, export_artifacts, import_artifacts
from slinky.lab.prepare.artifact_cache import Artifact, ArtifactCache
from slinky.lab.progress import Progress


def artifact(name: str, version: str = "1") -> Artifact:
    def build(folder: Path, progress: Progress) -> dict[str, str]:
        (folder / "tree").mkdir()
        (folder / "tree" / "program").write_text(f"{name} {version}")
        (folder / "tree" / "program").chmod(0o755)
        (folder / "tree" / "link").symlink_to("program")
        return {"version": version}

    return Artifact(name, f"a {name}", (version,), build, gigabytes=0, digested=("tree/program",))


ALL = [artifact("one"), artifact("two")]


@pytest.fixture
def progress() -> Progress:
    return Progress(io.StringIO())


@pytest.fixture
def exported(tmp_path: Path, progress: Progress) -> Path:
    store = ArtifactCache(tmp_path / "there")
    store.ensure_all(ALL, progress)
    file = tmp_path / "parts.tar.gz"
    export_artifacts(store, ALL, file, progress)
    return file


def test_what_one_machine_built_another_one_uses(tmp_path: Path, exported: Path, progress: Progress) -> None:
    here = ArtifactCache(tmp_path / "here")
    assert import_artifacts(here, ALL, exported, progress) == ["one", "two"]
    for item in ALL:
        program = here.require(item) / "tree" / "program"
        assert program.read_text() == f"{item.name} 1"
        assert program.stat().st_mode & 0o777 == 0o755
        assert (program.parent / "link").is_symlink()
        assert here.facts(item) == {"version": "1"}
    assert import_artifacts(here, ALL, exported, progress) == []
    assert sorted(path.name for path in here.folder.iterdir()) == ["one", "two"]


def test_only_the_artifacts_that_this_version_uses_are_read(tmp_path: Path, exported: Path, progress: Progress) -> None:
    here = ArtifactCache(tmp_path / "here")
    assert import_artifacts(here, [artifact("one"), artifact("two", "2")], exported, progress) == ["one"]
    with pytest.raises(LabError, match="has nothing that this version"):
        import_artifacts(here, [artifact("two", "2")], exported, progress)


def test_a_damaged_artifact_is_refused_and_nothing_stays(tmp_path: Path, progress: Progress) -> None:
    store = ArtifactCache(tmp_path / "there")
    store.ensure_all(ALL[:1], progress)
    (store.require(ALL[0]) / "tree" / "program").write_text("other")
    file = tmp_path / "parts.tar"
    export_artifacts(store, ALL[:1], file, progress)
    here = ArtifactCache(tmp_path / "here")
    with pytest.raises(LabError, match="tree/program does not match its digest"):
        import_artifacts(here, ALL, file, progress)
    assert not here.ready(ALL[0])
    assert not list(here.folder.glob("import.*"))


def test_what_is_not_prepared_is_not_exported(tmp_path: Path, progress: Progress) -> None:
    with pytest.raises(LabError, match="a one is not prepared"):
        export_artifacts(ArtifactCache(tmp_path / "there"), ALL, tmp_path / "parts.tar", progress)
    assert not (tmp_path / "parts.tar").exists()


@pytest.mark.parametrize("index", [None, "[]", "{", '{"one": 1}'])
def test_other_files_are_refused(tmp_path: Path, index: str | None, progress: Progress) -> None:
    file = tmp_path / "other.tar"
    with tarfile.open(file, "w") as tar:
        text = (index or json.dumps({"one": ALL[0].key})).encode()
        member = tarfile.TarInfo(INDEX if index else "other")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
    with pytest.raises(LabError, match="is not an export"):
        import_artifacts(ArtifactCache(tmp_path / "here"), ALL, file, progress)


def test_a_file_that_does_not_exist_is_named(tmp_path: Path, progress: Progress) -> None:
    with pytest.raises(LabError, match="there is no file"):
        import_artifacts(ArtifactCache(tmp_path / "here"), ALL, tmp_path / "absent.tar", progress)


def test_an_archive_without_its_artifacts_is_refused(tmp_path: Path, progress: Progress) -> None:
    file = tmp_path / "half.tar"
    with tarfile.open(file, "w") as tar:
        text = json.dumps({"one": ALL[0].key}).encode()
        member = tarfile.TarInfo(INDEX)
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
    with pytest.raises(LabError, match="tar failed"):
        import_artifacts(ArtifactCache(tmp_path / "here"), ALL, file, progress)


def test_progress_is_a_share_of_the_whole(tmp_path: Path) -> None:
    said = io.StringIO()
    slow = Artifact("slow", "a slow part", ("1",), lambda folder, progress: {}, gigabytes=0, seconds=300)
    ArtifactCache(tmp_path).ensure_all([slow, artifact("last")], Progress(said))
    text = said.getvalue()
    assert "2 of 2 parts are built once: about 6 minutes" in text
    assert "... a slow part (0 % of the whole done)" in text
    assert "... a last (93 % of the whole done)" in text
    again = io.StringIO()
    ArtifactCache(tmp_path).ensure_all([slow, artifact("last")], Progress(again))
    assert again.getvalue() == ""
