# SPDX-License-Identifier: Apache-2.0
"""Which artifacts are prepared for what."""

from slinky.lab.prepare.inventory import DAEMONS, EARLIER, LOGIN, ArtifactInventory


def test_an_earlier_slurm_is_prepared_only_where_it_is_wanted() -> None:
    inventory = ArtifactInventory.of()
    usual, earlier = inventory.selected(vms=False), inventory.selected(vms=False, earlier=True)
    added = earlier.keys() - usual.keys()
    assert {f"image-{name}{EARLIER}" for name in (*DAEMONS, *LOGIN)} <= added
    assert all(name.endswith(EARLIER) for name in added)


def test_images_of_an_earlier_slurm_have_the_recipes_of_the_others_and_keys_of_their_own() -> None:
    inventory = ArtifactInventory.of()
    for name in (*DAEMONS, *LOGIN):
        earlier = inventory.earlier_artifacts[f"image-{name}{EARLIER}"]
        usual = inventory.artifacts[f"image-{name}"]
        assert earlier.inputs[0] == usual.inputs[0]
        assert earlier.key != usual.key


def test_api_servers_of_other_versions_are_prepared_only_if_wanted() -> None:
    inventory = ArtifactInventory.of()
    usual, more = inventory.selected(vms=False), inventory.selected(vms=False, api_servers=("1.35", "1.36"))
    assert set(more) - set(usual) == {"api-server-1.35"}
    assert inventory.api_server("1.36") == usual["programs"]
    assert set(more) < set(inventory.every_artifact())
