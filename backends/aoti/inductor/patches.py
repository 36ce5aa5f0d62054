"""The table of what lowering changes of torch while it generates code.

    @patch(wraps="ir.WhileLoop: create")
    def realize_constant_while_loop_inputs() -> Context:
        '''What for.'''
        return patched(ir.WhileLoop, "create", ...)

Each entry is a function that returns a context manager; its places are names below torch._inductor,
or whole ones. A place that is *wrapped* is called with its own arguments, so that its parameters
count; one that is *replaced*, or a text that is *read*, counts as it is. `release` compares places
with those of the newest tested release where the installed one is not known.

`repair` marks workarounds for bugs of Inductor that change results or stop a lowering. Each has a
test that fails without it, in `tests/test_repairs.py` unless it says where, and that fails, too,
where a release of torch has fixed the bug.
"""

import contextlib
import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from pteron.backends.aoti.inductor import release

Context: TypeAlias = contextlib.AbstractContextManager[Any]


@dataclasses.dataclass(frozen=True)
class Patch:
    """One entry.

    Attributes:
        name: of the function.
        purpose: the first sentence of its docstring.
        wraps, replaces, reads: see the module's docstring.
        releases: that need it; empty: all.
        is_repair: see the module's docstring.
        enter: returns the context manager.
    """

    name: str
    purpose: str
    wraps: tuple[str, ...]
    replaces: tuple[str, ...]
    reads: tuple[str, ...]
    releases: tuple[str, ...]
    is_repair: bool
    enter: Callable[..., Context]


#: By name, in the order in which repairs are applied.
TABLE: dict[str, Patch] = {}


def patch(
    *,
    wraps: str = "",
    replaces: str = "",
    reads: str = "",
    releases: str = "",
    repairs: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Context]]:
    """Adds a function, or a generator as contextlib.contextmanager takes it, to the table.

    Args:
        wraps, replaces, reads: places, as "ir.WhileLoop: create; graph.GraphLowering: run_node".
        releases: outside of which nothing is changed, as "2.11 2.12"; empty: none.
    """

    def add(function: Callable[..., Any]) -> Callable[..., Context]:
        change = function
        if inspect.isgeneratorfunction(function):
            change = contextlib.contextmanager(function)

        @contextlib.contextmanager
        @functools.wraps(function)
        def enter(*args: Any, **kwargs: Any) -> Iterator[None]:
            if releases and release.release() not in releases.split():
                yield
                return
            with change(*args, **kwargs):  # made only now, when the changes around it are in place
                yield

        purpose = " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())
        TABLE[function.__name__] = Patch(
            name=function.__name__,
            purpose=purpose,
            wraps=_places(wraps),
            replaces=_places(replaces),
            reads=_places(reads),
            releases=tuple(releases.split()),
            is_repair=repairs,
            enter=enter,
        )
        return enter

    return add


def _places(groups: str) -> tuple[str, ...]:
    found = []
    for group in filter(None, groups.split(";")):
        owner, _, names = group.strip().partition(":")
        owner = (
            owner
            if owner.partition(".")[0] in ("torch", "torchgen")
            else f"torch._inductor.{owner}"
        )
        found += [f"{owner}.{name}" for name in names.split()]
    return tuple(found)


#: A workaround for a bug.
repair = functools.partial(patch, repairs=True)


@contextlib.contextmanager
def repaired() -> Iterator[None]:
    """All repairs that this release needs."""
    with together(*(entry.enter() for entry in TABLE.values() if entry.is_repair)):
        yield


@contextlib.contextmanager
def together(*contexts: Context) -> Iterator[None]:
    """All of them, entered in order."""
    with contextlib.ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield


@contextlib.contextmanager
def patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    """`owner.name` is `value` inside."""
    before = inspect.getattr_static(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """The process's environment has `values` inside."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
