# SPDX-License-Identifier: Apache-2.0
import msgspec
import pytest

from slinky.kube.managed_fields import FieldManager, ManagedObject

ENTRIES = [
    {"manager": "helm", "fieldsV1": {"f:spec": {".": {}, "f:replicas": {}, "f:slurmd": {"f:image": {}}}}},
    {"manager": "kube-controller-manager", "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
    {"manager": "operator", "subresource": "status", "fieldsV1": {"f:status": {"f:replicas": {}}}},
    {"manager": "odd", "fieldsV1": {"f:spec": []}},
]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("spec", "replicas"), {FieldManager("helm"), FieldManager("kube-controller-manager", "scale")}),
        (("spec", "slurmd", "image"), {FieldManager("helm")}),
        (("spec", "autoscaling"), set()),
    ],
)
def test_the_managers_of_a_field_are_those_that_have_written_it(
    path: tuple[str, ...], expected: set[FieldManager]
) -> None:
    live = msgspec.convert({"metadata": {"name": "x", "managedFields": ENTRIES}}, ManagedObject)
    assert live.managers(*path) == expected
