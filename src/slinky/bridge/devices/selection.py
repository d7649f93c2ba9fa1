# SPDX-License-Identifier: Apache-2.0
"""Which devices the expressions of a request select, evaluated in steps. Pure.

Users write the expressions, and each is evaluated for every device of every node. So the cost is limited as in
Kubernetes for one device, and over all devices; the caller decides where and when the steps run. Results are stored in
the inventories, which are replaced when the ResourceSlices of their node change.
"""

from collections.abc import Iterable, Iterator, Sequence

from slinky.bounds import CEL_COST_MAX
from slinky.bridge.devices import cel, inventory
from slinky.bridge.devices.cel_values import (
    CostExceeded,
    Evaluation,
    EvaluationError,
    UnsupportedExpression,
)
from slinky.bridge.devices.inventory import DeviceInventory, Expressions, GresKind

#: Limit on the cost over all devices: this, and so much for each device. Usual expressions cost about 10 for a device.
TOTAL_COST, COST_PER_DEVICE = 5_000_000, 1_000
#: Cost of building the variables of one device, in the unit of the evaluation.
DEVICE_COST = 10


class CheapLimitExceeded(CostExceeded):
    """The evaluation costs more than the caller wanted to spend for one device; with a higher limit it may succeed."""


def evaluation_steps(
    inventories: Sequence[DeviceInventory], expressions: Expressions, limit: int = CEL_COST_MAX
) -> Iterator[int]:
    """Evaluate the expressions for all devices; yields the cost of each step.

    Raises `CheapLimitExceeded` if one evaluation costs more than a `limit` below that of Kubernetes. Another failure is
    the result for all inventories that follow.
    """
    for position, own in enumerate(inventories):
        counts: dict[GresKind, int] = {}
        for kind, devices in own.kinds.items():
            counts[kind] = 0
            for device in devices:
                try:
                    cost, selected = _evaluate_device(device, expressions, limit)
                except CheapLimitExceeded:
                    raise
                except UnsupportedExpression as error:
                    _store_failure(inventories[position:], expressions, error)
                    return
                counts[kind] += selected
                yield cost
        own.store_selection(expressions, counts)


def _store_failure(
    inventories: Iterable[DeviceInventory], expressions: Expressions, error: UnsupportedExpression
) -> None:
    for own in inventories:
        own.store_selection(expressions, error)


def _evaluate_device(device: inventory.InventoryDevice, expressions: Expressions, limit: int) -> tuple[int, bool]:
    """The cost of an evaluation, and whether all expressions select the device."""
    variables, cost = {"device": inventory.cel_device(device)}, DEVICE_COST
    for expression in expressions:
        run = Evaluation(variables, limit)
        try:
            if not cel.compile_expression(expression).evaluate(run):
                return cost + run.cost, False
        except EvaluationError:
            return cost + run.cost, False
        except CostExceeded as error:
            if limit < CEL_COST_MAX:
                raise CheapLimitExceeded(str(error)) from None
            raise
        cost += run.cost
    return cost, True


def evaluate(inventories: Iterable[DeviceInventory], expressions: Expressions) -> None:
    """Evaluate everything at once."""
    for _ in evaluation_steps(list(inventories), expressions):
        pass


def total_limit(device_count: int) -> int:
    """The limit on the cost of one request over so many devices."""
    return TOTAL_COST + COST_PER_DEVICE * device_count


def check_total(cost: int, inventories: Iterable[DeviceInventory], expressions: Expressions) -> bool:
    """Whether a cost is within the limit over all devices of the cluster; otherwise stores that it is not."""
    inventories = list(inventories)
    count = sum(len(devices) for own in inventories for devices in own.kinds.values())
    if cost <= total_limit(count):
        return True
    error = CostExceeded(f"its evaluation for all {count} devices costs more than {total_limit(count):,}")
    _store_failure(inventories, expressions, error)
    return False
