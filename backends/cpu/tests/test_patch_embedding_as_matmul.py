"""Convolutions over patches that do not overlap are products."""

import pytest
import torch
from torch import nn

from pteron.backends.cpu import CpuOptions, CpuPartitioner
from pteron.backends.cpu.passes.patch_embedding_as_matmul import PatchEmbeddingAsMatmulPass
from pteron.exir import to_edge_transform_and_lower
from pteron.runtime import Runtime

_BATCH = torch.export.Dim("batch", min=1, max=8)


def decomposed(model: nn.Module, x: torch.Tensor) -> torch.export.ExportedProgram:
    exported = torch.export.export(model.eval(), (x,), dynamic_shapes=({0: _BATCH},))
    return exported.run_decompositions()


@pytest.mark.parametrize(
    ("convolution", "sizes"),
    [
        (nn.Conv2d(3, 8, 4, stride=4), (3, 16, 8)),
        (nn.Conv2d(3, 8, (2, 4), stride=(2, 4), bias=False), (3, 6, 8)),
        (nn.Conv1d(4, 6, 5, stride=5), (4, 20)),
        (nn.Conv3d(2, 4, 2, stride=2), (2, 4, 6, 2)),
    ],
)
def test_the_graph_computes_the_same(convolution: nn.Module, sizes: tuple[int, ...]) -> None:
    program = decomposed(convolution, torch.randn(2, *sizes))
    (before,) = (n for n in program.graph.nodes if n.target is torch.ops.aten.convolution.default)
    expected_value = before.meta["val"]
    assert PatchEmbeddingAsMatmulPass()(program.graph_module).modified
    targets = [node.target for node in program.graph.nodes]
    assert torch.ops.aten.convolution.default not in targets
    (returned,) = program.graph.output_node().args[0]
    assert program.graph_signature.user_outputs == (returned.name,)
    assert returned.meta["val"].shape[1:] == expected_value.shape[1:]
    assert returned.meta["val"].is_contiguous()
    for batch in (1, 5):
        x = torch.randn(batch, *sizes)
        found = program.module()(x)
        torch.testing.assert_close(found, convolution(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("convolution", "sizes"),
    [
        (nn.Conv2d(3, 8, 3, stride=2), (3, 16, 16)),  # they overlap
        (nn.Conv2d(3, 8, 4, stride=4), (3, 18, 16)),  # a rest is left
        (nn.Conv2d(3, 8, 4, stride=4, padding=2), (3, 16, 16)),
        (nn.Conv2d(3, 8, 2, stride=2, dilation=2), (3, 16, 16)),
        (nn.Conv2d(4, 8, 4, stride=4, groups=2), (4, 16, 16)),
        (nn.Conv2d(4, 8, 1), (4, 16, 16)),  # a product as it is
        (nn.ConvTranspose2d(4, 8, 4, stride=4), (4, 16, 16)),
    ],
)
def test_others_stay(convolution: nn.Module, sizes: tuple[int, ...]) -> None:
    program = decomposed(convolution, torch.randn(2, *sizes))
    assert not PatchEmbeddingAsMatmulPass()(program.graph_module).modified


def test_a_lowered_patch_embedding_calls_no_convolution() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 32, 8, stride=8), nn.Flatten(2), nn.Linear(16, 16)).eval()
    x = torch.randn(2, 3, 32, 32)
    exported = torch.export.export(model, (x,), dynamic_shapes=({0: _BATCH},))
    calls = {}
    for gemm in ("template", "library"):
        partitioner = CpuPartitioner(CpuOptions(gemm=gemm))
        lowered = to_edge_transform_and_lower(exported, partitioner=[partitioner])
        program = lowered.to_executorch()
        calls[gemm] = "aoti_torch_cpu_convolution" in str(lowered.explain())
        method = Runtime.get().load_program(program.buffer).load_method("forward")
        for batch in (2, 5):
            image = torch.randn(batch, 3, 32, 32)
            (found,) = method.execute([image])
            torch.testing.assert_close(found, model(image), rtol=1e-4, atol=1e-5)
    assert calls == {"template": False, "library": True}
