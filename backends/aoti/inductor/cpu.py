"""What Inductor would ask the exporter's CPU, answered for the target's."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from pteron.backends.aoti.inductor.patched import patched


@contextlib.contextmanager
def without_mkldnn() -> Iterator[None]:
    """oneDNN off. What Inductor registers only while it is on is registered before, once, so that
    the process's own compilations find their patterns afterwards."""
    from torch._inductor.fx_passes import mkldnn_fusion

    for name in ("_mkldnn_fusion_init", "_mkldnn_weight_pack_init"):
        register = getattr(mkldnn_fusion, name, None)
        if register is not None:
            register()
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


@contextlib.contextmanager
def repeats_by_the_runtime() -> Iterator[None]:
    """`repeat_interleave` calls the runtime, which looks at the repeats and at their sum.

    Inductor searches the numbers of rows instead, and takes the nearest where there is none.
    """
    from torch._inductor import decomposition

    op = torch.ops.aten.repeat_interleave.Tensor
    tables: list[dict[Any, Any]] = [
        decomposition.decompositions,
        decomposition.fast_random_decomps(),
    ]
    before = [table.pop(op, None) for table in tables]
    try:
        yield
    finally:
        for table, found in zip(tables, before, strict=True):
            if found is not None:
                table[op] = found


@contextlib.contextmanager
def template_choices() -> Iterator[None]:
    """GEMMs become C++ templates where one fits, without benchmarking; else the library call.

    A template is rendered for the chosen kernel alone, not also for the benchmark that none runs.
    """
    from torch._inductor.codegen.cpp_template import CppTemplate
    from torch._inductor.codegen.cpp_template_kernel import CppTemplateKernel
    from torch._inductor.select_algorithm import get_algorithm_selector_cache

    def prefer_templates(choices: Sequence[Any]) -> list[Any]:
        templates = [choice for choice in choices if "cpp" in choice.name.lower()]
        return (templates or list(choices))[:1]

    generate: Callable[..., Any] = CppTemplate.generate

    @functools.wraps(generate)
    def generate_choice(self: Any, **kwargs: Any) -> Any:
        with patched(CppTemplateKernel, "render", _declare_arguments):
            return generate(self, **kwargs)

    selector = get_algorithm_selector_cache()
    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(selector, "preprocessing_fns", [prefer_templates]))
        stack.enter_context(patched(CppTemplate, "generate", generate_choice))
        yield


def _declare_arguments(kernel: Any, template: Any, **kwargs: Any) -> str:
    """What a choice needs of rendering: the kernel's arguments, in the template's order."""
    outputs = template.output_node
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    kernel.def_kernel(
        {f"input_{index}": node for index, node in enumerate(template.input_nodes)},
        {f"output_{index}": node for index, node in enumerate(outputs)},
    )
    return f"// {template.name} {template.index}"


#: A parallel region costs more than it saves below this many multiplications.
#: Half of it, as much as one step of a small recurrent layer, takes 4 us; a region may cost that.
_SERIAL_PRODUCT = 1 << 17


@contextlib.contextmanager
def serial_small_products() -> Iterator[None]:
    """Small matmuls are generated for one thread, without a parallel region."""
    from torch._inductor.codegen.cpp_gemm_template import CppGemmTemplate

    add_choices = CppGemmTemplate.__dict__["add_choices"].__func__

    signature = inspect.signature(add_choices)

    def add(cls: Any, choices: Any, layout: Any, input_nodes: Any, *args: Any, **more: Any) -> Any:
        bound = signature.bind(cls, choices, layout, input_nodes, *args, **more).arguments
        left = input_nodes[1 if bound.get("has_bias") else 0]  # [bias,] left, right
        with serial_if_small([*layout.size, left.get_size()[-1]]):
            return add_choices(cls, choices, layout, input_nodes, *args, **more)

    with patched(CppGemmTemplate, "add_choices", classmethod(add)):
        yield


@contextlib.contextmanager
def serial_if_small(sizes: Sequence[Any]) -> Iterator[None]:
    """Inside, code is for one thread if a product of `sizes` (rows, columns, terms) is small."""
    products = 1
    for size in sizes:
        products *= int(size) if getattr(size, "is_number", True) else _SERIAL_PRODUCT
    with contextlib.ExitStack() as stack:
        if products < _SERIAL_PRODUCT:
            stack.enter_context(torch._inductor.config.patch("cpp.threads", 1))
        yield


#: Caches that products are blocked for, in bytes per core: a small L1 and L2 of present machines.
#: Fixed, so that the exporter's machine plays no part in the code.
_CACHE_SIZES = {"l1d_cache_size": 32 << 10, "l2_cache_size": 1 << 20}


@contextlib.contextmanager
def cache_sizes() -> Iterator[None]:
    """Sizes that GEMM templates ask the machine for."""
    capabilities = {**torch.cpu.get_capabilities(), **_CACHE_SIZES}
    with patched(torch.cpu, "get_capabilities", lambda: capabilities):
        yield


@contextlib.contextmanager
def vector_isa(bits: int) -> Iterator[None]:
    """The vector width is the target's; nothing is probed."""
    from torch._inductor import cpu_vec_isa

    by_width = {512: cpu_vec_isa.VecAVX512, 256: cpu_vec_isa.VecAVX2}
    if bits == 0:
        available: list[Any] = []
    elif bits in by_width:
        base = by_width[bits]
        available = [type(base.__name__, (base,), {"__bool__": lambda self: True})()]
    else:
        raise ValueError(f"vector_bits is {bits}; expected 512, 256 or 0")
    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(cpu_vec_isa, "valid_vec_isa_list", lambda: available))
        yield
