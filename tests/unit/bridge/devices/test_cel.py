# SPDX-License-Identifier: Apache-2.0
"""CEL expressions: which devices they select, and which syntax is rejected."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.selector_expressions import SelectorGenerator
from tests.unit.bridge.build import GPU_DRIVER, gpus

from slinky.bridge.devices import cel
from slinky.bridge.devices.cel_values import CostExceeded, Evaluation, EvaluationError, UnsupportedExpression
from slinky.bridge.devices.cores import DeviceId as At
from slinky.bridge.devices.inventory import InventoryDevice, cel_device, expression_selects
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
        "!" * 200 + "true",
        'semver("1.0.0-alpha.10").isGreaterThan(semver("1.0.0-alpha.9"))',
        'semver("1.0.0-1").isLessThan(semver("1.0.0-a")) && semver("1.0.0-a").isLessThan(semver("1.0.0"))',
        f'{OWN}.exists(key, key == "model") && {OWN}.all(key, key != "uuid")',
        f'["a", "b"].exists(x, {OWN}.uuid == x || x == "b")',
        f'!["a", "b"].all(x, {OWN}.uuid == x && x != "b")',
        '"\u00c4B".lowerAscii() == "\u00c4b" && "\u00e4b".upperAscii() == "\u00e4B"',
        "has(device.attributes.absent) && !('absent' in device.attributes)",
        f"cel.bind(unused, {OWN}.uuid, true)",
        f"{OWN}.?index.orValue({OWN}.uuid) == 1",
        f"{OWN}.driverVersion != 'text'",
        "[1, 2] == [1.0, 2.0] && [1] != [true] && [[1]] == [[1]]",
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
        f"!has({OWN}.uuid.deeper)",
        f'["a", "b"].exists(x, {OWN}.uuid == x)',
        f"{OWN}.driverVersion == 'text'",
        f"{OWN}.driverVersion < {OWN}.driverVersion",
        f"[[1]] in {OWN} || {OWN}[[1]] == 1",
        f"{OWN}.?uuid.value() == 1 || 1.hasValue()",
        f'semver("{"9" * 5000}.0.0") == semver("1.0.0")',
        f'quantity("{"9" * 5000}x") == quantity("1")',
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
        ("[" * 200 + "]" * 200, "nested"),
        ("cel.bind(a, " * 60 + "1" + ", true)" * 60, "nested"),
        ("has(device)", "has"),
        ('has(device["driver"])', "has"),
        ("true || " * 1500 + "true", "too long"),
        ("9" * 5000 + " == 1", "too large"),
        ("9223372036854775808 == 1", "too large"),
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


@given(st.integers(0, 10**6))
def test_a_random_selector_is_evaluated(seed: int) -> None:
    expression_selects(cel.compile_expression(SelectorGenerator(seed).expression()), GPU)


@pytest.mark.parametrize(
    ("expression", "cost"),
    [  # as Kubernetes counts
        (f'device.driver == "{GPU_DRIVER}"', 4),
        (f'{OWN}.model == "M1"', 5),
        (f"{OWN}.index in [0, 1]", 4),
        ("[1, 2, 3].exists(x, x == 3)", 19),
        ("[1, 2, 3].all(x, x < 4)", 16),
        ("[1, 2, 3].all(x, x < 0)", 8),
        (f'{OWN}.model.lowerAscii() == "m1"', 6),
        (f'"{"a" * 40}".contains("{"a" * 12}")', 8),
        (f'device.capacity["{GPU_DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0', 7),
        (f"{OWN}.model in [{OWN}.model, {OWN}.driverVersion]", 24),
    ],
)
def test_the_cost_is_counted_as_in_kubernetes(expression: str, cost: int) -> None:
    run = Evaluation({"device": cel_device(GPU)})
    cel.compile_expression(expression).evaluate(run)
    assert run.cost == cost


MANY = ", ".join(["1"] * 300)


@pytest.mark.parametrize(
    "expression",
    [
        f"cel.bind(a, [{MANY}], a.all(x, a.all(y, a.all(z, x == y))))",
        f"cel.bind(a, [{MANY}], a.all(x, a.all(y, '{'a' * 4000}' == '{'a' * 4000}')))",
        f"cel.bind(a, [{MANY}], a.all(x, a.all(y, y in [x, x, x, x, x, x])))",
        "".join(f"cel.bind(x{n + 1}, [{f'x{n}, ' * 30} x{n}], " for n in range(5)).replace("x0", "'a'")
        + "x5 == x5 && [x5] != [x4] && x5.all(a, a.all(b, b.all(c, c.all(d, d.all(e, e == 'a')))))"
        + ")" * 5,
    ],
)
def test_an_expensive_selector_is_ended(expression: str) -> None:
    with pytest.raises(CostExceeded, match="costs more than 1,000,000"):
        cel.compile_expression(expression).evaluate(Evaluation({"device": cel_device(GPU)}))


@pytest.mark.parametrize(
    "expression",
    [
        "||".join(["false"] * 1400),
        "&&".join(["true"] * 1600),
        "==".join(["true"] * 1600),
        f"device{'.a' * 5000} == 1",
        f"device{'[1]' * 3000} == 1",
        f"device{'.?a' * 3000}.hasValue()",
        f"'a'{'.lowerAscii()' * 700} == 'a'",
        "true ? true : " * 700 + "false",
        "!" * 10_000 + "true",
        "(" * 24 + "true" + " && has(device.attributes.x) || false ? true : false)" * 24,
    ],
)
def test_a_long_chain_is_evaluated_without_recursion(expression: str) -> None:
    expression_selects(cel.compile_expression(expression), GPU)


TRUTHS = st.sampled_from([("true", True), ("false", False), ("(nothing == 1)", None)])


@given(TRUTHS, TRUTHS)
def test_a_decisive_side_determines_a_logical_expression(
    left: tuple[str, bool | None], right: tuple[str, bool | None]
) -> None:
    def decided(expression: str) -> bool | None:
        try:
            return cel.compile_expression(expression).evaluate(Evaluation({}))
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
