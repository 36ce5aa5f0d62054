"""Inductor compiles for the target's CPU instead of the exporter's."""

import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch

from pteron.backends.aoti.inductor.patches import Context, patched, together, wrapped


@contextlib.contextmanager
def without_mkldnn() -> Iterator[None]:
    """Disables oneDNN. Patterns that Inductor registers once, and only with oneDNN enabled, are
    registered before, for later compilations of the process."""
    from torch._inductor.fx_passes import mkldnn_fusion

    mkldnn_fusion._mkldnn_fusion_init()
    mkldnn_fusion._mkldnn_weight_pack_init()
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def without_lazy_patterns() -> Context:
    """The patterns that Inductor registers at first use are not: of attention, which are refused,
    and of matmuls on GPUs."""
    from torch._inductor.fx_passes import joint_graph

    return wrapped(joint_graph, "lazy_init", lambda init, *args: None)


def call_runtime_repeat_interleave() -> Context:
    """`repeat_interleave` is a fallback kernel, which checks the repeats and their sum.

    Inductor's decomposition is a search that clamps wrong repeats.
    """
    from torch._inductor.decomposition import decompositions, fast_random_decomps

    tables: Any = decompositions, fast_random_decomps()
    op = torch.ops.aten.repeat_interleave.Tensor
    others = [{key: value for key, value in table.items() if key != op} for table in tables]
    return together(*map(functools.partial(mock.patch.dict, clear=True), tables, others))


def prefer_gemm_templates() -> Context:
    """A GEMM uses a C++ template if one applies, without benchmarking; else the library call.

    Templates are rendered for the chosen kernel only, not for a benchmark.
    """
    from torch._inductor import select_algorithm
    from torch._inductor.codegen.cpp_template import CppTemplate
    from torch._inductor.codegen.cpp_template_kernel import CppTemplateKernel

    def prefer_templates(choices: Sequence[Any]) -> list[Any]:
        templates = [choice for choice in choices if "cpp" in choice.name.lower()]
        return (templates or list(choices))[:1]

    def generate_choice(generate: Callable[..., Any], template: Any, **kwargs: Any) -> Any:
        with patched(CppTemplateKernel, "render", _declare_arguments):
            return generate(template, **kwargs)

    # What the constructor makes besides is for benchmarks, such as a digest of all files of Triton.
    selector: Any = object.__new__(select_algorithm.AlgorithmSelectorCache)
    selector.preprocessing_fns = [prefer_templates]
    return together(
        patched(select_algorithm, "get_algorithm_selector_cache", lambda: selector),
        wrapped(CppTemplate, "generate", generate_choice),
    )


def _declare_arguments(kernel: Any, template: Any, **kwargs: Any) -> str:
    """Replaces rendering: defines the kernel's arguments, in the template's order."""
    outputs = template.output_node
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    kernel.def_kernel(
        {f"input_{index}": node for index, node in enumerate(template.input_nodes)},
        {f"output_{index}": node for index, node in enumerate(outputs)},
    )
    return f"// {template.name} {template.index}"


#: A parallel region does not pay below this many multiplications.
#: Half of it, one step of a small recurrent layer, takes 4 us; a parallel region can cost that.
_SERIAL_GEMM = 1 << 17


def serialize_small_gemms() -> Context:
    """Small GEMMs are generated for one thread, without a parallel region."""
    from torch._inductor.codegen.cpp_gemm_template import CppGemmTemplate

    def add(add_choices: Callable[..., Any], *args: Any, **more: Any) -> Any:
        bound = inspect.signature(add_choices).bind(*args, **more).arguments
        left = bound["input_nodes"][1 if bound.get("has_bias") else 0]  # [bias,] left, right
        with single_thread_if_small([*bound["layout"].size, left.get_size()[-1]]):
            return add_choices(*args, **more)

    return wrapped(CppGemmTemplate, "add_choices", add)


def single_thread_if_small(sizes: Sequence[Any]) -> Context:
    """Inside, code is single-threaded if a GEMM of `sizes`, (M, N, K), is small."""
    known = (int(n) if getattr(n, "is_number", True) else _SERIAL_GEMM for n in sizes)
    is_small = math.prod(known) < _SERIAL_GEMM
    return torch._inductor.config.patch({"cpp.threads": 1} if is_small else {})


#: Cache sizes for blocking, bytes per core: a small L1 and L2 of current CPUs. Constants, so that
#: the code does not depend on the exporter's machine.
_CACHE_SIZES = {"l1d_cache_size": 32 << 10, "l2_cache_size": 1 << 20}


def cache_sizes() -> Context:
    """GEMM templates use constant cache sizes."""
    capabilities = {**torch.cpu.get_capabilities(), **_CACHE_SIZES}
    return patched(torch.cpu, "get_capabilities", lambda: capabilities)


def vector_isa(bits: int) -> Context:
    """The vector ISA is the target's; the host is not probed."""
    from torch._inductor import cpu_vec_isa

    by_width: Any = {512: [cpu_vec_isa.VecAVX512], 256: [cpu_vec_isa.VecAVX2], 0: []}
    if bits not in by_width:
        raise ValueError(f"vector_bits is {bits}; expected 512, 256 or 0")
    present = {"__bool__": lambda self: True}
    available = [type(base.__name__, (base,), present)() for base in by_width[bits]]
    return patched(cpu_vec_isa, "valid_vec_isa_list", lambda: available)
