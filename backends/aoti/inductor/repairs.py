"""Mistakes of Inductor that change results or stop a lowering, put right while we generate code.

Each has a test that fails without it, in `tests/test_repairs.py` unless it says where; one that a
release has cured costs nothing and can go.
"""

import contextlib
from collections.abc import Iterator

from pteron.backends.aoti.inductor.graph_repairs import (
    cumsum_of_the_dtype_asked_for,
    loops_from_constants,
    no_write_that_is_overwritten,
    no_write_under_a_reader,
    offsets_from_the_base,
    operands_of_branches_as_traced,
    sums_of_products_apart,
)
from pteron.backends.aoti.inductor.loop_repairs import (
    arrays_by_their_writer,
    bytes_ordered_as_ints,
    constant_indices_compared,
    fix_bool_eq_value_ranges,
    fix_cant_split_arguments,
    floor_division_of_floats,
    freeze_flex_decoding_query_layout,
    indices_in_the_order_of_the_tensor,
    layouts_of_fourier_transforms,
    loops_that_write_in_place,
    masked_loads_within_the_tensor,
    no_write_among_reads,
    products_of_no_rows,
    steps_of_64_bits,
    tails_of_reductions,
    views_of_what_was_computed,
)
from pteron.backends.aoti.inductor.rounding_repairs import (
    conversions_that_round,
    halves_rounded_after_each_operator,
    indices_within_their_dtype,
    products_in_their_dtype,
    products_with_zero,
    remainders_of_floats,
)
from pteron.backends.aoti.inductor.weight_repairs import (
    batches_of_any_number,
    fix_folded_scale_names,
    transposed_convolutions_unfolded,
    weights_from_their_offset,
)


@contextlib.contextmanager
def repairs() -> Iterator[None]:
    """All of them."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(no_write_under_a_reader())
        stack.enter_context(no_write_that_is_overwritten())
        stack.enter_context(no_write_among_reads())
        stack.enter_context(views_of_what_was_computed())
        stack.enter_context(cumsum_of_the_dtype_asked_for())
        stack.enter_context(offsets_from_the_base())
        stack.enter_context(halves_rounded_after_each_operator())
        stack.enter_context(conversions_that_round())
        stack.enter_context(products_with_zero())
        stack.enter_context(products_in_their_dtype())
        stack.enter_context(remainders_of_floats())
        stack.enter_context(indices_within_their_dtype())
        stack.enter_context(layouts_of_fourier_transforms())
        stack.enter_context(freeze_flex_decoding_query_layout())
        stack.enter_context(sums_of_products_apart())
        stack.enter_context(loops_from_constants())
        stack.enter_context(operands_of_branches_as_traced())
        stack.enter_context(arrays_by_their_writer())
        stack.enter_context(weights_from_their_offset())
        stack.enter_context(batches_of_any_number())
        stack.enter_context(bytes_ordered_as_ints())
        stack.enter_context(indices_in_the_order_of_the_tensor())
        stack.enter_context(tails_of_reductions())
        stack.enter_context(steps_of_64_bits())
        stack.enter_context(floor_division_of_floats())
        stack.enter_context(fix_bool_eq_value_ranges())
        stack.enter_context(constant_indices_compared())
        stack.enter_context(fix_cant_split_arguments())
        stack.enter_context(loops_that_write_in_place())
        stack.enter_context(masked_loads_within_the_tensor())
        stack.enter_context(products_of_no_rows())
        stack.enter_context(fix_folded_scale_names())
        stack.enter_context(transposed_convolutions_unfolded())
        yield
