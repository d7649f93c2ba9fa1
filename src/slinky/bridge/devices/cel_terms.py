# SPDX-License-Identifier: Apache-2.0
"""The terms of a compiled CEL expression: functions of an evaluation. Pure; `cel` parses expressions into terms.

Chains of operators and fields are loops, so that their length does not add to the depth of the call stack.
"""

from collections.abc import Callable, Sequence
from typing import Any

from slinky.bridge.devices import cel_values
from slinky.bridge.devices.cel_values import Evaluation, EvaluationError, Function, Operator, OptionalValue

Term = Callable[[Evaluation], Any]
Step = Callable[[Evaluation, Any], Any]
"""A step of a chain such as `.name`: a function of the value before it."""

LIST_COST = 10
#: Types whose values are equal in CEL exactly if they are equal in Python.
_SCALARS = (str, int, float)


class Constant:
    """A term that does not depend on variables."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, _run: Evaluation) -> Any:
        """The value."""
        return self.value


class _Binding:
    """The value of a variable of `cel.bind`, which is evaluated when it is first used."""

    __slots__ = ("_result", "_term", "_variables")

    def __init__(self, term: Term, variables: dict[str, Any]) -> None:
        self._term, self._variables = term, variables
        self._result: tuple[Any, EvaluationError | None] | None = None

    def value(self, run: Evaluation) -> Any:
        """The value, or the same failure every time."""
        if self._result is None:
            self._result = self._evaluate(run)
        value, error = self._result
        if error is not None:
            raise error
        return value

    def _evaluate(self, run: Evaluation) -> tuple[Any, EvaluationError | None]:
        current, run.variables = run.variables, self._variables
        try:
            return self._term(run), None
        except EvaluationError as error:
            return None, error
        finally:
            run.variables = current


def variable(name: str) -> Term:
    """The value of a variable."""

    def evaluate(run: Evaluation) -> Any:
        run.charge()
        if name not in run.variables:
            raise EvaluationError(f"{name[:100]} is not defined")
        value = run.variables[name]
        return value.value(run) if isinstance(value, _Binding) else value

    return evaluate


def list_of(terms: Sequence[Term]) -> Term:
    """A list. A list of constants is one constant, which costs nothing."""
    values = [term.value for term in terms if isinstance(term, Constant)]
    if len(values) == len(terms):
        return Constant(values)

    def evaluate(run: Evaluation) -> list[Any]:
        run.charge(LIST_COST + len(values) // LIST_COST)
        return [term(run) for term in terms]

    return evaluate


def conditional(cases: Sequence[tuple[Term, Term]], otherwise: Term) -> Term:
    """`test ? yes : ...` with the first case whose test is true."""

    def evaluate(run: Evaluation) -> Any:
        for test, yes in cases:
            if cel_values.require_bool(test(run)):
                return yes(run)
        return otherwise(run)

    return evaluate if cases else otherwise


def logic(terms: Sequence[Term], *, decisive: bool) -> Term:
    """`||` and `&&`: a term with the decisive value determines the result even if other terms fail."""

    def evaluate(run: Evaluation) -> bool:
        failure: EvaluationError | None = None
        for term in terms:
            try:
                if cel_values.require_bool(term(run)) is decisive:
                    return decisive
            except EvaluationError as error:
                failure = error
        if failure is not None:
            raise failure
        return not decisive

    return evaluate if len(terms) > 1 else terms[0]


def relation(first: Term, rest: Sequence[tuple[Operator, Term]]) -> Term:
    """Comparisons, from left to right."""

    def evaluate(run: Evaluation) -> Any:
        value = first(run)
        for operator, term in rest:
            value = operator(run, value, term(run))
        return value

    if len(rest) == 1 and rest[0][0] is cel_values.RELATIONS["in"] and isinstance(rest[0][1], Constant):
        return _constant_lookup(first, rest[0][1].value)
    return evaluate if rest else first


def _constant_lookup(first: Term, values: Any) -> Term:
    """`in` with a list of constants, which is a lookup; Kubernetes does not count it."""
    if values == []:
        return Constant(False)
    are_scalars = isinstance(values, list) and all(type(value) in _SCALARS for value in values)
    scalars = frozenset(values if are_scalars else ())
    contains = cel_values.RELATIONS["in"]

    def evaluate(run: Evaluation) -> bool:
        value = first(run)
        return type(value) in _SCALARS and value in scalars if are_scalars else contains(run, value, values)

    return evaluate


def call(function: Function, *terms: Term) -> Term:
    """A function of the values of some terms."""
    return lambda run: function(run, *[term(run) for term in terms])


def bind(name: str, value: Term, body: Term) -> Term:
    """`cel.bind`: a term with one more variable."""

    def evaluate(run: Evaluation) -> Any:
        outer = run.variables
        run.charge()
        run.variables = {**outer, name: _Binding(value, outer)}
        try:
            return body(run)
        finally:
            run.variables = outer

    return evaluate


# --- chains


def chain(first: Term, steps: Sequence[Step]) -> Term:
    """A value and what follows it: fields, elements and methods."""

    def evaluate(run: Evaluation) -> Any:
        value = first(run)
        for step in steps:
            value = step(run, value)
        return value

    return evaluate if steps else first


def field(name: str) -> Step:
    """`.name`; the field of an optional value is optional."""
    return item(Constant(name))


def item(key: Term) -> Step:
    """`[key]`; the element of an optional value is optional."""

    def evaluate(run: Evaluation, value: Any) -> Any:
        wanted = key(run)
        run.charge()
        is_optional = isinstance(value, OptionalValue)
        return cel_values.find_item(value, wanted) if is_optional else cel_values.get_item(value, wanted)

    return evaluate


def optional_field(name: str) -> Step:
    """`.?name`."""

    def evaluate(run: Evaluation, value: Any) -> Any:
        run.charge()
        return cel_values.find_item(value, name)

    return evaluate


def has_field(name: str) -> Step:
    """`has(value.name)`."""
    return lambda _, value: cel_values.has_field(value, name)


def method(function: Function, terms: Sequence[Term]) -> Step:
    """`.function(terms)`."""
    return lambda run, value: function(run, value, *[term(run) for term in terms])


def or_value(other: Term) -> Step:
    """`.orValue(other)`; the other term is evaluated only if the value is absent."""

    def evaluate(run: Evaluation, value: Any) -> Any:
        if not isinstance(value, OptionalValue):
            raise EvaluationError("orValue requires an optional value")
        return value.value if value.present else other(run)

    return evaluate


def macro(name: str, body: Term, *, decisive: bool) -> Step:
    """`.exists` and `.all`: an element with the decisive value determines the result even if others fail."""
    test_cost = 3 if decisive else 2  # of the condition of cel-go's loop

    def evaluate(run: Evaluation, value: Any) -> bool:
        values, outer = cel_values.elements(value), run.variables
        failure: EvaluationError | None = None
        variables = run.variables = dict(outer)
        try:
            for position, element in enumerate(values, 1):
                run.charge(test_cost + 1)
                variables[name] = element
                try:
                    if cel_values.require_bool(body(run)) is decisive:
                        run.charge(1 + (test_cost if position < len(values) else 0))
                        return decisive
                except EvaluationError as error:
                    failure = error
        finally:
            run.variables = outer
        run.charge()
        if failure is not None:
            raise failure
        return not decisive

    return evaluate


#: The macros, with the value of an element that determines the result.
MACROS = {"exists": True, "all": False}
