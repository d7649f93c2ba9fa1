# SPDX-License-Identifier: Apache-2.0
import pytest

from slinky.operator.slurm.connections import key_weakness


@pytest.mark.parametrize(("size", "weak"), [(16, True), (31, True), (32, False), (1024, False)])
def test_a_jwt_key_shorter_than_its_signatures_is_reported(size: int, weak: bool) -> None:
    problem = key_weakness(bytes(size))
    assert bool(problem) is weak
    assert not weak or f"{size} bytes" in problem
