"""Changes of torch for a scope, and the list of repairs among them.

    @repair()
    def realize_constant_while_loop_inputs() -> Context:
        '''What for.'''
        return wrapped(ir.WhileLoop, "create", create_realized)

`recognition.table` reads from this folder's text which function patches or wraps which places. A
file names in `PLACES` what it relies on besides: what it changes in other ways, and texts that it
reads.

Repairs are workarounds for bugs of Inductor that change results or stop a lowering. Each has a test
that fails without it, in `tests/test_repairs.py` unless it says where; most fail, too, where a
release of torch has fixed the bug: it names the releases that need it, then.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeVar
from unittest import mock

Context: TypeAlias = contextlib.AbstractContextManager[Any]
_Function = TypeVar("_Function", bound=Callable[[], Context])

#: By name, in the order in which they are applied: what enters them, and the releases that need
#: them (none: all).
REPAIRS: dict[str, tuple[Callable[[], Context], tuple[str, ...]]] = {}


def repair(*releases: str) -> Callable[[_Function], _Function]:
    """Adds a function to `REPAIRS`."""

    def add(function: _Function) -> _Function:
        REPAIRS[function.__name__] = function, releases
        return function

    return add


@contextlib.contextmanager
def repaired(release: str) -> Iterator[None]:
    """All repairs that a release needs."""
    with contextlib.ExitStack() as stack:
        for enter, releases in REPAIRS.values():
            if not releases or release in releases:
                stack.enter_context(enter())
        yield


@contextlib.contextmanager
def together(*contexts: Context) -> Iterator[None]:
    """All of them, entered in order."""
    with contextlib.ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield


#: patched(owner, name, value): `owner.name` is `value` inside.
patched = mock.patch.object


def wrapped(owner: Any, name: str, function: Callable[..., Any]) -> Context:
    """`owner.name(...)` is `function(original, ...)` inside."""
    stored = inspect.getattr_static(owner, name)
    original = getattr(stored, "__func__", stored)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(original, *args, **kwargs)

    return patched(owner, name, call if stored is original else type(stored)(call))
