"""State: buffers and inputs that a model changes."""

from typing import Any

import pytest
import torch
from torch import nn

from pteron.exir import to_edge, to_edge_transform_and_lower
from pteron.exir._serialize import schema
from pteron.exir.graph.lowered_backend_module import lowered_modules
from pteron.exir.program import ExecutorchProgramManager
from pteron.exir.tests.backends import OpsPartitioner
from pteron.exir.tests.checks import check, load
from pteron.exir.tests.modules import Cache, Function, Islands

aten = torch.ops.aten


def state_tensors(program: ExecutorchProgramManager, method: int = 0) -> dict[str, schema.Tensor]:
    """Planned tensors with a name: state, as the runtime sees it."""
    found = {}
    for item in program.executorch_program.methods[method].values:
        tensor = item.value
        if isinstance(tensor, schema.Tensor) and tensor.allocation and tensor.extra:
            assert tensor.extra.fully_qualified_name is not None
            found[tensor.extra.fully_qualified_name] = tensor
    return found


def instructions(program: ExecutorchProgramManager) -> list[str]:
    """`delegate` or the kernel's name of each instruction."""
    method = program.executorch_program.methods[0]
    names = []
    for item in method.chains[0].instructions:
        if isinstance(item.call, schema.DelegateCall):
            names.append("delegate")
        else:
            assert isinstance(item.call, schema.KernelCall)
            names.append(method.operators[item.call.operator_index].name)
    return names


def steps(count: int = 3) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.randn(1, 4), torch.tensor([index])) for index in range(count)]


def test_delegate_writes_state_in_place() -> None:
    program = check(Cache(), *steps())
    (method,) = program.executorch_program.methods
    (call,) = [item.call for item in method.chains[0].instructions]
    assert isinstance(call, schema.DelegateCall)
    # State and two inputs, one output: the new value of the state is no output.
    assert len(call.args) == 4
    tensor = state_tensors(program)["keys"]
    assert tensor.data_index == 0 and tensor.allocation.memory_id == 2
    assert method.buffer_sizes[2] == 8 * 4 * 4
    assert program.executorch_program.mutable_segments is None


def test_initial_value_is_stored_unless_it_is_zero() -> None:
    program = check(Cache(0.5), *steps())
    assert state_tensors(program)["keys"].data_index == 1
    assert [blob.nbytes for blob in program._emitted.data.mutable_data] == [8 * 4 * 4]


class Swap(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.randn(3))
        self.register_buffer("b", torch.randn(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(a)
        return self.a + x


@pytest.mark.parametrize("delegated", [True, False])
def test_swapped_state(delegated: bool) -> None:
    but = [] if delegated else [aten.clone.default]
    check(Swap(), *[(torch.randn(3),)] * 3, partitioner=[OpsPartitioner(but=but)])


def test_input_that_is_changed_in_place() -> None:
    def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        return x * 2

    check(Function(add), ((torch.randn(3), torch.randn(3)),))


def test_changed_input_as_output() -> None:
    def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        return x

    check(Function(add), ((torch.randn(3), torch.randn(3)),))


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> Any:
        self.count += 1
        return self.count, x * self.count


def test_state_as_output_is_a_value_of_its_own() -> None:
    program = check(Counter(), (torch.randn(3),), (torch.randn(3),))
    method = load(program)["forward"]
    first = method(torch.ones(3))[0]
    method(torch.ones(3))
    assert first == 1
    assert program.executorch_program.methods[0].outputs[0] != 0


class Unread(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(3))
        self.register_buffer("copy", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last.copy_(x * 2)
        self.copy.copy_(x)
        return x + 1


def test_state_that_is_only_written() -> None:
    program = check(Unread(), (torch.randn(3),))
    assert state_tensors(program).keys() == {"last", "copy"}
    assert instructions(program) == ["delegate", "aten::copy_"]


def test_state_set_to_an_input() -> None:

    class Keep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("last", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            old = self.last + 0
            self.last.copy_(x)
            return old

    program = check(Keep(), *[(torch.randn(3),) for _ in range(3)])
    assert instructions(program)[-1] in ("aten::copy_", "delegate")


STACKS = {
    "one_backend": [OpsPartitioner(but=[aten.relu.default])],
    "linear_first": [
        OpsPartitioner([aten.addmm.default, aten.permute.default]),
        OpsPartitioner(but=[aten.relu.default], backend="OtherBackend", prefix="other"),
    ],
    "linear_last": [
        OpsPartitioner(
            but=[aten.relu.default, aten.permute.default, aten.addmm.default],
            backend="OtherBackend",
            prefix="other",
        ),
        OpsPartitioner([aten.relu.default, aten.permute.default, aten.addmm.default]),
    ],
    "everything": [
        OpsPartitioner([aten.relu.default]),
        OpsPartitioner(backend="OtherBackend", prefix="other"),
    ],
    "state_outside": [
        OpsPartitioner([aten.addmm.default, aten.permute.default, aten.sum.dim_IntList])
    ],
}


@pytest.mark.parametrize("stack", STACKS)
def test_state_between_partitions(stack: str) -> None:
    check(Islands(), *[(torch.randn(2, 4),) for _ in range(3)], partitioner=STACKS[stack])


class LateReader(nn.Module):
    """Reads the old value by an operator that depends on the delegate that writes the new one."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.ones(3))

    def forward(self, x: torch.Tensor) -> Any:
        old = self.total
        new = old + x
        late = torch.maximum(new * 2, old)
        early = torch.minimum(old, x)
        self.total.copy_(new)
        return late, early


def test_old_value_is_read_before_it_is_overwritten() -> None:
    program = check(
        LateReader(),
        *[(torch.randn(3),) for _ in range(3)],
        partitioner=[
            OpsPartitioner([aten.add.Tensor, aten.mul.Tensor]),
            OpsPartitioner([aten.minimum.default], prefix="early"),
        ],
    )
    # The reader that depends on the delegate gets a copy, the other one comes first.
    assert instructions(program) == ["aten::clone", "delegate", "delegate", "delegate"]
    modules = lowered_modules(program.exported_program().graph_module)
    called = [str(node.target) for _, module in modules for node in module.nodes()]
    assert called.index("aten.minimum.default") == 0
    assert called.index("aten.maximum.default") == len(called) - 1


def test_methods_share_state_by_name() -> None:
    class Store(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("other", torch.zeros(5))
            self.register_buffer("kept", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.other.add_(1)
            self.kept.copy_(x * 1)
            return x + 1

    class Recall(nn.Module):
        def __init__(self, store: Store) -> None:
            super().__init__()
            self.register_buffer("kept", store.kept)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            old = self.kept * 1
            self.kept.mul_(2)
            return x + old

    store = Store()
    programs = {
        "store": torch.export.export(store, (torch.ones(3),)),
        "recall": torch.export.export(Recall(store), (torch.ones(3),)),
    }
    program = to_edge_transform_and_lower(programs, partitioner=[OpsPartitioner()]).to_executorch()
    methods = load(program)
    given = torch.tensor([1.0, 2.0, 3.0])
    methods["store"](given)
    torch.testing.assert_close(methods["recall"](torch.zeros(3)), [given])
    torch.testing.assert_close(methods["recall"](torch.zeros(3)), [given * 2])
    recall, stored = state_tensors(program, 0)["kept"], state_tensors(program, 1)["kept"]
    assert recall.allocation == stored.allocation


def test_state_that_differs_between_methods_is_refused() -> None:
    def program(initial: float) -> Any:
        return torch.export.export(Cache(initial), (torch.ones(1, 4), torch.tensor([0])))

    edge = to_edge_transform_and_lower(
        {"a": program(0.0), "b": program(1.0)}, partitioner=[OpsPartitioner()]
    )
    with pytest.raises(ValueError, match="state 'keys' differs in initial value between methods"):
        edge.to_executorch()


def test_a_method_that_only_reads_what_another_changes_is_refused() -> None:
    class Store(nn.Module):
        def __init__(self, changes: bool) -> None:
            super().__init__()
            self.register_buffer("kept", torch.zeros(3))
            self.changes = changes

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.changes:
                self.kept.copy_(x * 1)
            return x + self.kept

    def programs() -> Any:
        writer, reader = Store(True), Store(False)
        reader.kept = writer.kept
        x = torch.ones(3)
        return {"w": torch.export.export(writer, (x,)), "r": torch.export.export(reader, (x,))}

    with pytest.raises(ValueError, match=r"'r' reads 'kept', which 'w' changes(.|\n)*mul_\(1\)"):
        to_edge(programs())
    apart = programs()
    apart["r"] = torch.export.export(Store(False), (torch.ones(3),))
    to_edge(apart)  # another module's, of the same name
