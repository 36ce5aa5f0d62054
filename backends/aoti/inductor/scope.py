"""Inductor's process-wide state as our code generation needs it, put back afterwards."""

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import torch

from pteron.backends.aoti.inductor import (
    cpu,
    loop_repairs,  # noqa: F401  its repairs
    micro_gemms,
    rounding_repairs,  # noqa: F401
    weight_repairs,  # noqa: F401
)
from pteron.backends.aoti.inductor.absent_weights import fake_mode_of
from pteron.backends.aoti.inductor.convolutions import (
    lower_convolutions_channels_last,
    lower_packed_convolutions,
)
from pteron.backends.aoti.inductor.generated_code import Target
from pteron.backends.aoti.inductor.graph_repairs import (
    disable_patterns_of,
    keep_dequantization_unfolded,
)
from pteron.backends.aoti.inductor.integer_divisions import check_integer_divisions
from pteron.backends.aoti.inductor.long_loops import warn_of_long_loops
from pteron.backends.aoti.inductor.memoized import (
    fake_constants,
    load_inductor,
    memoized_index_expressions,
    polynomial_strides,
    rules_of_dtypes_set_once,
    weights_packed_once,
)
from pteron.backends.aoti.inductor.patches import Context, patched, repaired, together, wrapped
from pteron.backends.aoti.inductor.release import release
from pteron.backends.aoti.inductor.runtime_functions import register_runtime_functions
from pteron.backends.aoti.inductor.thread_counts import dynamic_thread_count
from pteron.backends.aoti.inductor.unbacked_checks import check_unbacked_values


@contextlib.contextmanager
def compile_scope(target: Target) -> Iterator[None]:
    """Inductor's process-wide state as our code generation needs it, put back on exit."""
    load_inductor()
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH))
        stack.enter_context(repaired(release()))
        stack.enter_context(check_unbacked_values())
        stack.enter_context(warn_of_long_loops())
        stack.enter_context(register_runtime_functions(target.device, target.operators))
        stack.enter_context(keep_dequantization_unfolded())
        stack.enter_context(memoized_index_expressions())
        stack.enter_context(polynomial_strides())
        stack.enter_context(fake_constants())
        stack.enter_context(rules_of_dtypes_set_once())
        # Rewrites that lead to operators that we do not serve.
        refused = ["fuse_attention"]
        if target.device == "cpu":
            refused += ["mkldnn_fusion", "quantization", "misc_patterns"]
        names = (f"torch._inductor.fx_passes.{name}" for name in refused)
        stack.enter_context(disable_patterns_of(frozenset(names)))
        if target.device == "cuda":
            stack.enter_context(lower_convolutions_channels_last())
            stack.enter_context(_float32_products(target.allow_tf32))
        if target.device == "cpu":
            stack.enter_context(check_integer_divisions())
            stack.enter_context(cpu.without_mkldnn())
            stack.enter_context(cpu.without_lazy_patterns())
            stack.enter_context(cpu.call_runtime_repeat_interleave())
            stack.enter_context(lower_packed_convolutions())
            stack.enter_context(cpu.vector_isa(target.vector_bits))
            stack.enter_context(cpu.cache_sizes())
            stack.enter_context(weights_packed_once())
        yield


@contextlib.contextmanager
def target_scope(target: Target) -> Iterator[None]:
    """The same for what differs between targets of one model."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_fresh_counters())
        if target.device == "cpu":
            # It has subclasses of Inductor's classes, which `deduplicate_micro_gemms` has to know.
            from pteron.backends.aoti.inductor import packed_gemms

            stack.enter_context(cpu.vector_isa(target.vector_bits))
            stack.enter_context(micro_gemms.only_rows_that_occur())
            if target.vector_bits == 512:
                stack.enter_context(micro_gemms.deduplicate_micro_gemms())
                stack.enter_context(micro_gemms.larger_cache_blocks())
            if target.vector_bits == 256 and target.packed_for == 512:
                stack.enter_context(micro_gemms.pack_weights_for_avx512())
            if target.vector_bits:
                stack.enter_context(packed_gemms.half_precision_gemms(target.vector_bits))
                stack.enter_context(packed_gemms.quantized_gemms(target.vector_bits))
            if target.num_threads > 1:
                stack.enter_context(dynamic_thread_count())
            if target.freeze and target.templates:
                stack.enter_context(cpu.prefer_gemm_templates())
                stack.enter_context(cpu.serialize_small_gemms())
        yield


def without_inputs(module: torch.fx.GraphModule) -> Context:
    """A graph without inputs: Inductor, which asks the inputs for the fake mode, asks the nodes."""
    from torch._inductor import compile_fx

    mode = fake_mode_of(module.graph)
    return wrapped(compile_fx, "detect_fake_mode", lambda detect, *a, **k: detect(*a, **k) or mode)


@contextlib.contextmanager
def _float32_products(allow_tf32: bool) -> Iterator[None]:
    """What Inductor's kernels, and torch's that it measures beside them, do with float32 operands,
    whatever the process has chosen for itself."""
    backends: Any = torch.backends
    cudnn = backends.cudnn
    settings = (backends.cuda.matmul, backends.mkldnn.matmul, cudnn.conv, cudnn.rnn)
    before = [setting.fp32_precision for setting in settings]
    products, convolutions = "highest", True
    # The older settings are kept beside these. Torch refuses to tell them where they disagree.
    with contextlib.suppress(RuntimeError):
        products = torch.get_float32_matmul_precision()
    with contextlib.suppress(RuntimeError):
        convolutions = cudnn.allow_tf32
    try:
        # Inductor asks some of them in one place, some in another; these set all.
        torch.set_float32_matmul_precision("high" if allow_tf32 else "highest")
        cudnn.allow_tf32 = allow_tf32
        yield
    finally:
        torch.set_float32_matmul_precision(products)
        cudnn.allow_tf32 = convolutions
        for setting, precision in zip(settings, before, strict=True):
            setting.fp32_precision = precision


def _fresh_counters() -> Context:
    """Template numbers go into generated names; each model counts from zero."""
    from torch._inductor.codegen.cpp_template import CppTemplate
    from torch._inductor.select_algorithm import TritonTemplate

    return together(
        patched(CppTemplate, "index_counter", itertools.count()),
        patched(TritonTemplate, "index_counter", itertools.count()),
    )
