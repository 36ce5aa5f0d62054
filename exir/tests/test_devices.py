"""Delegates of a device get their tensors there; copies are made where they are needed, once."""

from typing import Any

import pytest
import torch

from pteron.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from pteron.exir._serialize import schema
from pteron.exir.backend.compile_spec_schema import CompileSpec
from pteron.exir.tests.backends import OpsPartitioner
from pteron.exir.tests.checks import check
from pteron.exir.tests.modules import Cache, Function, Islands

aten = torch.ops.aten
CUDA = CompileSpec("target_device", b"cuda:0")
H2D, D2H = "et_copy::_h2d_copy", "et_copy::_d2h_copy"


def steps(method: schema.Method) -> list[str]:
    names = []
    for item in method.chains[0].instructions:
        call = item.call
        if isinstance(call, schema.DelegateCall):
            names.append("delegate")
        else:
            assert isinstance(call, schema.KernelCall)
            names.append(method.operators[call.operator_index].name)
    return names


def on_cuda(method: schema.Method) -> list[int]:
    """Numbers of the values on the device."""
    return [
        index
        for index, item in enumerate(method.values)
        if isinstance(item.value, schema.Tensor)
        and item.value.extra
        and item.value.extra.device_type == schema.DeviceType.CUDA
    ]


def test_inputs_and_outputs_are_copied() -> None:
    program = check(
        Function(lambda x, y: (x + y, x * y)),
        ((torch.randn(3), torch.randn(3)),),
        partitioner=[OpsPartitioner(specs=[CUDA])],
    )
    (method,) = program.executorch_program.methods
    assert steps(method) == [H2D, H2D, "delegate", D2H, D2H]
    assert method.buffer_devices == [schema.BufferDevice(2, schema.DeviceType.CUDA, 0)]
    for index in on_cuda(method):
        allocation = method.values[index].value.allocation
        assert allocation.memory_id == 2 and allocation.offset % 256 == 0


def test_what_stays_on_the_device_is_not_copied() -> None:
    program = check(
        Function(lambda x: (lambda y: torch.relu(y * 2) + y)(x + 1)),
        ((torch.randn(3),),),
        partitioner=[
            OpsPartitioner([aten.add.Tensor], specs=[CUDA]),
            OpsPartitioner([aten.mul.Tensor], specs=[CUDA], prefix="mul"),
        ],
    )
    (method,) = program.executorch_program.methods
    # x + 1 is read by two delegates on the device; only what relu reads and gives crosses.
    assert steps(method) == [
        H2D, "delegate", "delegate", D2H, "delegate", H2D, "delegate", D2H
    ]  # fmt: skip


def test_state_lives_on_the_device() -> None:
    calls = [(torch.randn(1, 4), torch.tensor([i])) for i in range(3)]
    program = check(Cache(0.5), *calls, partitioner=[OpsPartitioner(specs=[CUDA])])
    (method,) = program.executorch_program.methods
    (state,) = [
        v.value for v in method.values if v.value.extra and v.value.extra.fully_qualified_name
    ]
    assert state.extra.device_type == schema.DeviceType.CUDA
    assert method.buffer_devices[-1].buffer_index == state.allocation.memory_id == 3


def test_state_of_both_sides_is_copied_back() -> None:
    check(
        Islands(),
        *[(torch.randn(2, 4),) for _ in range(3)],
        partitioner=[OpsPartitioner(but=[aten.relu.default, aten.mul.Tensor], specs=[CUDA])],
    )
    check(
        Islands(),
        *[(torch.randn(2, 4),) for _ in range(3)],
        partitioner=[
            OpsPartitioner([aten.sum.dim_IntList, aten.add.Tensor], specs=[CUDA]),
            OpsPartitioner(but=[aten.relu.default], prefix="host"),
        ],
    )


def test_state_set_to_a_value_from_the_device() -> None:

    class Last(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("last", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> Any:
            old = self.last * 2
            self.last.copy_(x)
            return old

    calls = [(torch.randn(3),) for _ in range(3)]
    check(Last(), *calls, partitioner=[OpsPartitioner([aten.mul.Tensor], specs=[CUDA])])


def test_two_devices() -> None:
    second = CompileSpec("target_device", b"cuda:1")
    program = check(
        Function(lambda x: (x + 1) * 2),
        ((torch.randn(3),),),
        partitioner=[
            OpsPartitioner([aten.add.Tensor], specs=[CUDA]),
            OpsPartitioner(specs=[second], prefix="second"),
        ],
    )
    (method,) = program.executorch_program.methods
    assert steps(method) == [H2D, "delegate", D2H, H2D, "delegate", D2H]
    assert [d.device_index for d in method.buffer_devices] == [0, 1]


def test_bindings_may_stay_on_the_device() -> None:
    program = torch.export.export(Function(lambda x: x + 1), ((torch.randn(3),),))
    edge = to_edge_transform_and_lower(program, partitioner=[OpsPartitioner(specs=[CUDA])])
    config = ExecutorchBackendConfig(
        skip_h2d_for_method_inputs=True, skip_d2h_for_method_outputs={"forward": True}
    )
    (method,) = edge.to_executorch(config).executorch_program.methods
    assert steps(method) == ["delegate"]
    assert on_cuda(method) == [*method.inputs, *method.outputs]


@pytest.mark.parametrize("value", [b"tpu", b"cuda:x", b"cuda:-1"])
def test_unknown_device_is_refused(value: bytes) -> None:
    program = torch.export.export(Function(lambda x: x + 1), ((torch.randn(3),),))
    spec = CompileSpec("target_device", value)
    edge = to_edge_transform_and_lower(program, partitioner=[OpsPartitioner(specs=[spec])])
    with pytest.raises(ValueError, match="target_device of GraphBackend is"):
        edge.to_executorch()
