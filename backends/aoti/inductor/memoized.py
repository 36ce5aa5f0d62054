"""Work that Inductor repeats for every kernel, done once for each text.

A transformer's layers ask for the same matrix-product templates over and over, and each time their
text is parsed and compiled by jinja2 and their index expressions by sympy: half of the time that
code generation takes. Both depend on the text alone.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from pteron.backends.aoti.inductor.patched import patched


@contextlib.contextmanager
def memoized() -> Iterator[None]:
    """Templates and index expressions are memoized until the end of the scope."""
    from torch._inductor.codegen import cpp_template_kernel
    from torch._inductor.codegen.common import KernelTemplate

    template = functools.cache(KernelTemplate._template_from_string)
    parse: Callable[[Any], Any] = cpp_template_kernel.parse_expr_with_index_symbols
    parse_text = functools.cache(parse)

    def parse_each(expr: Any) -> Any:
        if isinstance(expr, (list, tuple)):
            return [parse_each(item) for item in expr]
        return parse_text(expr) if isinstance(expr, str) else parse(expr)

    with contextlib.ExitStack() as stack:
        stack.enter_context(
            patched(KernelTemplate, "_template_from_string", staticmethod(template))
        )
        stack.enter_context(
            patched(cpp_template_kernel, "parse_expr_with_index_symbols", parse_each)
        )
        yield
