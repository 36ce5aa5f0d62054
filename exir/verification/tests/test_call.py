"""Running an exported program."""

import pytest
import torch
from torch import nn

from pteron.exir.verification.call import call


class Picks(nn.Module):
    def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.vmap(lambda row, i: row.index_select(0, i[None]))(x, index)


def test_a_vmap_that_fails_is_left() -> None:
    x = torch.randn(2, 3)
    program = torch.export.export(Picks(), (x, torch.tensor([0, 2])))
    assert "vmap" in str(program.graph)
    with pytest.raises(RuntimeError, match="out of bounds"):
        call(program, (x, torch.tensor([0, 3])), {})
    assert torch._C._functorch.peek_interpreter_stack() is None
