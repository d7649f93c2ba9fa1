# SPDX-License-Identifier: Apache-2.0
"""Random device selectors in the supported subset of CEL, and devices to evaluate them for."""

from collections.abc import Callable
from random import Random
from typing import Any

DRIVER = "gpu.example.com"
OWN = f'device.attributes["{DRIVER}"]'
DEVICE: dict[str, Any] = {
    "driver": DRIVER,
    "attributes": {
        "index": {"int": 1},
        "model": {"string": "M1-Ä"},
        "healthy": {"bool": True},
        "firmware": {"version": "1.2.3-rc.10"},
        "other.example.com/numa": {"int": 0},
    },
    "capacity": {"memory": {"value": "80Gi"}, "other.example.com/lanes": {"value": "16"}},
}
TEXTS = ("", "M", "M1-Ä", "m1-ä", "1", "model", DRIVER, "x" * 40)
VERSIONS = ("1.2.3", "1.2.3-rc.9", "1.2.3-rc.10", "1.2.3-rc.x", "1.2.3-rc", "1.2.3+b", "1.2", "01.2.3", "v1.2.3", "")
QUANTITIES = ("80Gi", "81Gi", "1", "1e3", "0.5", "16", "x", "")
NAMES = ("index", "model", "healthy", "firmware", "absent", "numa")


class SelectorGenerator:
    """Generates expressions of growing depth."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311 -- test data
        self._variables: list[str] = []

    def expression(self, depth: int = 4) -> str:
        """An expression that has a boolean value, unless an attribute is missing or has another type."""
        forms: list[Callable[[int], str]] = [
            self._relation,
            self._presence,
            self._text_test,
            self._comparison,
            self._literal,
        ]
        if depth > 0:
            forms += [self._logic, self._logic, self._negation, self._conditional, self._macro, self._macro, self._bind]
        return self._random.choice(forms)(depth - 1)

    def _pick(self, values: Any) -> Any:
        return self._random.choice(tuple(values))

    def _literal(self, _: int) -> str:
        return str(self._pick(("true", "false", f"{OWN}.healthy", "device.allowMultipleAllocations")))

    def _logic(self, depth: int) -> str:
        operator = self._pick((" && ", " || "))
        return f"({operator.join(self.expression(depth) for _ in range(self._random.randint(2, 4)))})"

    def _negation(self, depth: int) -> str:
        return f"!{self.expression(depth)}" if self._random.random() < 0.2 else f"!({self.expression(depth)})"

    def _conditional(self, depth: int) -> str:
        return f"({self.expression(depth)} ? {self.expression(depth)} : {self.expression(depth)})"

    def _attribute(self) -> str:
        domain = self._pick((DRIVER, DRIVER, DRIVER, "other.example.com", "absent.example.com"))
        name = self._pick(NAMES)
        form = self._pick(
            ('device.attributes["{d}"].{n}', 'device.attributes["{d}"]["{n}"]', 'device.attributes["{d}"].{n}')
        )
        return str(form.format(d=domain, n=name))

    def _text(self) -> str:
        return f'"{self._pick(TEXTS)}"'

    def _value(self) -> str:
        values = [self._attribute(), self._attribute(), self._text(), str(self._random.randint(-2, 2)), "1.0", "true"]
        return str(self._pick([*values, *self._variables]))

    def _relation(self, _: int) -> str:
        operator = self._pick(("==", "!=", "<", "<=", ">", ">=", "in", "in"))
        if operator == "in":
            # Not a version: with one, Kubernetes ends the evaluation by an internal error.
            attribute = self._attribute().replace("firmware", "index")
            return f"{attribute} in {self._list()}" if self._random.random() < 0.5 else self._key_test()
        return f"{self._attribute()} {operator} {self._value()}"

    def _key_test(self) -> str:
        place = self._pick((OWN, "device.attributes", 'device.capacity["absent.example.com"]'))
        return f'"{self._pick((*NAMES, DRIVER))}" in {place}'

    def _list(self) -> str:
        make = self._pick((self._text, lambda: str(self._random.randint(-2, 2)), self._attribute))
        return f"[{', '.join(make() for _ in range(self._random.randint(0, 4)))}]"

    def _presence(self, _: int) -> str:
        attribute = f'device.attributes["{self._pick((DRIVER, "absent.example.com"))}"]'
        name = self._pick(NAMES)
        form = self._pick(
            (
                "has({a}.{n})",
                "has({a}.{n}.deeper)",
                "{a}.?{n}.hasValue()",
                "{a}.?{n}.?deeper.hasValue()",
                '{a}.?{n}.orValue("x") == "x"',
                "{a}.?{n}.orValue({a}.index) == 1",
                "{a}.?{n}.value() == 1",
                "has(device.attributes.{n})",
                "device.attributes.?{n}.hasValue()",
            )
        )
        return f"({form.format(a=attribute, n=name)})"

    def _text_test(self, _: int) -> str:
        text = self._pick((f"{OWN}.model", f"{OWN}.index", "device.driver", self._text()))
        function = self._pick(("startsWith", "endsWith", "contains"))
        change = self._pick(("", "", ".lowerAscii()", ".upperAscii()"))
        test = f"{text}{change}.{function}({self._text()})"
        return str(self._pick((test, test, f"size({text}) > 2", f"{text}{change} == {self._text()}")))

    def _comparison(self, _: int) -> str:
        version = self._pick((f"{OWN}.firmware", f'semver("{self._pick(VERSIONS)}")'))
        memory = self._pick((f'device.capacity["{DRIVER}"].memory', f'quantity("{self._pick(QUANTITIES)}")'))
        pairs = (
            (version, f'semver("{self._pick(VERSIONS)}")'),
            (memory, f'quantity("{self._pick(QUANTITIES)}")'),
        )
        left, right = self._pick(pairs)
        form = self._pick(("{}.compareTo({}) >= 0", "{}.isGreaterThan({})", "{}.isLessThan({})", "{} == {}"))
        return f"({form.format(left, right)})"

    def _macro(self, depth: int) -> str:
        name, values = f"x{len(self._variables)}", self._pick((self._list(), self._list(), OWN, "device.attributes"))
        self._variables.append(name)
        body = self._pick((f"{name} == {self._value()}", f"{name} != {self._value()}", self.expression(depth)))
        self._variables.pop()
        return f"{values}.{self._pick(('exists', 'all'))}({name}, {body})"

    def _bind(self, depth: int) -> str:
        name = f"x{len(self._variables)}"
        value = self._value()
        self._variables.append(name)
        body = self.expression(depth)
        self._variables.pop()
        return f"cel.bind({name}, {value}, {body})"
