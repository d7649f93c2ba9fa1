# SPDX-License-Identifier: Apache-2.0
"""Where the images of each chart come from, and what happens without a registry."""

from typing import Any

import pytest
import yaml
from tests.chart.helm import Helm, Refused, images, one

from slinky import __version__
from slinky.lab.prepare.inventory import SLURM
from slinky.lab.prepare.publish import Destination, render_values

PUBLISHED = ("slinky", *SLURM)
DIGESTS = {name: f"sha256:{number:064x}" for number, name in enumerate(PUBLISHED)}
#: Everything that a chart can run.
EVERYTHING: dict[str, dict[str, Any]] = {
    "slurm-operator": {},
    "slurm": {
        "nodesets": {"a": {}},
        "loginsets": {"a": {}},
        "accounting": {"enabled": True},
        "exporter": {"enabled": True},
    },
    "slurm-bridge": {"completer": {"enabled": True}},
}
PUBLIC = "ghcr.io/slinkyproject"
SLINKY = {"repository": "registry.example/slinky", "tag": "1"}
PUBLIC_TAG = "26.05-ubuntu26.04"


@pytest.fixture(scope="module")
def unset(helm: Helm) -> Helm:
    """Helm without a registry."""
    return Helm(helm.command, helm.home, registry="")


@pytest.mark.parametrize("chart", EVERYTHING)
def test_the_file_of_make_images_pins_every_image(unset: Helm, chart: str) -> None:
    place = Destination.parse("registry.example:5000/slinky", "v1")
    text = render_values(place, DIGESTS)
    plain = unset.render(chart, EVERYTHING[chart] | {"global": {"registry": "registry.example:5000/slinky"}})
    names = {name.rpartition("/")[2].partition(":")[0] for name in images(plain)}
    objects = unset.render(chart, EVERYTHING[chart] | yaml.safe_load(text))
    assert set(images(objects)) == {f"registry.example:5000/slinky/{name}@{DIGESTS[name]}" for name in names}
    assert names


@pytest.mark.parametrize("chart", EVERYTHING)
def test_without_digests_the_tag_is_that_of_the_values_or_the_version(unset: Helm, chart: str) -> None:
    for tag, expected in (("", __version__), ("nightly", "nightly")):
        values = EVERYTHING[chart] | {"global": {"registry": "registry.example/", "tag": tag}}
        for name in images(unset.render(chart, values)):
            assert name.startswith("registry.example/")
            assert name.endswith(f":{expected}")


@pytest.mark.parametrize(
    ("chart", "values", "path"),
    [
        ("slurm-operator", {}, "operator.image"),
        ("slurm-operator", {"operator": {"enabled": False}}, "webhook.image"),
        ("slurm-operator", {"operator": {"image": {"tag": "1"}}}, "operator.image"),
        ("slurm-bridge", {}, "scheduler.image"),
        ("slurm-bridge", {"scheduler": {"image": SLINKY}, "completer": {"enabled": True}}, "completer.image"),
        ("slurm", {"exporter": {"enabled": True}}, "exporter.image"),
    ],
    ids=str,
)
def test_without_a_registry_the_message_says_what_to_do(
    unset: Helm, chart: str, values: dict[str, Any], path: str
) -> None:
    with pytest.raises(Refused) as refusal:
        unset.render(chart, values)
    assert f"{path}: no registry is set" in str(refusal.value)
    assert "make images REGISTRY=registry.example/slinky PUSH=1" in str(refusal.value)
    assert "--values build/images.yaml" in str(refusal.value)


def test_without_a_registry_the_daemons_are_the_public_ones(unset: Helm) -> None:
    objects = unset.render("slurm", EVERYTHING["slurm"] | {"exporter": {"enabled": False}})
    daemons = ("slurmctld", "slurmd", "slurmdbd", "slurmrestd", "login")
    assert set(images(objects)) == {f"{PUBLIC}/{name}:{PUBLIC_TAG}" for name in daemons}


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (None, f"registry.example/slurmd@{DIGESTS['slurmd']}"),
        ({"tag": "25.11"}, "registry.example/slurmd:25.11"),
        ({"repository": "other.example/slurmd"}, f"other.example/slurmd:{PUBLIC_TAG}"),
        ({"repository": "other.example/slurmd", "tag": "1"}, "other.example/slurmd:1"),
        ({"digest": DIGESTS["login"]}, f"registry.example/slurmd@{DIGESTS['login']}"),
        ("other.example/slurmd:2", "other.example/slurmd:2"),
    ],
    ids=str,
)
def test_an_image_of_a_container_takes_precedence(unset: Helm, image: Any, expected: str) -> None:
    values = {
        "global": {"registry": "registry.example", "digests": DIGESTS},
        "nodesets": {"a": {"slurmd": {"image": image}}},
    }
    spec = one(unset.render("slurm", values), "NodeSet")["spec"]
    assert spec["slurmd"]["image"] == spec["logfile"]["image"] == expected


@pytest.mark.parametrize(
    ("chart", "part", "image"),
    [
        ("slurm-operator", "operator", {"repository": f"{PUBLIC}/slurm-operator"}),
        ("slurm-operator", "webhook", f"{PUBLIC}/slurm-operator-webhook:1.2.0"),
        ("slurm-bridge", "scheduler", {"repository": f"{PUBLIC}/slurm-bridge-scheduler"}),
        ("slurm-bridge", "admission", {"repository": f"{PUBLIC}/slurm-bridge-admission"}),
    ],
    ids=str,
)
def test_images_of_the_other_project_are_refused_for_our_processes(
    helm: Helm, chart: str, part: str, image: Any
) -> None:
    with pytest.raises(Refused) as refusal:
        helm.render(chart, {part: {"image": image}})
    assert f"Remove {part}.image from your values" in str(refusal.value)


def test_daemons_without_an_image_have_that_of_the_registry(helm: Helm, unset: Helm) -> None:
    def flags(helm: Helm, **operator: Any) -> list[str]:
        values = {"operator": {"image": "x/slinky:1", **operator}, "webhook": {"image": "x/slinky:1"}}
        deployment = one(helm.render("slurm-operator", values), "Deployment", "slurm-slurm-operator")
        arguments: list[str] = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        return [flag for flag in arguments if flag.startswith("--image=")]

    assert flags(helm) == [f"--image=registry.example/slinky/{{daemon}}:{__version__}"]
    assert flags(helm, daemonImage="own.example/{daemon}:1") == ["--image=own.example/{daemon}:1"]
    assert flags(unset) == []
