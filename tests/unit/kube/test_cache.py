# SPDX-License-Identifier: Apache-2.0
"""Laws of the cache."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.unit.kube.objects import config_map

from slinky.kube import CONFIG_MAPS, Cache, ConfigMap, Key, Later, ObjectMeta, UndecodableObject, Unreadable, by_label
from slinky.kube.metrics import LISTENER_ERRORS
from slinky.observe.log import record_fields


def make(**indexes: object) -> Cache[ConfigMap]:
    return Cache(CONFIG_MAPS, indexes={"app": by_label("app")})


def synced_cache(*config_maps: ConfigMap, version: int = 100) -> Cache[ConfigMap]:
    cache = make()
    cache.begin_list()
    for item in config_maps:
        cache.put(item)
    cache.finish_list(str(version))
    return cache


def test_only_a_complete_list_removes() -> None:
    cache = synced_cache(config_map("a", 1), config_map("b", 2))
    cache.begin_list()
    cache.put(config_map("a", 1))
    assert len(cache) == 2  # the list may still mention b
    cache.begin_list()  # the stream was cut; another list starts
    cache.put(config_map("a", 1))
    cache.finish_list("200")
    assert cache.keys() == [Key("ns", "a")]


def test_an_object_newer_than_the_list_stays() -> None:
    cache = synced_cache(config_map("a", 1))
    cache.begin_list()
    cache.record_write(config_map("b", 300))  # the list is of before our write and does not mention it
    cache.put(config_map("a", 1))
    cache.finish_list("200")
    assert set(cache.keys()) == {Key("ns", "a"), Key("ns", "b")}


def test_events_from_before_our_own_write_change_nothing() -> None:
    cache = synced_cache(config_map("a", 1, data={"x": "old"}))
    cache.record_write(config_map("a", 9, data={"x": "mine"}))
    cache.put(config_map("a", 5, data={"x": "late event"}))
    assert cache.get(Key("ns", "a")) == config_map("a", 9, data={"x": "mine"})
    cache.remove(ObjectMeta("a", "ns", resource_version="4"))
    assert Key("ns", "a") in cache


def test_an_old_event_does_not_restore_a_deleted_object() -> None:
    cache = synced_cache(config_map("a", 1))
    cache.record_removal(Key("ns", "a"), "uid-a")
    cache.put(config_map("a", 2))
    assert cache.get(Key("ns", "a")) is None
    cache.remove(ObjectMeta("a", "ns", resource_version="3"))
    cache.put(config_map("a", 4, uid="another"))
    assert cache.get(Key("ns", "a")) is not None


def test_a_recreated_object_is_cached_after_a_deletion_of_the_same_name() -> None:
    cache = synced_cache(config_map("a", 1))
    cache.record_removal(Key("ns", "a"), "uid-a")
    cache.put(config_map("a", 2, uid="another"))
    assert cache.get(Key("ns", "a")) is not None


@pytest.mark.parametrize(
    ("grace", "finalizers", "stays"),
    [(0, (), False), (None, (), False), (30, (), True), (0, ("x",), True)],
    ids=["the last version", "the last version of a kind without grace", "a grace period", "a finalizer"],
)
def test_the_remainder_of_a_deletion_is_cached_and_a_final_version_is_not(
    grace: int | None, finalizers: tuple[str, ...], stays: bool
) -> None:
    before = config_map("a", 1)
    meta = structs.replace(
        before.metadata,
        resource_version="200",
        deletion_timestamp="2026-11-16T12:00:00Z",
        deletion_grace_period_seconds=grace,
        finalizers=finalizers,
    )
    cache = synced_cache(before)
    cache.record_deletion(before, structs.replace(before, metadata=meta))
    assert (Key("ns", "a") in cache) is stays
    cache.record_deletion(before, None)
    assert Key("ns", "a") not in cache


def test_a_write_result_that_arrives_after_the_deletion_restores_nothing() -> None:
    cache = synced_cache(config_map("a", 1))
    cache.put(config_map("a", 101))
    cache.remove(ObjectMeta("a", "ns", resource_version="103"))
    cache.record_write(config_map("a", 102))  # our patch was between the two
    assert Key("ns", "a") not in cache
    cache.record_write(config_map("a", 104, uid="another"))
    assert Key("ns", "a") in cache


def test_a_rewound_list_replaces_newer_versions() -> None:
    cache = synced_cache(config_map("a", 500), config_map("b", 501), version=501)
    cache.begin_list(rewound=True)
    cache.put(config_map("a", 7))
    cache.finish_list("8")
    assert cache.keys() == [Key("ns", "a")]
    assert next(iter(cache)).metadata.resource_version == "7"


def test_an_undecodable_object_is_never_treated_as_absent() -> None:
    cache = synced_cache(config_map("a", 1))
    cache.begin_list()
    cache.put_undecodable(UndecodableObject(ObjectMeta("a", "ns", resource_version="2"), "data is a list"))
    cache.put_undecodable(UndecodableObject(ObjectMeta("b", "ns", resource_version="2"), "data is a list"))
    cache.finish_list("200")
    assert cache.get(Key("ns", "a")) == config_map("a", 1)
    with pytest.raises(Unreadable, match="ns/b"):
        cache.get(Key("ns", "b"))
    assert set(cache.undecodable) == {Key("ns", "a"), Key("ns", "b")}
    cache.put(config_map("b", 3))
    assert cache.get(Key("ns", "b")) is not None
    assert set(cache.undecodable) == {Key("ns", "a")}


def test_a_list_with_an_unnamed_object_proves_no_absence() -> None:
    cache = synced_cache(config_map("a", 1))
    cache.begin_list()
    cache.put_undecodable(UndecodableObject(ObjectMeta(), "no metadata"))
    cache.finish_list("200")
    assert Key("ns", "a") in cache


def test_a_deleted_undecodable_object_is_gone() -> None:
    cache = synced_cache()
    cache.put_undecodable(UndecodableObject(ObjectMeta("b", "ns", resource_version="2"), "why"))
    cache.remove(ObjectMeta("b", "ns", resource_version="3"))
    assert cache.get(Key("ns", "b")) is None


def test_listeners_get_old_and_new_version_of_real_changes_only() -> None:
    cache = synced_cache(config_map("a", 1))
    heard: list[tuple[str, str]] = []
    cache.listen(
        lambda old, new: heard.append(
            (old.metadata.resource_version if old else "", new.metadata.resource_version if new else "")
        )
    )
    cache.put(config_map("a", 1))
    cache.put(config_map("a", 2))
    cache.remove(ObjectMeta("a", "ns", resource_version="3"))
    assert heard == [("", "1"), ("1", "2"), ("2", "")]


async def test_waiting_for_a_list_ends_at_the_deadline() -> None:
    with pytest.raises(Later, match="configmaps"):
        await make().wait_synced(0.01)


def test_an_index_that_is_added_later_contains_the_existing_objects() -> None:
    cache = synced_cache(config_map("a", 1, labels={"app": "x", "tier": "t"}))
    cache.add_indexes({"tier": by_label("tier")})
    assert [item.metadata.name for item in cache.by("tier", "t")] == ["a"]


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["put", "drop"]), st.sampled_from(["", "x", "y"])),
        max_size=30,
    )
)
def test_an_index_always_agrees_with_the_objects(steps: list[tuple[str, str, str]]) -> None:
    cache = synced_cache(version=0)
    for version, (name, step, label) in enumerate(steps, start=1):
        if step == "put":
            cache.put(config_map(name, version, labels={"app": label} if label else {}))
        else:
            cache.remove(ObjectMeta(name, "ns", resource_version=str(version)))
    for value in ("x", "y"):
        expected = {item.key for item in cache if item.metadata.labels.get("app") == value}
        assert {item.key for item in cache.by("app", value)} == expected
    assert set(cache.index_values("app")) == {
        item.metadata.labels["app"] for item in cache if "app" in item.metadata.labels
    }


def test_a_listener_that_fails_on_an_object_ends_neither_the_watch_nor_other_listeners(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_old: ConfigMap | None, new: ConfigMap | None) -> None:
        if new is not None and new.metadata.name == "poison":
            raise ValueError("unreadable")

    heard: list[str] = []
    cache, before = make(), LISTENER_ERRORS.labels("configmaps")._value.get()
    cache.put(config_map("poison", 1))
    cache.listen(fail)
    cache.listen(lambda old, new: heard.append((new or old).metadata.name))  # type: ignore[union-attr]
    cache.put(config_map("poison", 2))
    cache.put(config_map("good", 3))
    assert heard == ["poison", "poison", "good"]
    assert LISTENER_ERRORS.labels("configmaps")._value.get() == before + 2
    assert {record_fields(record)["key"] for record in caplog.records} == {"ns/poison"}


def test_an_object_that_an_index_cannot_handle_stays_in_the_cache() -> None:
    def number(item: ConfigMap) -> list[str]:
        return [str(int(item.data["number"]))]

    cache: Cache[ConfigMap] = Cache(CONFIG_MAPS, indexes={"number": number})
    cache.put(config_map("poison", 1, data={"number": "x"}))
    cache.put(config_map("good", 2, data={"number": "7"}))
    cache.put(config_map("poison", 3, data={"number": "7"}))
    assert [item.metadata.name for item in cache.by("number", "7")] == ["good", "poison"]
    cache.put(config_map("poison", 4, data={"number": "x"}))
    assert [item.metadata.name for item in cache.by("number", "7")] == ["good"]
    assert Key("ns", "poison") in cache
