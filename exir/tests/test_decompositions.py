"""What operators become before partitioners see them."""

import pytest
import torch
from torch._higher_order_ops.while_loop import while_loop
from torch.utils import _pytree as pytree

from pteron.exir.operators.decompositions import (
    decompose,
    decomposition_table,
    functionalize,
    join_aliases,
    run_decompositions,
)

MATRIX = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
RIGHT = torch.tensor([[1.0, 0.0, 2.0], [3.0, 1.0, 0.0]])


class Function(torch.nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, matrix: torch.Tensor) -> torch.Tensor:
        return self.function(matrix)


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (torch.linalg.inv, "linalg_inv_ex"),
        (torch.inverse, "linalg_inv_ex"),
        (lambda a: torch.linalg.solve(a, RIGHT), "_linalg_solve_ex"),
        (lambda a: torch.linalg.solve(a, RIGHT.mT, left=False), "_linalg_solve_ex"),
        (lambda a: torch.linalg.cholesky(a, upper=True), "linalg_cholesky_ex"),
        (lambda a: torch.linalg.lu_factor(a)[0], "linalg_lu_factor_ex"),
    ],
)
def test_operators_that_check_a_matrix_still_do(function, op: str) -> None:
    program = decompose(torch.export.export(Function(function), (MATRIX,)), ())
    names = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert f"aten.{op}.default" in names
    assert not program.graph_signature.input_tokens
    module = program.module()
    torch.testing.assert_close(module(MATRIX), function(MATRIX))
    with pytest.raises(RuntimeError, match="zero|singular|positive-definite"):
        module(torch.zeros(2, 2))


@pytest.mark.parametrize("op", [torch._is_all_true, torch._is_any_true])
def test_checks_of_all_elements_become_reductions(op) -> None:
    exported = torch.export.export(Function(lambda x: op(x > 0)), (MATRIX,))
    program = decompose(exported, ())
    assert not [node for node in program.graph.nodes if "true" in str(node.target)]
    for x in (MATRIX, -MATRIX, MATRIX - 1.5):
        assert program.module()(x) == op(x > 0)


class ChecksAll(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        torch._check_tensor_all(x == y)
        return x + y


def test_assertions_of_bools_can_be_retraced() -> None:
    program = torch.export.export(ChecksAll(), (MATRIX, MATRIX.clone()))
    for _ in range(3):
        program = run_decompositions(program, {})
        checks = [node for node in program.graph.nodes if "_assert_scalar" in str(node.target)]
        assert checks
    assert torch.equal(program.module()(MATRIX, MATRIX), 2 * MATRIX)
    with pytest.raises(RuntimeError, match="assertion failed"):
        program.module()(MATRIX, 2 * MATRIX)


@torch.library.custom_op("transformers::grouped_mm_fallback", mutates_args=())
def grouped_mm_fallback(
    input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor
) -> torch.Tensor:
    """What transformers calls where torch's grouped product does not take the type."""
    output = input.new_zeros(input.shape[0], weight.shape[2])
    start = 0
    for expert, end in enumerate(offs.tolist()):
        output[start:end] = input[start:end] @ weight[expert]
        start = end
    return output


@grouped_mm_fallback.register_fake
def _(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    return input.new_empty(input.shape[0], weight.shape[2])


@pytest.mark.parametrize("ends", [[2, 2, 6], [0, 0, 7], [7, 7, 7]])
def test_grouped_products_of_transformers_become_operators_of_torch(ends: list[int]) -> None:
    rows, weights, offs = torch.randn(7, 5), torch.randn(3, 5, 4), torch.tensor([2, 4, 7])
    function = Function(lambda x: grouped_mm_fallback(*x))
    dynamic = ([{0: torch.export.Dim("rows", max=20)}, None, None],)
    exported = torch.export.export(function, ([rows, weights, offs],), dynamic_shapes=dynamic)
    program = decompose(exported, ())
    assert not [n for n in program.graph.nodes if "grouped" in str(n.target)]
    inputs = [rows, weights, torch.tensor(ends)]
    torch.testing.assert_close(program.module()(inputs), function(inputs))


def test_integers_are_counted_as_numbers() -> None:
    numbers = torch.tensor([0, 3, 1, 3, 7, -1, 4], dtype=torch.int32)
    counted = decomposition_table()[torch.ops.aten.histc.default](numbers, 4, 0, 3)
    assert counted.dtype == torch.int32
    assert counted.tolist() == [1, 1, 0, 2]
    floats = numbers.float()
    assert decomposition_table()[torch.ops.aten.histc.default](floats, 4, 0, 3) is NotImplemented


@pytest.mark.parametrize("bidirectional", [False, True])
def test_the_last_state_of_a_batch_has_its_dimensions(bidirectional: bool) -> None:
    lstm = torch.nn.LSTM(4, 8, num_layers=2, bidirectional=bidirectional).eval()
    inputs = (torch.randn(5, 3, 4),)
    with torch.no_grad():
        program = decompose(torch.export.export(lstm, inputs), ())
        for found, wanted in zip(
            pytree.tree_leaves(program.module()(*inputs)),
            pytree.tree_leaves(lstm(*inputs)),
            strict=True,
        ):
            torch.testing.assert_close(found, wanted)


class KeepsItsBufferTwice(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(2), persistent=False)
        self.register_buffer("other", torch.zeros(2))
        self.kept = [self.state]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept[0].add_(x)
        return self.state + self.other


def test_a_buffer_under_two_names_is_one() -> None:
    program = torch.export.export(KeepsItsBufferTwice(), (torch.ones(2),))
    assert len(program.graph_signature.input_specs) == 4
    joined = join_aliases(program)
    assert len(joined.graph_signature.input_specs) == 3
    functional = functionalize(joined)
    assert list(functional.graph_signature.buffers_to_mutate.values()) == ["state"]
    assert functional.graph_signature.user_inputs == ("x",)
    untouched = torch.export.export(Function(torch.sin), (MATRIX,))
    assert join_aliases(untouched) is untouched


class WritesData(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.scale.data.add_(1)
        return x * self.scale


def test_a_constant_without_values_is_refused() -> None:
    """torch would crash."""
    program = torch.export.export(WritesData(), (torch.ones(2),), strict=True)
    with pytest.raises(ValueError, match=r"lost the values of lifted_tensor_0(.|\n)*no_grad"):
        functionalize(program)


class TakesHalves(torch.nn.Module):
    def __init__(self, caller: str) -> None:
        super().__init__()
        self.caller = caller

    def forward(self, x: torch.Tensor, go: torch.Tensor) -> torch.Tensor:
        first, last = (x, x.view(4)) if self.caller == "twice" else x.split(2)
        if self.caller != "while_loop":
            return torch.cond(go > 0, lambda a, b: a + b, lambda a, b: a - b, (first, last))
        return while_loop(
            lambda i, kept: i < go, lambda i, kept: (i + 1, kept * 0.5 + last), (go * 0, first)
        )[1]


@pytest.mark.parametrize("caller", ["cond", "twice", "while_loop"])
def test_operands_may_share_memory(caller: str) -> None:
    module = TakesHalves(caller).eval()
    inputs = (torch.tensor([1.0, 2, 3, 4]), torch.tensor(2))
    with torch.no_grad():
        try:
            exported = torch.export.export(module, inputs)
        except Exception as error:  # of torch 2.11
            pytest.skip(f"torch.export does not take it: {error}")
        graph = str(exported.graph)
        program = functionalize(run_decompositions(exported, {}))
        assert str(exported.graph) == graph
        for go in (2, 0):
            call = (inputs[0], torch.tensor(go))
            torch.testing.assert_close(program.module()(*call), module(*call))
