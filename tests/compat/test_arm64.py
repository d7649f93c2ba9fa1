# SPDX-License-Identifier: Apache-2.0
"""`make compat-arm64`: the images of a site for two architectures, in a real registry, from one machine.

Programs of the other architecture run under QEMU, as long as a block of `emulated` lasts.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.support.image_registry import PASSWORD, USER, ImageRegistry

from slinky import __version__
from slinky.lab.prepare import publish
from slinky.lab.prepare.emulation import ARCHITECTURES, emulated, native, registrations
from slinky.lab.prepare.images import keyed_reference
from slinky.lab.prepare.inventory import SLURM, ArtifactInventory
from slinky.lab.progress import Progress

pytestmark = [pytest.mark.lab, pytest.mark.timeout(5400)]
OTHER = next(item for item in ARCHITECTURES.values() if item != native())
PORT = 5077
#: Runs a command in the files of an image, and prints the machine that it sees.
RUN = """
container=$(buildah from --pull-never --platform "$1" "$2")
shift 2
trap 'buildah rm "$container"' EXIT
root=$(buildah mount "$container")
chroot "$root" "$@" >/context/output 2>&1
chroot "$root" uname -m >>/context/output
"""
#: image, command, words of its output
PROGRAMS = (
    ("slinky", ("/opt/slinky/bin/slinky", "version", "--client"), __version__),
    ("slurmd", ("/usr/sbin/slurmd", "-V"), "slurm-wlm 26.05"),
    ("slurmctld", ("/usr/sbin/slurmctld", "-V"), "slurm-wlm 26.05"),
)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageRegistry]:
    registry = ImageRegistry("127.0.0.1", tmp_path_factory.mktemp("registry"), PORT)
    registry.start()
    yield registry
    registry.stop()


@pytest.fixture(scope="module")
def pushed(registry: ImageRegistry) -> dict[str, str]:
    """The digest of every image in the registry."""
    output = registry.folder / "images.yaml"
    platforms = ",".join(item.platform for item in ARCHITECTURES.values())
    login = ["--ca", str(registry.ca), "--authfile", str(registry.authfile())]
    destination = ["--registry", f"{registry.host}/slinky", "--platforms", platforms, "--output", str(output)]
    assert publish.main([*destination, *login, "--push"]) == 0
    digests: dict[str, str] = yaml.safe_load(output.read_text())["global"]["digests"]
    return digests


def fetch(registry: ImageRegistry, path: str) -> dict[str, object]:
    """An answer of the registry."""
    accept = "Accept: application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json"
    url = f"https://{registry.host}/v2/slinky/{path}"
    argv = [
        "curl",
        "--silent",
        "--fail",
        "--cacert",
        str(registry.ca),
        "--user",
        f"{USER}:{PASSWORD}",
        "-H",
        accept,
        url,
    ]
    answer: dict[str, object] = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
    return answer


@pytest.mark.parametrize("name", ["slinky", *SLURM])
def test_every_image_is_an_index_of_both_platforms(registry: ImageRegistry, pushed: dict[str, str], name: str) -> None:
    index = fetch(registry, f"{name}/manifests/{pushed[name]}")
    manifests = index["manifests"]
    assert isinstance(manifests, list)
    found = {f"{item['platform']['os']}/{item['platform']['architecture']}" for item in manifests}
    assert found == {item.platform for item in ARCHITECTURES.values()}


@pytest.mark.parametrize(("name", "command", "words"), PROGRAMS, ids=[case[0] for case in PROGRAMS])
def test_the_programs_of_the_other_architecture_start(
    tmp_path: Path, pushed: dict[str, str], name: str, command: tuple[str, ...], words: str
) -> None:
    inventory, progress = ArtifactInventory.of(), Progress(quiet=True)
    (tmp_path / "context").mkdir()
    with emulated(OTHER, inventory.store, progress):
        image = inventory.foreign_images(OTHER, progress)[name]
        script = ["sh", "-ec", RUN, "sh", OTHER.platform, keyed_reference(image.name, image.key), *command]
        inventory.builder.run(script, tmp_path, progress, name)
    output = (tmp_path / "context/output").read_text()
    print(f"{name}: {output}")
    assert words in output
    assert output.splitlines()[-1] == OTHER.machine


def test_nothing_stays_registered(pushed: dict[str, str]) -> None:
    with registrations() as folder:
        assert not [file.name for file in folder.iterdir() if file.name.startswith("slinky")]
