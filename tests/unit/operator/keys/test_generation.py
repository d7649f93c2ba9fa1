# SPDX-License-Identifier: Apache-2.0
"""Generated keys are created once and never replaced."""

from slinky.api.names.metadata import GENERATE_KEYS
from slinky.bounds import GENERATED_KEYS_MAX
from slinky.operator.keys.generation import missing_keys


def test_only_keys_that_are_asked_for_and_missing_are_made() -> None:
    annotations = {GENERATE_KEYS: "slurm.key, jwt.key"}
    keys = missing_keys(annotations, {"slurm.key": b"old"}, random_bytes=lambda size: b"x" * size)
    assert keys == {"jwt.key": b"x" * 1024}
    assert missing_keys(annotations, {"slurm.key": b"a", "jwt.key": b"b"}) == {}
    assert missing_keys({}, {}) == {}


def test_the_number_of_keys_is_bounded() -> None:
    assert (
        len(missing_keys({GENERATE_KEYS: ",".join(f"k{number}" for number in range(40_000))}, {})) == GENERATED_KEYS_MAX
    )


def test_no_two_keys_are_the_same() -> None:
    keys = missing_keys({GENERATE_KEYS: "a,b"}, {})
    assert keys["a"] != keys["b"]
    assert len(keys["a"]) == 1024
