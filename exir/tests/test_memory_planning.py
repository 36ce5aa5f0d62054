"""Plans never let two tensors overlap that live at the same time, and reuse what they can."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pteron.exir.passes.memory_planning import ALIGNMENT, Lifetime, MemoryPlanningPass, plan_greedy

lifetimes = st.builds(
    lambda nbytes, first, length: Lifetime(nbytes, first, first + length),
    st.integers(0, 5000),
    st.integers(0, 12),
    st.integers(0, 6),
)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.lists(lifetimes, max_size=24), st.sampled_from([1, 16, 64, 256]))
def test_no_overlap(tensors: list[Lifetime], alignment: int) -> None:
    offsets, nbytes = plan_greedy(tensors, alignment)
    planned = list(zip(tensors, offsets, strict=True))
    for tensor, offset in planned:
        assert offset % alignment == 0
        assert 0 <= offset and offset + tensor.nbytes <= nbytes
    for (a, x), (b, y) in itertools.combinations(planned, 2):
        if a.first <= b.last and b.first <= a.last and a.nbytes and b.nbytes:
            assert x + a.nbytes <= y or y + b.nbytes <= x, (a, x, b, y)
    everything = sum((t.nbytes + alignment - 1) // alignment * alignment for t in tensors)
    assert nbytes <= everything
    assert plan_greedy(tensors, alignment) == (offsets, nbytes)


def test_memory_is_reused() -> None:
    chain = [Lifetime(4096, i, i + 1) for i in range(10)]
    assert plan_greedy(chain)[1] == 2 * 4096


def test_small_tensors_stack_in_a_large_slot() -> None:
    large, small = Lifetime(4096, 0, 0), [Lifetime(1024, 1, 1)] * 4
    offsets, nbytes = plan_greedy([large, *small])
    assert nbytes == 4096
    assert sorted(offsets[1:]) == [0, 1024, 2048, 3072]


def test_same_time_lies_side_by_side() -> None:
    assert plan_greedy([Lifetime(10, 0, 3), Lifetime(10, 3, 4)]) == ([0, ALIGNMENT], 2 * ALIGNMENT)


def test_nothing_to_plan() -> None:
    assert plan_greedy([]) == ([], 0)


@pytest.mark.parametrize("alignment", [0, -1, 48])
def test_alignment_must_be_a_power_of_two(alignment: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        MemoryPlanningPass(alignment=alignment)
