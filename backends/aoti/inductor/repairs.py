"""Workarounds for bugs of Inductor that change results or stop a lowering.

Each has a test that fails without it, in `tests/test_repairs.py` unless it says where. One that a
release of torch has fixed costs nothing and can be removed.
"""

import contextlib
from collections.abc import Iterator

from pteron.backends.aoti.inductor import (
    graph_repairs,
    loop_repairs,
    rounding_repairs,
    weight_repairs,
)


@contextlib.contextmanager
def repairs() -> Iterator[None]:
    """All of them."""
    with contextlib.ExitStack() as stack:
        for repair in (
            graph_repairs.fix_reinplace_of_overlapping_reads,
            graph_repairs.fix_reinplace_before_overwrite,
            loop_repairs.fix_fusion_of_mutation_with_reads,
            loop_repairs.fix_reinterpret_view_after_mutation,
            graph_repairs.fix_cumsum_of_constant_dtype,
            graph_repairs.fix_as_strided_of_view,
            rounding_repairs.round_half_precision_as_eager,
            rounding_repairs.keep_rounding_conversions,
            rounding_repairs.keep_nan_times_zero,
            rounding_repairs.fix_decomposed_matmul_dtypes,
            rounding_repairs.fix_remainder_rounding,
            rounding_repairs.fix_index_propagation_dtypes,
            loop_repairs.fix_fft_strides,
            loop_repairs.freeze_flex_decoding_query_layout,
            graph_repairs.disable_mm_plus_mm_on_cpu,
            graph_repairs.realize_constant_while_loop_inputs,
            graph_repairs.require_traced_cond_operand_strides,
            loop_repairs.fix_int_array_deduplication,
            weight_repairs.fix_packed_weight_storage_offset,
            weight_repairs.fix_packed_weight_of_dynamic_bmm,
            loop_repairs.fix_int8_minmax_reductions,
            loop_repairs.fix_argminmax_index_order,
            loop_repairs.fix_reduction_tail_stores,
            loop_repairs.fix_int64_arange_step,
            loop_repairs.fix_floor_division_rounding,
            loop_repairs.fix_bool_eq_value_ranges,
            loop_repairs.fix_identity_comparison,
            loop_repairs.fix_cant_split_arguments,
            loop_repairs.fix_while_loop_mutation_outputs,
            loop_repairs.fix_masked_load_bounds,
            loop_repairs.fix_gemm_with_zero_rows,
            weight_repairs.fix_folded_scale_names,
            weight_repairs.skip_folding_into_transposed_convolutions,
        ):
            stack.enter_context(repair())
        yield
