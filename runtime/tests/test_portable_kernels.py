"""Every portable kernel gives what torch gives, for every case in kernel_cases."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import pteron.runtime.tests._kernel_caller as _kernel_caller
from pteron.runtime.tests.kernel_cases import CASES, IMAGE, SCALAR_CASES, X, channels_last

# Tested one by one below.
_SPECIAL = {
    "aten::_to_copy.out",
    "aten::copy_",
    "aten::empty.out",
    "aten::empty_like.out",
    "aten::index_put_",
    "dim_order_ops::_clone_dim_order.out",
    "dim_order_ops::_to_dim_order_copy.out",
    "et_copy::_d2h_copy.out",  # need a device: tested beside the device's allocator
    "et_copy::_h2d_copy.out",
    "executorch_prim::et_copy_index.tensor",
    "executorch_prim::et_view.default",
}
# Relative and absolute: one unit in the last place of the small types, a few of the large ones.
_TOLERANCES = {
    torch.float64: (1e-12, 1e-12),
    torch.float32: (1e-5, 1e-6),
    torch.float16: (2e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
}


def test_every_kernel_has_cases() -> None:
    tested = [*CASES, *SCALAR_CASES, *_SPECIAL]
    assert sorted(tested) == sorted(_kernel_caller.registered_kernels())


def reference(name: str, case: tuple[Any, ...]) -> list[torch.Tensor]:
    """What torch's function makes of the arguments of the out-variant."""
    namespace, op = name.split("::")
    op, _, overload = op.partition(".")
    packet = getattr(getattr(torch.ops, namespace), op)
    schema = getattr(packet, overload)._schema
    inputs = [argument for argument in schema.arguments if not argument.is_out]
    assert len(inputs) == len(case), f"{name} has {len(inputs)} inputs, the case {len(case)}"
    pairs = list(zip(inputs, case, strict=True))
    positional = [value for argument, value in pairs if not argument.kwarg_only]
    keywords = {argument.name: value for argument, value in pairs if argument.kwarg_only}
    result = packet(*positional, **keywords)
    return [result] if isinstance(result, torch.Tensor) else list(result)


def call(name: str, arguments: list[Any], outs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Runs the kernel into memory that is larger than needed by one in each dimension."""
    memory = [torch.full([s + 1 for s in out.shape], 1, dtype=out.dtype) for out in outs]
    slots = [_kernel_caller.Out(m) for m in memory]
    outputs = [slots] if name in _LISTS else slots
    results = _kernel_caller.call(name, [*arguments, *outputs])
    found = []
    for m, (sizes, _) in zip(memory, results, strict=True):
        count = torch.Size(sizes).numel()
        found.append(m.flatten()[:count].view(sizes))
    return found


_LISTS = {
    "aten::split_with_sizes_copy.out",
    "aten::split_copy.Tensor_out",
    "aten::unbind_copy.int_out",
}


def check(found: torch.Tensor, expected: torch.Tensor) -> None:
    rtol, atol = _TOLERANCES.get(expected.dtype, (0, 0))
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol, equal_nan=True)


@pytest.mark.parametrize("name", CASES)
def test_like_torch(name: str) -> None:
    counted = 0
    for case in CASES[name]:
        try:
            expected = reference(name, case)
        except (RuntimeError, NotImplementedError):
            continue  # torch has no such operator for these dtypes
        counted += 1
        try:
            found = call(name, list(case), expected)
            for f, e in zip(found, expected, strict=True):
                check(f, e)
        except Exception as error:
            raise AssertionError(f"{name} of {describe(case)}: {error}") from error
    assert counted, f"no case of {name} is one for torch"


def describe(case: tuple[Any, ...]) -> str:
    """Dtypes and sizes rather than elements."""
    return ", ".join(
        f"{a.dtype}{list(a.shape)}" if isinstance(a, torch.Tensor) else repr(a) for a in case
    )


@pytest.mark.parametrize("name", SCALAR_CASES)
def test_numbers(name: str) -> None:
    for arguments, expected in SCALAR_CASES[name]:
        slot = _kernel_caller.Result(type(expected)())
        (found,) = _kernel_caller.call(name, [*arguments, slot])
        assert found == expected and type(found) is type(expected), arguments


def test_a_slot_keeps_its_kind() -> None:
    with pytest.raises(ValueError, match="the result is Double, and the slot for it Int"):
        _kernel_caller.call("executorch_prim::add.Scalar", [1, 0.5, _kernel_caller.Result(0)])
    slot = _kernel_caller.Result(0.0)
    assert _kernel_caller.call("executorch_prim::add.Scalar", [1, 2, slot]) == [3.0]


@pytest.mark.parametrize(
    "name, extra",
    [
        ("aten::_to_copy.out", [False, None]),
        ("dim_order_ops::_to_dim_order_copy.out", [False, [0, 1, 2, 3]]),
        ("dim_order_ops::_clone_dim_order.out", [False, [0, 1, 2, 3]]),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.bool])
def test_copies_to_the_dtype_and_layout_of_out(
    name: str, extra: list[Any], dtype: torch.dtype
) -> None:
    for out in (torch.empty(IMAGE.shape, dtype=dtype), channels_last(IMAGE).to(dtype)):
        _kernel_caller.call(name, [IMAGE, *extra, _kernel_caller.Out(out)])
        assert torch.equal(out, IMAGE.to(dtype))


def test_copy_in_place() -> None:
    x = torch.zeros(4, 6)
    _kernel_caller.call("aten::copy_", [x, torch.arange(6), False, x])
    assert torch.equal(x, torch.arange(6.0).expand(4, 6))


def test_index_put_in_place() -> None:
    x = X.clone()
    indices = [None, torch.tensor([0, 5])]
    _kernel_caller.call("aten::index_put_", [x, indices, torch.tensor(9.0), False, x])
    assert torch.equal(
        x, X.clone().index_put_((torch.arange(4)[:, None], indices[1]), torch.tensor(9.0))
    )


def test_index_put_out_of_range_writes_nothing() -> None:
    x = X.clone()
    with pytest.raises(ValueError, match="index 6 is out of range in dimension 1"):
        indices = [None, torch.tensor([0, 6])]
        _kernel_caller.call("aten::index_put_", [x, indices, torch.tensor(9.0), False])
    assert torch.equal(x, X)


def test_empty_has_sizes_only() -> None:
    out = torch.ones(3, 3)
    ((sizes, _),) = _kernel_caller.call("aten::empty.out", [[2, 3], None, _kernel_caller.Out(out)])
    assert sizes == (2, 3)
    ((sizes, _),) = _kernel_caller.call(
        "aten::empty_like.out", [X[:2, :2].contiguous(), None, _kernel_caller.Out(out)]
    )
    assert sizes == (2, 2)


def test_view_shares_the_memory() -> None:
    out = torch.empty(2, 12)
    ((sizes, pointer),) = _kernel_caller.call(
        "executorch_prim::et_view.default", [X, [2, -1], _kernel_caller.Out(out)]
    )
    assert (sizes, pointer) == ((2, 12), X.data_ptr())


def test_copy_index_grows() -> None:
    target = torch.zeros(3, 6)
    for i in range(3):
        ((sizes, _),) = _kernel_caller.call(
            "executorch_prim::et_copy_index.tensor", [_kernel_caller.Out(target), X[i].clone(), i]
        )
        assert sizes == (i + 1, 6)
    assert torch.equal(target, X[:3])
    with pytest.raises(ValueError):
        _kernel_caller.call("executorch_prim::et_copy_index.tensor", [target, X[0].clone(), 3])


@pytest.mark.parametrize(
    "name, arguments, message",
    [
        ("aten::add.out", [X, torch.ones(5), 1], r"sizes \[4, 6\] and \[5\] do not broadcast"),
        ("aten::add.out", [X, 2, 1], "argument 1 is Int, expected Tensor"),
        ("aten::add.out", [X], "found 2 arguments, expected 4"),
        ("aten::floor_divide.out", [X.long(), torch.zeros(6).long()], "integer division by zero"),
        ("aten::bitwise_and.Tensor_out", [X, X], "not defined for float32"),
        ("aten::div.out_mode", [X, X, "up"], 'rounding mode "up", expected "floor" or "trunc"'),
        ("aten::view_copy.out", [X, [5, 5]], r"cannot view 24 elements as \[5, 5\]"),
        ("aten::permute_copy.out", [X, [0, 0]], "dimension 0 is named twice"),
        ("aten::select_copy.int_out", [X, 0, 4], "index 4 is out of range in dimension 0"),
        (
            "aten::slice_copy.Tensor_out",
            [X, 2, None, None, 1],
            "found dimension 2, expected one from",
        ),
        ("aten::cat.out", [[X, torch.ones(4, 5)], 0], "cannot join"),
        (
            "aten::embedding.out",
            [X, torch.tensor([4]), -1, False, False],
            "index 4 is out of range",
        ),
        ("aten::gather.out", [X, 1, torch.tensor([[-1]]), False], "index -1 is out of range"),
        ("aten::index.Tensor_out", [X, [torch.tensor([9])]], "index 9 is out of range"),
        ("aten::mm.out", [X, X], "cannot be multiplied"),
        ("aten::topk.values", [X, 7, 1, True, True], "found k = 7, expected 0 to 6"),
        ("aten::amax.out", [torch.zeros(2, 0), [1], True], "no elements to choose from"),
    ],
)
def test_refuses(name: str, arguments: list[Any], message: str) -> None:
    outs = [_kernel_caller.Out(torch.zeros(8, 8)), _kernel_caller.Out(torch.zeros(8, 8).long())]
    count = 2 if name == "aten::topk.values" else 1
    with pytest.raises(RuntimeError, match=message):
        _kernel_caller.call(name, [*arguments, *outs[:count]])


def test_refuses_an_out_that_is_too_small() -> None:
    with pytest.raises(ValueError, match=r"the result is \[4, 6\]"):
        _kernel_caller.call("aten::add.out", [X, X, 1, _kernel_caller.Out(torch.zeros(4, 5))])


def test_integer_overflow_wraps_and_the_worst_quotient_does_not_trap() -> None:
    least = torch.tensor([torch.iinfo(torch.int64).min])
    out = torch.zeros(2, dtype=torch.int64)
    for name, mode in [("aten::div.out_mode", "trunc"), ("aten::div.out_mode", "floor")]:
        _kernel_caller.call(name, [least, torch.tensor([-1]), mode, _kernel_caller.Out(out)])
        assert out[0] == least[0]
    _kernel_caller.call(
        "aten::remainder.Tensor_out", [least, torch.tensor([-1]), _kernel_caller.Out(out)]
    )
    assert out[0] == 0
