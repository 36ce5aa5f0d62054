"""Micro-GEMMs, the inner loops of matmuls: one for all matmuls that use the same.

Inductor writes them into each kernel under that kernel's name. They are most of what
there is to compile, and few differ: here their text decides their name, kernels declare what they
call, and each definition becomes a source of its own, which large models share on a machine.

For 512-bit registers only: in AVX2 functions on their own GCC 12 keeps the accumulators in memory,
2.3 times slower (torch 2.11's headers: always; 2.13's: without -fno-early-inlining).
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from pteron.backends.aoti.inductor.cpu import vector_isa
from pteron.backends.aoti.inductor.patches import Context, patched, together, wrapped

PLACES = (
    "torch._inductor.codegen.cpp_micro_gemm.CppMicroGemm: codegen_define; "
    "torch._inductor.codegen.cpp_micro_gemm.CppMicroGemmFP32Vec: codegen_define"
)
_BEGIN, _END = "// micro-GEMM {name}\n", "// end of micro-GEMM\n"
_MARKED = re.compile(
    re.escape(_BEGIN).replace(r"\{name\}", r"(\w+)") + "(.*?)" + re.escape(_END), re.DOTALL
)
_HEADERS = "#include <c10/util/Unroll.h>\n"
_LOADS = re.compile(
    r"^( *)(?:vb\[col\] = Vectorized|auto b = VectorizedIn)"
    r"::loadu\(B \+ k \* ldb \+ col \* VLEN(?:, VLEN)?\);\n",
    re.MULTILINE,
)
#: Prefetch distance in the weight, rows: at 8 to 12 cycles a row about the latency of an L3 cache.
_PREFETCHED_ROWS = 24

#: An instantiation for one number of rows.
_CASE = re.compile(r"^ *case (\d+):\n(?:.*\n)*?^ *break;\n", re.MULTILINE)


def only_rows_that_occur() -> Context:
    """Of a GEMM with a static number of rows, no other numbers are compiled: most often it is that
    of a whole register block alone, of up to 8."""
    from torch._inductor.codegen.cpp_gemm_template import CppGemmTemplate

    def note_rows(get_options: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
        options = get_options(self, *args, **kwargs)
        options["micro_gemm"].rows = self.m
        return options

    def define(define_all: Callable[[Any, Any], str], gemm: Any, kernel: Any) -> str:
        text = define_all(gemm, kernel)
        rows: Any = getattr(gemm, "rows", None)
        if not getattr(rows, "is_number", isinstance(rows, int)):
            return text
        block = gemm.register_blocking.block_m
        occurring = {int(rows) % block, block if rows >= block else 0}
        text = _CASE.sub(lambda case: case[0] if int(case[1]) in occurring else "", text)
        never = "if constexpr (false"
        return text if rows >= block else text.replace(f"if (block_m == {block}", never)

    note = wrapped(CppGemmTemplate, "get_options", note_rows)
    return together(note, *_wrapped_definitions(define))


def deduplicate_micro_gemms() -> Context:
    """Names micro-GEMMs by a hash of their text, and marks their definitions for `separate`."""
    return together(*_wrapped_definitions(_define_named))


def _wrapped_definitions(define: Any, kind: Any = None) -> Iterator[Context]:
    """Of the micro-GEMM `kind` and those derived from it; None: of all."""
    from torch._inductor.codegen.cpp_micro_gemm import CppMicroGemm

    kind = kind or CppMicroGemm
    if "codegen_define" in vars(kind):
        yield wrapped(kind, "codegen_define", define)
    for derived in kind.__subclasses__():
        yield from _wrapped_definitions(define, derived)


def _define_named(define: Callable[[Any, Any], str], gemm: Any, kernel: Any) -> str:
    text, given = _prefetching(define(gemm, kernel)), gemm.name
    if given != f"{kernel.kernel_name}_micro_gemm":
        return text  # its callers spell the name out
    digest = hashlib.sha256(text.replace(given, "micro_gemm").encode()).hexdigest()
    gemm.name = f"micro_gemm_{digest[:16]}"
    return f"{_BEGIN.format(name=gemm.name)}{text.replace(given, gemm.name)}\n{_END}"


def _prefetching(definition: str) -> str:
    """Adds prefetches of the weight, since hardware prefetchers stop at pages."""
    ahead = f"__builtin_prefetch(B + (k + {_PREFETCHED_ROWS}) * ldb + col * VLEN);"
    return _LOADS.sub(rf"\g<0>\g<1>{ahead}\n", definition)


#: Register blocking (rows, columns) of AVX2 code for a weight that is packed in panels of so many
#: columns for AVX-512: 12 of the 16 registers are accumulators.
TILES = {48: (4, 24), 32: (6, 16), 16: (6, 16)}


def pack_weights_for_avx512() -> Context:
    """Code for 256-bit registers reads weights in the layout that Inductor chooses for 512.

    A panel is a multiple of the register block: the micro-GEMM loops over it.
    """
    from torch._inductor import config
    from torch._inductor.codegen import cpp_gemm_template, cpp_grouped_gemm_template
    from torch._inductor.codegen.cpp_micro_gemm import CppMicroGemmFP32Vec

    def create_for_panels(create: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with vector_isa(512), config.patch("cpp.simdlen", 512):
            wide = create(*args, **kwargs)
        own = create(*args, **kwargs)
        # For other micro-GEMMs each variant packs weights of its own.
        if {type(own), type(wide)} != {CppMicroGemmFP32Vec} or wide.register_blocking.block_k > 1:
            return own
        columns = wide.register_blocking.block_n
        blocking, define = type(own.register_blocking), own.codegen_define
        rows, step = TILES[columns]

        def define_steps(kernel: Any) -> str:
            with patched(own, "register_blocking", blocking(rows, step, 1)):
                return str(define(kernel))

        own.register_blocking = blocking(rows, columns, 1)
        own.codegen_define = define_steps
        return own

    return together(
        wrapped(cpp_gemm_template, "create_micro_gemm", create_for_panels),
        wrapped(cpp_grouped_gemm_template, "create_micro_gemm", create_for_panels),
    )


#: Largest cache block that a thread computes before its epilogue, in row blocks and panels of
#: columns; and the most terms accumulated before sums go to memory.
_ROW_BLOCKS, _PANELS, _DEPTH = 32, 8, 1024
#: Of the L2 cache, for rows of the input.
_CACHED_LEFT_BYTES = 800 << 10


def larger_cache_blocks() -> Context:
    """Larger cache blocks: epilogues access rows in pieces long enough for the hardware prefetcher,
    and sums stay in registers longer.

    Inductor blocks for an L1 cache that holds a panel of the weight: sums go to memory and back
    after 204 terms, and an epilogue processes one panel, 128 bytes of each row. With prefetched
    weights a panel may as well come from the L2 cache.
    """
    from torch._inductor.codegen.cpp_gemm_template import CppGemmTemplate

    def decide_blocks(decide: Callable[[Any, int], Any], self: Any, num_threads: int) -> Any:
        blocks = decide(self, num_threads)
        left, right = (node.get_dtype() for node in self.input_nodes[:2])
        if not self.should_block_weights or right == torch.int8:
            return blocks
        of_thread, register = self.thread_blocking(num_threads), self.register_blocking
        depth = _even_part(of_thread.block_k, _DEPTH // register.block_k)
        # Rows of the input are read again for each panel, from the L2 cache.
        row_bytes = left.itemsize * register.block_m * register.block_k * depth
        cached = _CACHED_LEFT_BYTES // row_bytes
        return type(blocks)(
            block_m=_even_part(of_thread.block_m, max(1, min(_ROW_BLOCKS, cached))),
            # A padded GEMM is computed in a buffer of the block's size, which is zeroed first.
            block_n=min(_PANELS, of_thread.block_n) if self.padded_n == self.n else 1,
            block_k=depth,
        )

    return wrapped(CppGemmTemplate, "_cache_blocking", decide_blocks)


def _even_part(whole: int, most: int) -> int:
    """The largest of as few parts as can be, of no more than `most`, as equal as can be."""
    parts = -(-whole // most)
    return -(-whole // parts)


_BOOL = r"static_cast<bool>\((true|false)\)"


def separate(kernels: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Takes the marked definitions out of kernels.

    Returns:
        The kernels, which declare them instead, and sources that define them, by name. What can't
        be declared stays, under a name of its kernel's own.
    """
    calls = "".join(kernels)
    sources: dict[str, str] = {}
    staying: list[str] = []

    def declare(match: re.Match[str]) -> str:
        name, definition = match.groups()
        declaration = re.search(
            rf"(template <[^<>]*>)\s*inline (void {name}\([^()]*\))\s*\{{", definition
        )
        prefetches = {use[1] for use in re.findall(rf"\b{name}<{_BOOL}, {_BOOL}>\(", calls)}
        if declaration is None or not prefetches:
            staying.append(name)
            return definition
        template, function = declaration.groups()
        # Also where a caller is in the same file.
        not_inlined = f"__attribute__((noipa)) {function}"
        sources[name] = _HEADERS + definition.replace(f"inline {function}", not_inlined)
        for prefetch in sorted(prefetches):
            for accumulate in ("false", "true"):
                instance = function.replace(name, f"{name}<{accumulate}, {prefetch}>")
                sources[name] += f"template {instance};\n"
        # Each call gives all arguments; a default could stand only once in a file.
        return f"{template.replace('=false', '')}\n{function};\n"

    finished = []
    for index, kernel in enumerate(kernels):
        staying.clear()
        kernel = _MARKED.sub(declare, kernel)
        for name in staying:
            kernel = kernel.replace(name, f"{name}_{index}")
        finished.append(kernel)
    return finished, sources
