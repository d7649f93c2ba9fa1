# SPDX-License-Identifier: Apache-2.0
"""Names that a package imports from its modules when they are first used.

A program that needs one name of a package pays for one module, so that `slinky --help` and the pure packages load no
HTTP client and no metrics. The package has the same imports below `TYPE_CHECKING`, for tools that read the source.
"""

import importlib
import sys
from collections.abc import Callable, Mapping


def lazy_exports(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package; `modules` has the names of each module, separated by spaces."""
    homes = {name: f"{package}.{module}" for module, names in modules.items() for name in names.split()}

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = importlib.import_module(homes[name])
        value = getattr(home, name) if hasattr(home, name) else importlib.import_module(f"{homes[name]}.{name}")
        setattr(sys.modules[package], name, value)
        return value

    return get
