"""How many bytes objects keep in memory, counted rather than measured: the same on every machine.

What is added up is the size of every object that can be reached, each once. Classes, functions and
modules, and what only they refer to, are left out.
"""

import gc
import sys
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)


def kept_bytes(*roots: Any) -> int:
    """The bytes of these objects and of all objects that they refer to."""
    seen: dict[int, Any] = {}
    pending = [*roots]
    while pending:
        each = pending.pop()
        if id(each) not in seen and not isinstance(each, _SHARED):
            seen[id(each)] = each
            pending += gc.get_referents(each)
            if isinstance(each, dict):
                pending += each  # The collector does not look at keys that are texts.
    return sum(map(sys.getsizeof, seen.values()))
