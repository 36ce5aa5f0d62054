"""Warns of loops that go over the same elements again and again.

Where eager does little and a loop much, a model is slow for a reason that nobody sees: of a pooling
window 1,280 wide over 7 by 7 elements, Inductor visits all. Known cases are fixed
(`passes.clamp_windows`); this finds what we do not.
"""

import contextlib
import logging
import math
from collections.abc import Iterable, Iterator
from typing import Any

from pteron.backends.aoti.inductor.patched import patched
from pteron.exir._program import source_line

_LOG = logging.getLogger(__name__)

#: Fewer take less than a tenth of a second.
_MANY = 1 << 27

#: So many iterations for each element are no product of matrices or other known work.
_TIMES = 1024


@contextlib.contextmanager
def long_loops_reported() -> Iterator[None]:
    """Each loop that Inductor generates inside is looked at."""
    from torch._inductor.scheduler import Scheduler

    generate: Any = Scheduler.codegen

    def look_and_generate(scheduler: Any) -> Any:
        for group in scheduler.nodes:
            for loop in group.get_nodes():
                _report(loop)
        return generate(scheduler)

    with patched(Scheduler, "codegen", look_and_generate):
        yield


def _report(loop: Any) -> None:
    from torch._inductor.virtualized import V

    if not hasattr(loop, "get_ranges"):
        return  # a call
    iterations = _product(size for sizes in loop.get_ranges() for size in sizes)
    names = {access.name for access in loop.read_writes.reads | loop.read_writes.writes}
    elements = sum(_product([V.graph.get_numel(name)]) for name in names)
    if iterations < _MANY or iterations <= _TIMES * elements:
        return
    origins = sorted(loop.node.origins, key=lambda node: node.name)
    _LOG.warning(
        "a loop of %d iterations reads and writes %d elements, and may take far longer than in "
        "eager: %s",
        iterations,
        elements,
        "; ".join(", ".join(filter(None, (str(n.target), source_line(n)))) for n in origins),
    )


def _product(sizes: Iterable[Any]) -> int:
    """Of the sizes that are known."""
    return math.prod(int(size) for size in sizes if getattr(size, "is_number", True))
