# SPDX-License-Identifier: Apache-2.0
"""A stage that is expensive to build and that several tests share, without one failure hiding the next.

The first test that needs the stage builds it. A test that fails throws it away, and the next test builds another. A
stage that cannot be built twice in a row is not tried a third time: the tests that remain fail at once with that error.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Generic, TypeVar

import pytest

T = TypeVar("T")

#: Set by `tests/e2e/conftest.py` on a test that has failed, in any of its phases.
FAILED = pytest.StashKey[bool]()
#: Failed attempts after which a stage is not built again.
ATTEMPTS = 2


class SharedStage(Generic[T]):
    """Builds a stage when it is needed; `build` is a context manager that ends the stage."""

    def __init__(self, build: Callable[[], AbstractContextManager[T]]) -> None:
        self._build = build
        self._stack = ExitStack()
        self._stage: T | None = None
        self._errors: list[BaseException] = []

    def get(self) -> T:
        """The stage, built if it is not there."""
        if len(self._errors) >= ATTEMPTS:
            raise RuntimeError(f"the stage could not be built {ATTEMPTS} times") from self._errors[-1]
        if self._stage is None:
            try:
                self._stage = self._stack.enter_context(self._build())
            except BaseException as error:
                self._errors.append(error)
                raise
            self._errors.clear()
        return self._stage

    def close(self) -> None:
        """End the stage; the next `get` builds another."""
        self._stage = None
        self._stack.close()


def lend(shared: SharedStage[T], test: pytest.Item) -> Iterator[T]:
    """The body of a fixture that gives the stage to one test.

    The stage is thrown away if the test has failed, or has set `is_spent` on it.
    """
    stage = shared.get()
    yield stage
    if test.stash.get(FAILED, False) or getattr(stage, "is_spent", False):
        shared.close()
