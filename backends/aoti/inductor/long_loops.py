"""Warns of loops with far more iterations than elements.

Such a model is slow where eager is not: for a pooling window of 1,280 over 7 by 7 elements,
Inductor loops over the whole window. Known cases are fixed (`passes.clamp_windows`); this reports
others.
"""

import logging
import math
from collections.abc import Iterable
from typing import Any

from pteron.backends.aoti.inductor.patches import Context, wrapped
from pteron.exir.graph.exported_program import source_line

_LOG = logging.getLogger(__name__)

#: Iterations that take about 0.1 s.
_MANY = 1 << 27

#: Iterations per element, more than in matmuls and other known cases.
_TIMES = 1024


def warn_of_long_loops() -> Context:
    """Inside, checks each loop that Inductor generates."""
    from torch._inductor.scheduler import Scheduler

    def look_and_generate(generate: Any, scheduler: Any, nodes: Any) -> Any:
        for loop in (loop for group in nodes for loop in group.get_nodes()):
            _report(loop)
        return generate(scheduler, nodes)

    return wrapped(Scheduler, "_codegen", look_and_generate)


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
