"""Garbage collection while programs are lowered.

    with collected_rarely():
        ...

Lowering makes millions of objects that live on: nodes, symbols, modules of torch. Python's default
looks through all of them again and again, a quarter of the time of a small model.
"""

import contextlib
import gc
import threading
from collections.abc import Iterator

#: Objects between collections of the youngest generation, and what multiplies it for the older.
#: Cycles that hold tensors are still freed.
_THRESHOLDS = (100_000, 20, 10)

_lock = threading.Lock()
_inside = 0
_before: tuple[int, ...] = ()


@contextlib.contextmanager
def collected_rarely() -> Iterator[None]:
    """Inside, on any thread, collections are rare. The process's thresholds are put back by who
    leaves last. Where collection is off, or already rarer, nothing changes."""
    global _inside, _before
    with _lock:
        _inside += 1
        if _inside == 1:
            _before = gc.get_threshold()
            if 0 < _before[0] < _THRESHOLDS[0]:
                gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                gc.set_threshold(*_before)
