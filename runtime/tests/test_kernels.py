"""Every kernel of the runtime, called by a program."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from pteron import runtime
from pteron.runtime import InvalidArgumentError, Method, PteronError, Runtime
from pteron.runtime.tests.program_builder import MethodBuilder, build_program

NUMBERS: dict[str, list[tuple[tuple[Any, ...], Any]]] = {
    "add": [((2, 3), 5), ((2, 0.5), 2.5)],
    "sub": [((2, 3), -1), ((2.5, 1), 1.5)],
    "mul": [((4, 3), 12), ((4, 0.5), 2.0)],
    "floordiv": [((7, 2), 3), ((-7, 2), -4), ((7, -2), -4), ((7, 0.5), 14.0), ((-8, 2), -4)],
    "mod": [((7, 3), 1), ((-7, 3), 2), ((7, -3), -2), ((7.5, 2), 1.5), ((5, -1), 0)],
    "truediv": [((7, 2), 3.5)],
    "sym_max": [((7, 2), 7), ((1.5, 2), 2.0)],
    "sym_min": [((7, 2), 2)],
    "neg": [((7,), -7), ((0.5,), -0.5)],
    "sym_float": [((7,), 7.0)],
    "sym_not": [((True,), False)],
    "ceil": [((1.2,), 2), ((3,), 3)],
    "floor": [((-1.2,), -2)],
    "round": [((2.5,), 2), ((3.5,), 4)],
    "trunc": [((-1.7,), -1)],
    "eq": [((2, 2), True), ((2, 2.5), False)],
    "ne": [((2, 2), False)],
    "lt": [((1, 2), True), ((2, 2), False)],
    "le": [((2, 2), True)],
    "gt": [((3, 2), True), ((2, 2.5), False)],
    "ge": [((2, 2), True)],
}
# Those of devices are tried where there is one: backends/cuda/tests.
OTHERS = {
    "aten::copy_",
    "aten::clone.out",
    "aten::select_copy.int_out",
    "aten::sym_size.int",
    "aten::sym_numel",
    "aten::_local_scalar_dense",
    "aten::_assert_scalar",
    "aten::_assert_async.msg",
    "dim_order_ops::_clone_dim_order.out",
    "et_copy::_h2d_copy.out",
    "et_copy::_d2h_copy.out",
    "executorch_prim::et_copy_index.tensor",
    "executorch_prim::et_view.default",
}
INT64 = torch.iinfo(torch.int64)


def load(method: MethodBuilder) -> Method:
    return Runtime.get().load_program(build_program(method)).load_method("forward")


def number(name: str, *arguments: Any, slot: Any) -> Any:
    """The result of a kernel of numbers, in a slot of the kind of `slot`."""
    method = MethodBuilder()
    result = method.value(slot)
    method.kernel(name, *map(method.value, arguments), result)
    method.output(result)
    return load(method).execute([])[0]


def of_tensor(name: str, x: torch.Tensor, *arguments: int, slot: Any = 0) -> Any:
    """The number that a kernel finds in a tensor."""
    method = MethodBuilder()
    given = method.input(x.shape, str(x.dtype).removeprefix("torch."))
    result = method.value(slot)
    method.kernel(name, given, *map(method.value, arguments), result)
    method.output(result)
    return load(method).execute([x])[0]


def test_none_is_forgotten() -> None:
    table = Path(runtime.__file__).parent / "kernel" / "kernels.inc"
    listed = re.findall(r"^PTERON_KERNEL\(([\w:.]+)", table.read_text(), re.MULTILINE)
    tried = OTHERS | {f"executorch_prim::{name}.Scalar" for name in NUMBERS}
    assert tried == set(listed) == set(Runtime.get().operator_registry.operator_names)


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(name: str) -> None:
    for arguments, expected in NUMBERS[name]:
        found = number(f"executorch_prim::{name}.Scalar", *arguments, slot=type(expected)())
        assert found == expected and type(found) is type(expected), arguments


def test_a_slot_keeps_its_kind() -> None:
    with pytest.raises(PteronError, match="the result is Double, and the slot for it Int"):
        number("executorch_prim::add.Scalar", 1, 0.5, slot=0)
    assert type(number("executorch_prim::add.Scalar", 1, 2, slot=0.0)) is float


@pytest.mark.parametrize(
    "name, arguments, message",
    [
        ("floordiv", (7, 0), "division by zero"),
        ("mod", (7, 0), "division by zero"),
        ("truediv", (7, 0.0), "division by zero"),
        ("add", (INT64.max, 1), "does not fit into 64 bits"),
        ("sub", (INT64.min, 1), "does not fit into 64 bits"),
        ("mul", (INT64.max, 2), "does not fit into 64 bits"),
        ("neg", (INT64.min,), "does not fit into 64 bits"),
        ("floordiv", (INT64.min, -1), "does not fit into 64 bits"),
        ("ceil", (1e300,), "does not fit into 64 bits"),
        ("round", (float("nan"),), "does not fit into 64 bits"),
        ("add", ("1", 2), "argument 0 is String, expected Int or Double or Bool"),
        ("add", (1,), "found 2 arguments, expected 3"),
    ],
)
def test_numbers_that_are_refused(name: str, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(PteronError, match=message):
        number(f"executorch_prim::{name}.Scalar", *arguments, slot=0)


def test_numbers_of_tensors() -> None:
    x = torch.zeros(4, 6)
    assert of_tensor("aten::sym_size.int", x, 1) == 6
    assert of_tensor("aten::sym_size.int", x, -2) == 4
    assert of_tensor("aten::sym_numel", x) == 24
    with pytest.raises(InvalidArgumentError, match="found dimension 2 of float32"):
        of_tensor("aten::sym_size.int", x, 2)


@pytest.mark.parametrize("value", [3, True, -2.5])
@pytest.mark.parametrize("sizes", [(), (1, 1)])
def test_the_number_in_a_tensor(value: Any, sizes: Sequence[int]) -> None:
    found = of_tensor("aten::_local_scalar_dense", torch.full(sizes, value), slot=type(value)())
    assert found == value and type(found) is type(value)


def test_the_number_in_a_tensor_of_several() -> None:
    with pytest.raises(InvalidArgumentError, match=r"float32\[2\], expected one real element"):
        of_tensor("aten::_local_scalar_dense", torch.ones(2))


def asserted(condition: Any, *said: Any) -> None:
    """Runs an assertion: of a number, or of the tensor that it is given."""
    method = MethodBuilder()
    if isinstance(condition, torch.Tensor):
        given = method.input(condition.shape, str(condition.dtype).removeprefix("torch."))
        method.kernel("aten::_assert_async.msg", given, *map(method.value, said))
        load(method).execute([condition])
    else:
        method.kernel("aten::_assert_scalar", *map(method.value, (condition, *said)))
        load(method).execute([])


@pytest.mark.parametrize("kind", [bool, int, float, torch.tensor, lambda x: torch.ones(1, 1) * x])
def test_assertions(kind: Callable[[float], Any]) -> None:
    asserted(kind(True), "no")
    asserted(kind(-2), "no")
    with pytest.raises(
        InvalidArgumentError, match=r"check in the model: 3 is not 4 or 0\.50*, true"
    ):
        asserted(kind(0), 3, " is not ", 4, " or ", 0.5, ", ", True)


def test_small_numbers_hold() -> None:
    for dtype in (torch.float16, torch.float32, torch.float64, torch.bfloat16):
        asserted(torch.tensor(0.25, dtype=dtype), "no")
    asserted(float("nan"), "no")


def test_assertions_that_are_refused() -> None:
    with pytest.raises(PteronError, match="argument 0 is String, expected Int or Double or Bool"):
        asserted("1", "no")
    with pytest.raises(PteronError, match="argument 1 is None, expected text or a number"):
        asserted(False, None)
    with pytest.raises(InvalidArgumentError, match=r"bool\[2\], expected one real element"):
        asserted(torch.tensor([True, True]), "no")
    with pytest.raises(InvalidArgumentError, match=r"check in the model: $"):
        asserted(False)
    with pytest.raises(InvalidArgumentError, match=r"a\\x1b\[2Jb"):
        asserted(False, "a\x1b[2Jb")


def copied(name: str, extra: Sequence[Any], order: Sequence[int], **out: Any) -> Method:
    method = MethodBuilder()
    x = method.input([2, 3, 4, 5])
    y = method.planned(out.get("sizes", [2, 3, 4, 5]), out.get("dtype", "float32"), dim_order=order)
    method.kernel(name, x, *map(method.value, extra), y, y)
    method.output(y)
    return load(method)


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [0, 2, 3, 1]])
def test_clones_have_the_layout_of_the_output(order: Sequence[int]) -> None:
    x = torch.randn(2, 3, 4, 5)
    for name, extra in (
        ("aten::clone.out", [None]),
        ("dim_order_ops::_clone_dim_order.out", [False, None]),
    ):
        (y,) = copied(name, extra, order).execute([x])
        assert torch.equal(y, x) and y.permute(*order).is_contiguous()


def test_copies_that_are_refused() -> None:
    x = torch.randn(2, 3, 4, 5)
    with pytest.raises(InvalidArgumentError, match="cannot copy float32 to int32: the dtypes"):
        copied("aten::clone.out", [None], range(4), dtype="int32").execute([x])
    with pytest.raises(InvalidArgumentError, match=r"the result is \[2, 3, 4, 5\], its memory"):
        copied("aten::clone.out", [None], range(4), sizes=[2, 3, 4, 4]).execute([x])


def test_copy_in_place() -> None:
    def state(sizes: Sequence[int]) -> Method:
        method = MethodBuilder()
        x, held = method.input(sizes), method.tensor([2, 3], buffer_name="held")
        method.kernel("aten::copy_", held, x, method.value(False), held)
        method.output(held)
        return load(method)

    x = torch.randn(2, 3)
    assert torch.equal(state([2, 3]).execute([x])[0], x)
    with pytest.raises(InvalidArgumentError, match="cannot copy 3 elements to 6"):
        state([3]).execute([torch.randn(3)])


@pytest.mark.parametrize("dim, index", [(0, 1), (-1, -2), (1, 0)])
def test_select(dim: int, index: int) -> None:
    x = torch.randn(3, 4)
    method = MethodBuilder()
    out = method.planned(x.select(dim, index).shape)
    arguments = [method.value(dim), method.value(index)]
    method.kernel("aten::select_copy.int_out", method.input([3, 4]), *arguments, out, out)
    method.output(out)
    assert torch.equal(load(method).execute([x])[0], x.select(dim, index))


@pytest.mark.parametrize("dim, index, message", [(2, 0, "dimension 2"), (0, 3, "index 3 is out")])
def test_select_out_of_range(dim: int, index: int, message: str) -> None:
    method = MethodBuilder()
    out = method.planned([4])
    arguments = [method.value(dim), method.value(index)]
    method.kernel("aten::select_copy.int_out", method.input([3, 4]), *arguments, out, out)
    with pytest.raises(InvalidArgumentError, match=message):
        load(method).execute([torch.randn(3, 4)])


def view(sizes: Sequence[int], **given: Any) -> Method:
    method = MethodBuilder()
    out = method.planned([2, 12])
    x = method.input([4, 6], **given)
    method.kernel("executorch_prim::et_view.default", x, method.int_list(sizes), out)
    method.output(out)
    return load(method)


@pytest.mark.parametrize("sizes", [(2, 12), (2, -1), (-1, 12)])
def test_view(sizes: Sequence[int]) -> None:
    x = torch.randn(4, 6)
    assert torch.equal(view(sizes).execute([x])[0], x.view(2, 12))


@pytest.mark.parametrize("sizes", [(5, 5), (-1, -1), (-1, 5), (0, -1), (-2, -12), (2**62, 2**62)])
def test_view_of_other_sizes(sizes: Sequence[int]) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be viewed as"):
        view(sizes).execute([torch.randn(4, 6)])


def test_a_view_is_an_output() -> None:
    method = MethodBuilder()
    x, out = method.input([4, 6]), method.tensor([2, 12])
    method.kernel("executorch_prim::et_view.default", x, method.int_list([2, 12]), out)
    method.output(out)
    loaded = load(method)
    for given in torch.randn(3, 4, 6):
        assert torch.equal(loaded.execute([given])[0], given.view(2, 12))


def test_view_of_what_is_not_contiguous() -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be viewed as"):
        view((2, 12), dim_order=[1, 0]).execute([torch.randn(4, 6)])


@pytest.mark.parametrize("bounded", [True, False])
def test_copy_index(bounded: bool) -> None:
    """What `map` does with the slices that it computes."""
    method = MethodBuilder()
    slices = [method.input([6]) for _ in range(3)]
    out = method.planned([3, 6], bounded=bounded)
    for index, given in enumerate(slices):
        name = "executorch_prim::et_copy_index.tensor"
        method.kernel(name, out, given, method.value(index), out)
    method.output(out)
    x = torch.randn(3, 6)
    assert torch.equal(load(method).execute(list(x))[0], x)


@pytest.mark.parametrize("index", [-1, 3, INT64.max])
def test_copy_index_out_of_range(index: int) -> None:
    method = MethodBuilder()
    out = method.planned([3, 6])
    name = "executorch_prim::et_copy_index.tensor"
    method.kernel(name, out, method.input([6]), method.value(index), out)
    with pytest.raises(InvalidArgumentError, match=r"slice -?\d+ of"):
        load(method).execute([torch.randn(6)])
