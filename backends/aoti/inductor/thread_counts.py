"""Loops and GEMMs are partitioned among a dynamic number of threads.

Inductor compiles for a fixed number of threads: an upper limit for loops, exactly that many for
GEMMs. Here the code calls `pteron_threads(n)` (in the kernels' header, `toolchain`): the host's
limit, or `n` if more threads would not pay. Work that is too small for two threads has no parallel
region.
"""

import re
from collections.abc import Callable
from typing import Any

from pteron.backends.aoti.inductor.memoized import rewritten_templates
from pteron.backends.aoti.inductor.patches import Context, patched, together, wrapped

#: Multiplications of a GEMM that are worth a thread.
MULTIPLICATIONS_PER_THREAD = 1 << 16
#: Loops are collapsed until there are iterations for so many threads; the innermost loop, which is
#: no longer a simple one then, only for so many.
_ITERATIONS, _INNERMOST = 64, 8


def dynamic_thread_count() -> Context:
    """Generated code reads the number of threads at run time. For multi-threaded targets."""
    from torch._inductor.codegen.cpp import CppKernel, WorkSharing

    useful_threads = 1  # of the current loop nest

    def codegen_loops(divide: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        nonlocal useful_threads
        useful_threads = 1
        return divide(*args, **kwargs)

    def decide_parallel_depth(self: Any, limit: Any, threads: int) -> Any:
        nonlocal useful_threads
        depth, useful = _parallel_depth(self, limit)
        useful_threads = max(useful_threads, useful)
        return type(limit)(parallel_depth=depth, start_depth=limit.start_depth)

    def parallel(self: Any, threads: int) -> None:
        if self.in_parallel:
            return
        self.num_threads, self.in_parallel = threads, True
        self.code.writeline(f"#pragma omp parallel num_threads(pteron_threads({useful_threads}))")
        self.stack.enter_context(self.code.indent())
        self.code.writeline("int tid = omp_get_thread_num();")

    return together(
        rewritten_templates(_with_dynamic_threads),
        wrapped(CppKernel, "codegen_loops_impl", codegen_loops),
        patched(CppKernel, "decide_parallel_depth", decide_parallel_depth),
        patched(WorkSharing, "parallel", parallel),
    )


def _parallel_depth(kernel: Any, limit: Any) -> tuple[int, int]:
    """How many loops are collapsed into the parallel one, and how many threads pay."""
    from torch._inductor import config
    from torch._inductor.virtualized import V

    if limit.parallel_depth == 0:
        return 0, 1
    useful = int(kernel.size_hint() // config.cpp.min_chunk_size)
    if useful < 2:
        return 0, 1
    depth, iterations = 0, 1
    ranges = kernel.call_ranges[limit.start_depth :]
    for index, size in enumerate(ranges[: limit.parallel_depth]):
        most = _INNERMOST if index == len(ranges) - 1 else _ITERATIONS
        if iterations >= min(useful, most):
            break
        depth += 1
        iterations *= V.graph.sizevars.optimization_hint(size, fallback=8192)
    return depth, min(useful, iterations)


_BLOCKS = re.compile(r"(?m)^    constexpr int64_t (?P<block>[MNK][tc]_blocks) = .*;\n")


def _with_dynamic_threads(text: str) -> str:
    """Inductor's GEMM template with a dynamic number of threads.

    The partition for two threads is computed at code generation and stays constants; for another
    number it is computed at run time.
    """
    if "num_threads" not in text:
        return text
    multiplications = "int64_t(1)"
    if "constexpr int64_t Mr =" in text:
        multiplications = "int64_t({{kernel.size(GemmOut, 0)}}) * {{N}} * {{K}}"
    elif "B_single_thread_block" in text:
        multiplications = "int64_t({{kernel.size(BY_2d, 0)}}) * {{N}} * {{K}} * 16"  # M is unknown
    useful = f"pteron_threads({multiplications} / {MULTIPLICATIONS_PER_THREAD})"
    text = text.replace(
        "constexpr int64_t num_threads = {{num_threads}};",
        _either(
            f"    const int64_t num_threads = {useful};\n",
            "    constexpr int64_t num_threads = 1;\n",
        ),
    )
    text = re.sub(r"(set use_dynamic_threads = ).*?( %\})", r"\1false\2", text)
    text = text.replace("num_threads({{num_threads}})\n", "num_threads(num_threads)\n")
    text = text.replace("tid < {{num_threads}};", "tid < num_threads;")
    text = text.replace("* {{num_threads}} >=", "* num_threads >=")
    blocks = list(_BLOCKS.finditer(text))
    if not blocks:
        return text
    constants = text[blocks[0].start() : blocks[-1].end()]
    names = ", ".join(match["block"] for match in blocks)
    computed = constants.replace("constexpr int64_t", "int64_t") + (
        "    if (num_threads != {{num_threads}}) {\n"
        "        pteron_divide<{{kernel.dtype(X)}}, {{kernel.dtype(W)}}>(\n"
        "            num_threads, Kt_blocks < Kr_blocks, M, N, K, Mr, Nr, Kr, "
        f"{names},\n"
        "            {{L1_cache_size}}, {{L2_cache_size}});\n"
        "    }\n"
    )
    head, tail = text[: blocks[0].start()], text[blocks[-1].end() :]
    counts = re.compile(r"constexpr int64_t (num_[MNK][tc]_blocks)")
    return f"{head}    {_either(computed, constants)}\n" + counts.sub(r"const int64_t \1", tail)


def _either(several: str, one: str) -> str:
    """In a template: the first for several threads, the other for one."""
    return f"{{%- if num_threads > 1 %}}\n{several}    {{%- else %}}\n{one}    {{%- endif %}}"
