"""Lowering for CUDA compares what it made with what was exported. Needs a GPU."""

from typing import Any

import pytest
import torch
from torch import nn

from pteron.backends.cuda import CudaPartitioner
from pteron.backends.cuda.tests.programs import ON_DEVICE
from pteron.exir import ExecutorchBackendConfig, VerificationError, to_edge_transform_and_lower

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


class Counts(nn.Module):
    """Products, state, and a random output."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 32)
        self.register_buffer("count", torch.zeros(32))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.count += 1
        y = self.second(self.first(x).sin()) + self.count
        return y.tanh(), self.count.clone(), y + torch.rand_like(y)


def lowered(device: str, **options: Any) -> Any:
    module, x = Counts().eval().to(device), torch.randn(8, 64, device=device)
    return to_edge_transform_and_lower(
        torch.export.export(module, (x,)), partitioner=[CudaPartitioner()], **options
    )


@pytest.mark.parametrize("exported_on", ["cpu", "cuda"])
@pytest.mark.parametrize("config", [{}, ON_DEVICE], ids=["host", "device"])
def test_what_was_compared_is_said(exported_on: str, config: dict[str, Any]) -> None:
    program = lowered(exported_on).to_executorch(ExecutorchBackendConfig(**config))
    text = str(program.explain())
    assert "2 outputs in 3 calls" in text and "outputs [2] not compared: they are random" in text


def test_a_pass_that_changes_results() -> None:
    def cosine_for_sine(module: torch.fx.GraphModule) -> None:
        for node in module.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default):
            node.target = torch.ops.aten.cos.default
        module.recompile()

    manager = lowered("cuda", transform_passes=[cosine_for_sine])
    with pytest.raises(VerificationError, match="method 'forward'"):
        manager.to_executorch()
