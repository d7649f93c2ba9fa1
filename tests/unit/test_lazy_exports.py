# SPDX-License-Identifier: Apache-2.0
"""A package whose names are imported when they are used has every name that it promises, and no other."""

import importlib

import pytest


@pytest.mark.parametrize("package", ["slinky.api", "slinky.kube", "slinky.observe", "slinky.slurm"])
def test_every_name_of_a_package_can_be_imported(package: str) -> None:
    module = importlib.import_module(package)
    names = list(module.__all__)
    assert names
    assert [name for name in names if getattr(module, name) is None] == []
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        module.nothing  # noqa: B018 -- the access is the test
