"""The stock ExecuTorch exports a program and runs it: the oracle works."""

from pathlib import Path

import torch
from executorch.exir import to_edge
from executorch.runtime import Runtime


class MulAdd(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y * 2


def test_exports_and_runs(tmp_path: Path) -> None:
    inputs = (torch.arange(6.0).reshape(2, 3), torch.ones(2, 3))
    program = to_edge(torch.export.export(MulAdd(), inputs)).to_executorch()
    path = tmp_path / "mul_add.pte"
    path.write_bytes(program.buffer)
    assert path.read_bytes()[4:8] == b"ET12"

    method = Runtime.get().load_program(path).load_method("forward")
    (output,) = method.execute(inputs)
    torch.testing.assert_close(output, MulAdd()(*inputs))
