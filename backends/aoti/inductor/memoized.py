"""Texts of templates, rewritten; and less repeated or superfluous work in code generation.

The layers of a transformer render the same GEMM templates. Each time jinja2 compiles their text and
sympy parses their index expressions: half of the time of code generation. Both depend on the text
only.
"""

import functools
from collections.abc import Callable
from typing import Any

import sympy
import torch

from pteron.backends.aoti.inductor.patches import Context, together, wrapped


def load_inductor() -> None:
    """Imports Inductor with its lowerings. Its templates of GPU kernels, a third of the time, are
    compiled when they are used."""
    from torch._inductor.codegen.common import KernelTemplate

    with wrapped(KernelTemplate, "_template_from_string", _CompiledLater):
        import torch._inductor.compile_fx  # noqa: F401


class _CompiledLater:
    """A template of jinja2."""

    def __init__(self, compile_text: Callable[[str], Any], text: str) -> None:
        self._compile, self._text = compile_text, text

    def __getattr__(self, name: str) -> Any:
        template = self._compile(self._text)
        self.__dict__ |= {"render": template.render}
        return getattr(template, name)


def rewritten_templates(rewrite: Callable[[str], str]) -> Context:
    """Templates are compiled from what `rewrite` makes of their texts, each once in the scope."""
    from torch._inductor.codegen.common import KernelTemplate

    template = functools.cache(lambda compile_text, text: compile_text(rewrite(text)))
    return wrapped(KernelTemplate, "_template_from_string", template)


def memoized_index_expressions() -> Context:
    """Each text and number in an index expression is parsed once in the scope, and each expression
    printed once: sympy imports all its names to parse a number."""
    from torch._inductor.codegen import cpp_template_kernel
    from torch.utils._sympy.printers import CppPrinter

    parse_text = functools.cache(lambda parse, text: parse(text))
    # Where values are equal, as 1 and 1.0, their types count.
    print_expression = functools.lru_cache(None, typed=True)(lambda print, *key: print(*key))

    def print_once(print: Callable[..., str], printer: Any, expr: Any) -> str:
        is_expression = isinstance(expr, sympy.Expr)
        return print_expression(print, printer, expr) if is_expression else print(printer, expr)

    def parse_once(parse: Callable[[Any], Any], expr: Any) -> Any:  # items of a list, too
        if isinstance(expr, list | tuple | sympy.Expr):
            return parse(expr)
        return parse_text(parse, str(expr))

    return together(
        wrapped(cpp_template_kernel, "parse_expr_with_index_symbols", parse_once),
        wrapped(CppPrinter, "doprint", print_once),
    )


def fake_constants() -> Context:
    """Where shapes are propagated, constants are fake tensors, too: results of operators on real
    ones are in no cache. That is half of the time of propagating, which is done five times.

    Of a single element torch keeps the value, if it is real."""
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    def get(get_attr: Callable[..., Any], prop: Any, *args: Any) -> Any:
        value = get_attr(prop, *args)
        if type(value) in (torch.Tensor, torch.nn.Parameter) and value.numel() > 1:
            return prop._mode.from_tensor(value, static_shapes=True)
        return value

    return wrapped(FakeTensorProp, "get_attr", get)


def weights_packed_once() -> Context:
    """A constant weight is packed once for all targets that have it in the same blocks: a tenth of
    the time of code generation for transformers, and their memory."""
    from torch._inductor.codegen.cpp_gemm_template import CppGemmTemplate

    packed: dict[Any, tuple[Any, Any]] = {}

    def pack(block: Callable[..., Any], cls: Any, w: Any, new_size: Any, padding: Any) -> Any:
        if not isinstance(w, torch.Tensor):
            return block(cls, w, new_size, padding)
        key = w.data_ptr(), w.dtype, w.shape, w.stride(), tuple(new_size), padding
        if key not in packed:
            packed[key] = w, block(cls, w, new_size, padding)  # it keeps its address
        return packed[key][1]

    return wrapped(CppGemmTemplate, "block_weight", pack)


def rules_of_dtypes_set_once() -> Context:
    """The one object that tells the dtypes of results is made ready once in the scope, not again
    for each operator in a kernel."""
    from torch._inductor.dtype_propagation import DtypePropagationOpsHandler

    return wrapped(DtypePropagationOpsHandler, "__init__", functools.cache(lambda init, x: init(x)))


def polynomial_strides() -> Context:
    """The stride of an index without quotients and remainders is found without sympy's
    simplification, which is for these: a sixth of the time of code generation for convolutional
    networks, and all but some of it for reflections (`Abs`) of dynamic sizes."""
    from torch._inductor.codegen import cpp
    from torch.utils._sympy.functions import FloorDiv, ModularIndexing

    difference = functools.cache(lambda a, var: sympy.expand(a.xreplace({var: var + 1}) - a))

    def find_stride(find: Callable[..., Any], index: Any, var: Any, length: Any = None) -> Any:
        is_index = isinstance(index, sympy.Expr)
        quotients = index.atoms(FloorDiv, ModularIndexing) if is_index else [var]
        has_quotient = any(part.has(var) for part in quotients)
        return find(index, var, length) if has_quotient else difference(index, var)

    return wrapped(cpp, "stride_at_vec_range", find_stride)
