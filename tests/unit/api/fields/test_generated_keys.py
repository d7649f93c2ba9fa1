# SPDX-License-Identifier: Apache-2.0
"""Keys are made once."""

from slinky.api.fields.generated_keys import missing
from slinky.api.names.metadata import GENERATE_KEYS


def test_only_keys_that_are_asked_for_and_missing_are_made() -> None:
    asked = {GENERATE_KEYS: "slurm.key, jwt.key"}
    assert missing(asked, {"slurm.key": b"old"}, dice=lambda size: b"x" * size) == {"jwt.key": b"x" * 1024}
    assert missing(asked, {"slurm.key": b"a", "jwt.key": b"b"}) == {}
    assert missing({}, {}) == {}


def test_no_two_keys_are_the_same() -> None:
    made = missing({GENERATE_KEYS: "a,b"}, {})
    assert made["a"] != made["b"]
    assert len(made["a"]) == 1024
