"""Features of exported programs, run from the written file and compared with eager."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from pteron.exir.tests.backends import OpsPartitioner
from pteron.exir.tests.checks import check, lower
from pteron.exir.tests.modules import Function, Mlp

aten = torch.ops.aten


def test_example() -> None:
    program = check(Mlp(), (torch.randn(2, 8),))
    assert program.methods == {"forward"}
    (method,) = program.executorch_program.methods
    assert [delegate.id for delegate in method.delegates] == ["GraphBackend"]


def test_dynamic_batch() -> None:
    check(
        Mlp(),
        (torch.randn(2, 8),),
        (torch.randn(5, 8),),
        (torch.randn(32, 8),),
        dynamic_shapes=({0: Dim("batch", max=32)},),
    )


class Nested(nn.Module):
    def forward(self, pair: Any, flag: bool, *, extra: Any, scale: int = 2, none: None = None):
        a, b = pair["a"], pair["b"][0]
        c = a + b * scale
        return {"sum": c, "rest": [a if flag else b, None, 7, 1.5, True, c, extra["z"] * 2]}


def test_nested_inputs_and_outputs() -> None:
    pair = {"a": torch.randn(3), "b": [torch.randn(3)]}
    program = check(Nested(), (pair, True), kwargs={"extra": {"z": torch.ones(2)}, "scale": 3})
    types = program.executorch_program.methods[0].container_types
    assert types is not None
    assert '"builtins.dict"' in types.inputs and '\\"extra\\"' in types.inputs
    assert '\\"sum\\"' in types.outputs


class Constants(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))
        self.plain = torch.ones(2)
        self.register_buffer("buffer", torch.randn(2, 2).t())

    def forward(self, x: torch.Tensor) -> Any:
        return self.weight, x + 1, self.plain, self.buffer, torch.arange(3)


def test_constants_as_outputs() -> None:
    check(Constants(), (torch.randn(3),), (torch.randn(3),))


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: x, id="an_input"),
        pytest.param(lambda x: (x, x + 1, x), id="an_input_twice"),
        pytest.param(lambda x: (x.relu(),) * 2, id="one_result_twice"),
        pytest.param(lambda x: (x.t(), x[1:], x.reshape(-1)), id="views_of_an_input"),
        pytest.param(lambda x: (None, 3, 2.5, True, "text"), id="constants_only"),
    ],
)
def test_aliased_outputs(function: Callable[..., Any]) -> None:
    check(Function(function), ((torch.randn(2, 3),),), ((torch.randn(2, 3),),))


def test_shape_as_output() -> None:
    check(
        Function(lambda x, y: (x + 1, x.shape[0], (x.shape[0] + y.shape[0]) * 2)),
        ((torch.randn(2, 3), torch.randn(3, 3)),),
        ((torch.randn(5, 3), torch.randn(4, 3)),),
        dynamic_shapes=(({0: Dim("a", max=8)}, {0: Dim("b", max=8)}),),
    )


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bool,
        torch.int8,
        torch.uint8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float64,
    ],
    ids=str,
)
def test_dtypes(dtype: torch.dtype) -> None:
    check(Function(lambda x: (x == x, x.clone())), ((torch.ones(3).to(dtype),),))


def test_complex32_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot hold tensors of torch.complex32; it can hold"):
        lower(Function(lambda x: x * 2), ((torch.ones(2, dtype=torch.complex32),),)).to_executorch()


def test_layouts() -> None:
    image = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    function = Function(lambda x: (torch.relu(x), x * 2, x.permute(3, 1, 0, 2) * 1))
    program = check(function, ((image,),))
    given = program.executorch_program.methods[0].values[0].value
    assert given.dim_order == [0, 2, 3, 1]
    check(
        Function(
            lambda x: (torch.relu(x.t()[:, ::2]) + 1, (x.expand(2, 3, 5) + 1).transpose(0, 2))
        ),
        ((torch.randn(3, 5),),),
        partitioner=[OpsPartitioner(but=[aten.relu.default])],
    )


def test_example_input_that_is_not_dense() -> None:
    edge = lower(Function(lambda x: x + 1), ((torch.randn(4, 6)[:, ::2],),))
    (tensor, _) = edge.to_executorch().executorch_program.methods[0].values
    assert tensor.value.sizes == [4, 3] and tensor.value.dim_order == [0, 1]


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = self.a
        self.c = nn.Linear(4, 4)
        self.c.weight = self.a.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c(self.b(self.a(x)))


def test_shared_parameters_are_stored_once() -> None:
    program = check(Shared(), (torch.randn(2, 4),))
    stored = program._emitted.data.named_data.buffers
    weights = [blob.nbytes for blob in stored if blob.alignment == 64]  # the rest is the graph
    assert sorted(weights) == [16, 16, 64] and len(stored) == 4


def test_control_flow_goes_with_its_operator() -> None:
    def nested(x: torch.Tensor) -> torch.Tensor:
        def inner(y: torch.Tensor) -> torch.Tensor:
            return torch.cond(y.max() > 0, lambda z: z * 2, lambda z: z * 3, (y,))

        return torch.cond(x.sum() > 0, lambda y: y + 1, inner, (x,))

    inputs = [torch.ones(3), -torch.ones(3), torch.tensor([1.0, -5.0, 1.0])]
    check(Function(nested), *(((x,),) for x in inputs))


def test_sizes_that_depend_on_data() -> None:
    def nonzero(x: torch.Tensor) -> Any:
        found = x.nonzero()
        torch._check(found.shape[0] <= 6)
        return found.sum(0, keepdim=True), found

    check(Function(nonzero), ((torch.tensor([1.0, 0, 2]),),), ((torch.tensor([0.0, 0, 2]),),))


def test_numbers_that_depend_on_data() -> None:
    def narrow(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        count = n.item()
        torch._check(count >= 0)
        torch._check(count <= 3)
        return x.narrow(0, 0, count)

    check(
        Function(narrow), ((torch.randn(3), torch.tensor(2)),), ((torch.randn(3), torch.tensor(3)),)
    )


def test_empty_tensors() -> None:
    check(Function(lambda x, y: torch.cat([x, y])), ((torch.randn(0, 3), torch.randn(2, 3)),))


def test_size_without_bound_is_refused_before_anything_is_compiled() -> None:
    class Refuses(OpsPartitioner):
        def partition(self, exported_program: Any) -> Any:
            raise AssertionError("too late")

    with pytest.raises(ValueError, match=r"dimension 0 of input x .*\n.*dimension 1 of input x"):
        lower(
            _Twice(),
            (torch.randn(2, 8),),
            dynamic_shapes=({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},),
            partitioner=[Refuses()],
        )


class _Twice(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2
