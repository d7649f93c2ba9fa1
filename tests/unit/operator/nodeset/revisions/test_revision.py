# SPDX-License-Identifier: Apache-2.0
"""When two templates mean the same workers, which revisions are stored, and how a rollback restores one."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.operator.samples import node_set

from slinky.api.names import metadata
from slinky.api.nodeset import NodeSetSpec
from slinky.kube.types import ObjectMeta
from slinky.operator.nodeset.objects import WorkerHashes
from slinky.operator.nodeset.revisions.revision import (
    Revision,
    build_manifest,
    contents_digest,
    current_name,
    encode_data,
    find_match,
    find_requested,
    newest_image,
    restore_patch,
    same_workers,
    surplus_revisions,
    template,
    with_image,
)

READ = contents_digest(WorkerHashes())


def stored_revision(number: int, read: str = READ, **spec: Any) -> Revision:
    manifest = build_manifest(node_set(**spec), template(node_set(**spec)), read, number)
    data = {**manifest, "metadata": {**manifest["metadata"], "uid": f"uid-{number}"}}
    return msgspec.json.decode(msgspec.json.encode(data), type=Revision)


def test_data_are_written_as_the_server_writes_them() -> None:
    data = {"spec": {"template": {"b": 1, "a": [True, None]}, "extraConf": "<a & b> \u2028 é"}}
    expected = '{"spec":{"extraConf":"\\u003ca \\u0026 b\\u003e \\u2028 é","template":{"a":[true,null],"b":1}}}'
    assert bytes(encode_data(data)).decode() == expected
    assert msgspec.json.decode(encode_data(data)) == data


@pytest.mark.parametrize(
    "spec",
    [
        {"slurmd": {"image": "x"}},
        {"extraConf": "Weight=2"},
        {"ordinalPadding": 2},
        {"oversubscribeNode": True},
        {"template": {"spec": {"priorityClassName": "x"}}},
        {"ssh": {"enabled": True, "sssdConfRef": {"name": "a", "key": "b"}}},
        {"slurmd": {"securityContext": {"privileged": False}}},
    ],
    ids=str,
)
def test_what_makes_a_new_revision(spec: dict[str, Any]) -> None:
    assert find_match([stored_revision(1)], template(node_set(**spec)), READ) is None


@pytest.mark.parametrize(
    "spec",
    [
        {"replicas": 9},
        {"partition": {"enabled": True}},
        {"minReadySeconds": 5},
        {"pinToNode": True},
        {"ssh": {"extraSshdConfig": "Banner none"}},  # while it is off
    ],
    ids=str,
)
def test_what_does_not(spec: dict[str, Any]) -> None:
    assert find_match([stored_revision(1)], template(node_set(**spec)), READ) == stored_revision(1)


@pytest.mark.parametrize(
    "hashes", [WorkerHashes(slurm_key="x"), WorkerHashes(sssd="x"), WorkerHashes(sshd="x")], ids=str
)
def test_what_workers_have_read_makes_a_revision_too(hashes: WorkerHashes) -> None:
    assert find_match([stored_revision(1)], template(node_set()), contents_digest(hashes)) is None


def test_one_that_another_operator_has_kept_is_the_same_if_it_means_the_same() -> None:
    spec: dict[str, Any] = {
        "slurmd": {"image": "x", "resources": {"limits": {"cpu": "1000m", "memory": "1Gi"}}},
        "template": {"spec": {"hostname": "g-", "tolerations": []}},
    }
    theirs = {
        "spec": {
            "template": {"metadata": {"creationTimestamp": None}, "spec": {"hostname": "g-"}, "$patch": "replace"},
            "slurmd": {"image": "x", "name": "", "resources": {"limits": {"cpu": "1", "memory": "1024Mi"}}},
            "logfile": {},
            "ssh": {"enabled": False, "sssdConfRef": {"key": "", "name": ""}},
            "extraConf": "",
            "ordinalPadding": 0,
            "oversubscribeNode": False,
        }
    }
    foreign = Revision(ObjectMeta(name="gpu-6d4f", labels={metadata.REVISION: "6d4f"}), 1, theirs)
    assert find_match([foreign], template(node_set(**spec)), READ) == foreign
    assert find_match([foreign], template(node_set(**spec, extraConf="Weight=2")), READ) is None


def test_the_same_template_read_again_is_found_and_not_made_anew() -> None:
    revisions = [stored_revision(1), stored_revision(2, slurmd={"image": "x"}), stored_revision(3, "other")]
    assert find_match(revisions, template(node_set()), READ) == revisions[0]


def test_revisions_beyond_the_limit_go_but_never_one_that_a_worker_carries() -> None:
    revisions = [stored_revision(n, slurmd={"image": str(n)}) for n in range(1, 6)]
    used = {revisions[0].hash, revisions[4].hash}
    assert [item.revision for item in surplus_revisions(revisions, used, 1)] == [2, 3]
    assert [item.revision for item in surplus_revisions(revisions, used, 0)] == [2, 3, 4]
    assert surplus_revisions(revisions, used, 3) == []


def test_the_current_revision_is_the_one_most_have_until_all_have_the_wanted_one() -> None:
    old, new = stored_revision(1), stored_revision(2, slurmd={"image": "x"})
    assert current_name([old, new], {old.hash: 3, new.hash: 1}, new) == old.metadata.name
    assert current_name([old, new], {new.hash: 4}, new) == new.metadata.name
    assert current_name([old, new], {"never kept": 4}, new) == new.metadata.name


def test_a_person_names_a_revision_by_number_by_name_or_as_the_previous_one() -> None:
    revisions = [stored_revision(7, slurmd={"image": "b"}), stored_revision(2)]
    assert (
        find_requested(revisions, "previous")
        == find_requested(revisions, "2")
        == find_requested(revisions, revisions[1].metadata.name)
        == revisions[1]
    )
    assert find_requested(revisions, "3") is None
    assert find_requested(revisions[:1], "previous") is None


IMAGES = st.sampled_from([None, "a", "b"])
SPECS = st.builds(
    lambda image, env, conf, padding, labels: {
        "slurmd": {**({"image": image} if image else {}), **({"env": env} if env else {})},
        "extraConf": conf,
        "ordinalPadding": padding,
        "template": {"metadata": {"labels": labels}, "spec": {"priorityClassName": conf} if conf else {}},
    },
    IMAGES,
    st.lists(st.fixed_dictionaries({"name": st.sampled_from("xy")}), max_size=2),
    st.sampled_from(["", "Weight=2"]),
    st.integers(0, 3),
    st.dictionaries(st.sampled_from("ab"), st.sampled_from("cd"), max_size=2),
)


def patched(live: Any, patch: Any) -> Any:
    """RFC 7386, as the API server does it."""
    if not isinstance(patch, dict):
        return patch
    revisions = dict(live) if isinstance(live, dict) else {}
    for key, value in patch.items():
        if value is None:
            revisions.pop(key, None)
        else:
            revisions[key] = patched(revisions.get(key), value)
    return revisions


@given(SPECS, SPECS)
def test_going_back_gives_exactly_the_kept_template_and_touches_nothing_else(one: Any, other: Any) -> None:
    before, wanted = node_set(replicas=7, **one), template(node_set(**other))
    spec = patched(msgspec.to_builtins(before.spec), restore_patch(before, wanted))
    after = msgspec.structs.replace(before, spec=msgspec.convert(spec, NodeSetSpec))
    assert same_workers(template(after), wanted)
    assert after.spec.replicas == 7
    assert restore_patch(after, wanted) == {}


@pytest.mark.parametrize("image", ["", "registry.example/slurmd:26.05"])
def test_an_image_that_has_to_wait_is_replaced_by_exactly_what_the_newest_revision_has(image: str) -> None:
    slurmd = {"args": ["-v"], **({"image": image} if image else {})}
    revisions = [stored_revision(1, slurmd={"image": "old"}), stored_revision(2, slurmd=slurmd)]
    assert newest_image(revisions) == image
    assert with_image({"args": ["-v"], "image": "new"}, image) == slurmd
    assert newest_image([]) is None
