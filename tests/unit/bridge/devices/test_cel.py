# SPDX-License-Identifier: Apache-2.0
"""CEL expressions: which devices they select, and which syntax is rejected."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.bridge.build import GPU_DRIVER, gpus

from slinky.bridge.devices import cel
from slinky.bridge.devices.cel_values import EvaluationError, UnsupportedExpression
from slinky.bridge.devices.cores import DeviceId as At
from slinky.bridge.devices.inventory import InventoryDevice, expression_selects
from slinky.bridge.views import Device

GPU = InventoryDevice(At(GPU_DRIVER, "n1", "gpu-1"), gpus(2).spec.devices[1])
OWN = f'device.attributes["{GPU_DRIVER}"]'


@pytest.mark.parametrize(
    "expression",
    [
        f'device.driver == "{GPU_DRIVER}"',
        f"device.driver=='{GPU_DRIVER}' && {OWN}.model == 'M1'",
        f'{OWN}["index"] == 1 && {OWN}.index >= 1 && {OWN}.index < 2',
        f"{OWN}.index in [0, 1]",
        f'"index" in {OWN} && !("uuid" in {OWN})',
        f"has({OWN}.index) && !has({OWN}.uuid)",
        f'{OWN}.model.startsWith("M") && {OWN}.model.lowerAscii() == "m1"',
        f'device.capacity["{GPU_DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0',
        f'device.capacity["{GPU_DRIVER}"].memory.isGreaterThan(quantity("79Gi"))',
        f'{OWN}.driverVersion.compareTo(semver("1.2.0")) > 0',
        f'cel.bind(own, {OWN}, own.model == "M1" && own.index == 1)',
        f'["M0", "M1"].exists(m, m == {OWN}.model)',
        f'{OWN}.?uuid.orValue("none") == "none"',
        'device.attributes["other.example.com"].?x.hasValue() ? false : true',
        f"({OWN}.uuid == 'x') || true",
        "!(device.allowMultipleAllocations)",
        "1 != 'a' && -1 < 0 && 1.5 > 1",
        r'r"\d" == "\\d" && size("abc") == 3',
    ],
)
def test_expressions_that_select_the_device(expression: str) -> None:
    assert expression_selects(cel.compile_expression(expression), GPU)


@pytest.mark.parametrize(
    "expression",
    [
        "device.driver == 'other'",
        f"{OWN}.uuid == 'x'",
        'device.attributes["other.example.com"].x == 1',
        f"{OWN}.model > 1",
        f"{OWN}.index == true",
        f"{OWN}.uuid == 'x' && true",
        f"{OWN}.index",
        "nothing == 1",
    ],
)
def test_a_device_without_the_attribute_is_not_selected(expression: str) -> None:
    assert not expression_selects(cel.compile_expression(expression), GPU)


@pytest.mark.parametrize(
    ("expression", "word"),
    [
        (f"{OWN}.model.matches('a+')", "matches"),
        ("1 + 1 == 2", "+"),
        ("timestamp('x') == 1", "timestamp"),
        ("device.driver ==", "the end"),
        ("(" * 200 + "true" + ")" * 200, "nested"),
        ("!" * 200 + "true", "nested"),
        ("cel.block([1], true)", "cel.bind"),
        ('"\\x41" == "A"', "escape"),
        ("true true", "true"),
        ("a.startsWith()", "arguments"),
    ],
)
def test_unsupported_syntax_is_rejected_by_name(expression: str, word: str) -> None:
    with pytest.raises(UnsupportedExpression) as expected_text:
        cel.compile_expression(expression)
    assert word in str(expected_text.value)


@given(st.text(max_size=80))
def test_any_expression_is_evaluated_or_rejected(text: str) -> None:
    try:
        test = cel.compile_expression(text)
    except UnsupportedExpression:
        return
    expression_selects(test, GPU)


TRUTHS = st.sampled_from([("true", True), ("false", False), ("(nothing == 1)", None)])


@given(TRUTHS, TRUTHS)
def test_a_decisive_side_determines_a_logical_expression(
    left: tuple[str, bool | None], right: tuple[str, bool | None]
) -> None:
    def decided(expression: str) -> bool | None:
        try:
            return cel.compile_expression(expression)({})
        except EvaluationError:
            return None

    def expected(sides: set[Any], decisive: bool) -> bool | None:
        return decisive if decisive in sides else None if None in sides else not decisive

    sides = {left[1], right[1]}
    assert decided(f"{left[0]} || {right[0]}") is expected(sides, True)
    assert decided(f"{left[0]} && {right[0]}") is expected(sides, False)


def test_names_without_a_domain_belong_to_the_driver() -> None:
    bare = InventoryDevice(At("d.example.com", "n1", "x"), Device("x", gpus(1).spec.devices[0].attributes))
    assert expression_selects(cel.compile_expression('device.attributes["d.example.com"].model == "M1"'), bare)
