"""An index out of range fails its call, in words, and nothing else: not the process, not the next
call. Such checks stand inside parallel loops, and in loops too small for threads."""

import ctypes
import gc
from typing import Any

import pytest
import torch

from pteron.backends.cpu import CpuOptions
from pteron.runtime import InvalidArgumentError, Runtime
from tests.e2e.lowering import lower_program
from tests.models.sample import Sample, max_relative_error, randint

_ROWS = 1000


class Lookup(torch.nn.Module):
    """Rows of a table, and what a later kernel makes of them."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(_ROWS, 64)
        self.mix = torch.nn.Linear(64, 32)

    def forward(self, indices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mixed = self.mix(self.table(indices)).softmax(-1)
        return mixed, mixed.sum(0).cumsum(0)


def lookup(count: int) -> Sample:
    return Sample(f"lookup_{count}", Lookup, lambda seed: (randint(seed, _ROWS, count),))


@pytest.fixture(scope="module", params=[5000, 8], ids=["parallel", "serial"])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(sample, eager's module, loaded method)."""
    sample = lookup(request.param)
    path = tmp_path_factory.mktemp(sample.name) / "program.pte"
    # More threads than one, whatever the machine has.
    lower_program(sample, sample.module(), CpuOptions(num_threads=4)).save(path)
    program = Runtime.get().load_program(path)
    options = {"CpuBackend": {"num_threads": 4}}
    return sample, sample.module(), program.load_method("forward", backend_options=options)


def check_right_call(sample: Sample, module: torch.nn.Module, method: Any, seed: int) -> None:
    (indices,) = sample.inputs(seed)
    with torch.no_grad():
        expected = module(indices)
    for found, reference in zip(method.execute([indices]), expected, strict=True):
        assert max_relative_error(torch.as_tensor(found), reference) <= sample.rtol


@pytest.mark.parametrize("index", [_ROWS, -_ROWS - 1, 2**62], ids=["high", "low", "huge"])
@pytest.mark.parametrize("position", [0.0, 0.3, 0.999], ids=["first", "inner", "last"])
def test_the_call_fails_and_the_next_is_right(
    loaded: Any, position: float, index: int, capfd: pytest.CaptureFixture[str]
) -> None:
    sample, module, method = loaded
    (indices,) = sample.inputs(1)
    indices[int(position * len(indices))] = index
    says = r"index out of bounds: 0 <= index < 1000 \(aten\.embedding\.default.*, \w+\.py:\d+.*\)"
    with pytest.raises(InvalidArgumentError, match=says):
        method.execute([indices])
    assert capfd.readouterr() == ("", "")  # the exception says it all
    check_right_call(sample, module, method, seed=2)


def test_many_failed_calls_keep_no_memory(loaded: Any) -> None:
    sample, module, method = loaded
    (indices,) = sample.inputs(1)
    indices[len(indices) // 2] = _ROWS

    def fail(times: int) -> int:
        for _ in range(times):
            with pytest.raises(InvalidArgumentError, match="index out of bounds"):
                method.execute([indices])
        gc.collect()
        return allocated_bytes()

    before = fail(50)
    # The smallest tensor of a call has a kilobyte.
    assert fail(200) - before < 200 * 512
    check_right_call(sample, module, method, seed=3)


class _Mallinfo2(ctypes.Structure):
    _names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in _names.split()]


def allocated_bytes() -> int:
    """What malloc has given out and not got back."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _Mallinfo2
    info = mallinfo2()
    return info.uordblks + info.hblkhd
