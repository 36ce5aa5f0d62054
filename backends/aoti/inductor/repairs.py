"""Workarounds for bugs of Inductor that change results or stop a lowering.

Each has a test that fails without it, in `tests/test_repairs.py` unless it says where. One that a
release of torch has fixed costs nothing and can be removed.
"""

import contextlib
from collections.abc import Iterator

from pteron.backends.aoti.inductor.graph_repairs import (
    disable_mm_plus_mm_on_cpu,
    fix_as_strided_of_view,
    fix_cumsum_of_constant_dtype,
    fix_reinplace_before_overwrite,
    fix_reinplace_of_overlapping_reads,
    realize_constant_while_loop_inputs,
    require_traced_cond_operand_strides,
)
from pteron.backends.aoti.inductor.loop_repairs import (
    fix_argminmax_index_order,
    fix_bool_eq_value_ranges,
    fix_cant_split_arguments,
    fix_fft_strides,
    fix_floor_division_rounding,
    fix_fusion_of_mutation_with_reads,
    fix_gemm_with_zero_rows,
    fix_identity_comparison,
    fix_int8_minmax_reductions,
    fix_int64_arange_step,
    fix_int_array_deduplication,
    fix_masked_load_bounds,
    fix_reduction_tail_stores,
    fix_reinterpret_view_after_mutation,
    fix_while_loop_mutation_outputs,
    freeze_flex_decoding_query_layout,
)
from pteron.backends.aoti.inductor.rounding_repairs import (
    fix_decomposed_matmul_dtypes,
    fix_index_propagation_dtypes,
    fix_remainder_rounding,
    keep_nan_times_zero,
    keep_rounding_conversions,
    round_half_precision_as_eager,
)
from pteron.backends.aoti.inductor.weight_repairs import (
    fix_folded_scale_names,
    fix_packed_weight_of_dynamic_bmm,
    fix_packed_weight_storage_offset,
    skip_folding_into_transposed_convolutions,
)


@contextlib.contextmanager
def repairs() -> Iterator[None]:
    """All of them."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(fix_reinplace_of_overlapping_reads())
        stack.enter_context(fix_reinplace_before_overwrite())
        stack.enter_context(fix_fusion_of_mutation_with_reads())
        stack.enter_context(fix_reinterpret_view_after_mutation())
        stack.enter_context(fix_cumsum_of_constant_dtype())
        stack.enter_context(fix_as_strided_of_view())
        stack.enter_context(round_half_precision_as_eager())
        stack.enter_context(keep_rounding_conversions())
        stack.enter_context(keep_nan_times_zero())
        stack.enter_context(fix_decomposed_matmul_dtypes())
        stack.enter_context(fix_remainder_rounding())
        stack.enter_context(fix_index_propagation_dtypes())
        stack.enter_context(fix_fft_strides())
        stack.enter_context(freeze_flex_decoding_query_layout())
        stack.enter_context(disable_mm_plus_mm_on_cpu())
        stack.enter_context(realize_constant_while_loop_inputs())
        stack.enter_context(require_traced_cond_operand_strides())
        stack.enter_context(fix_int_array_deduplication())
        stack.enter_context(fix_packed_weight_storage_offset())
        stack.enter_context(fix_packed_weight_of_dynamic_bmm())
        stack.enter_context(fix_int8_minmax_reductions())
        stack.enter_context(fix_argminmax_index_order())
        stack.enter_context(fix_reduction_tail_stores())
        stack.enter_context(fix_int64_arange_step())
        stack.enter_context(fix_floor_division_rounding())
        stack.enter_context(fix_bool_eq_value_ranges())
        stack.enter_context(fix_identity_comparison())
        stack.enter_context(fix_cant_split_arguments())
        stack.enter_context(fix_while_loop_mutation_outputs())
        stack.enter_context(fix_masked_load_bounds())
        stack.enter_context(fix_gemm_with_zero_rows())
        stack.enter_context(fix_folded_scale_names())
        stack.enter_context(skip_folding_into_transposed_convolutions())
        yield
