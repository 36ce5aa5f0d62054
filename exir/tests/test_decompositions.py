"""What operators become before partitioners see them."""

import pytest
import torch

from pteron.exir.decompositions import decompose

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
