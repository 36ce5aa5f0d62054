"""What loading takes on the GPU, unloading gives back. Needs a GPU that nobody else uses."""

import gc
import pathlib
import time
from collections.abc import Callable

import pytest
import torch

from pteron.backends.cuda.tests.programs import (
    check,
    eager,
    inputs_of,
    load,
    lower,
    sample_named,
    save,
)

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

_CYCLES = 10_000


def _free_bytes() -> int:
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info()[0]


def _mapped_shared_objects() -> int:
    return pathlib.Path("/proc/self/maps").read_text().count("memfd:")


@pytest.mark.parametrize("prepared", [False, True])
def test_ten_thousand_cycles_leave_nothing(
    prepared: bool, tmp_path: pathlib.Path, record_property: Callable[[str, object], None]
) -> None:
    sample = sample_named("mlp_block")
    path = save(lower(sample.export()), tmp_path)
    inputs, expected = inputs_of(sample, 0), eager(sample, 1)[0]

    def cycle() -> list[torch.Tensor]:
        method = load(path).load_method("forward")
        if prepared:
            method.prepare(inputs)
        return method.execute(inputs)

    for _ in range(_CYCLES // 10):  # caches fill
        found = cycle()
    check(found, expected, sample.rtol)
    free, shared_objects = [_free_bytes()], _mapped_shared_objects()
    begin = time.perf_counter()
    for done in range(1, _CYCLES + 1):
        found = cycle()
        if done % (_CYCLES // 10) == 0:
            free.append(_free_bytes())
    record_property("ms_a_cycle", round((time.perf_counter() - begin) / _CYCLES * 1e3, 2))
    record_property("free_bytes", free)
    check(found, expected, sample.rtol)
    # The driver keeps a page of 64 KiB more at some time. A tensor in each cycle would be 5 MB.
    assert max(free) - min(free) <= 64 << 10, free
    assert _mapped_shared_objects() == shared_objects


def test_weights_are_shared_by_methods(tmp_path: pathlib.Path) -> None:
    sample = sample_named("mlp_block")
    program = load(save(lower(sample.export()), tmp_path))
    first = program.load_method("forward")
    first.execute(inputs_of(sample, 0))
    before = _free_bytes()
    second = program.load_method("forward")
    # Before its first run a method has no memory for intermediates and no cuBLAS workspace.
    taken = before - _free_bytes()
    check(second.execute(inputs_of(sample, 0)), eager(sample, 1)[0], sample.rtol)
    weights = sum(p.numel() * p.element_size() for p in sample.module().parameters())
    assert taken < weights
