import torch

from pteron.backends.aoti.passes.remove_metadata_asserts import RemoveMetadataAssertsPass

_ASSERT = torch.ops.aten._assert_tensor_metadata.default


def test_assertions_go_in_branches_too() -> None:
    class Rounded(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            def double(x: torch.Tensor) -> torch.Tensor:
                return x.to(torch.float64).to(torch.float32)

            return torch.cond(x.sum() > 0, double, lambda x: x.clone(), (double(x),))

    x = torch.randn(3)
    module = torch.export.export(Rounded(), (x,)).module()
    assert isinstance(module, torch.fx.GraphModule)

    def count() -> int:
        graphs = [m.graph for m in module.modules() if isinstance(m, torch.fx.GraphModule)]
        return sum(node.target is _ASSERT for graph in graphs for node in graph.nodes)

    assert count() > 1
    assert RemoveMetadataAssertsPass()(module).modified
    assert count() == 0
    torch.testing.assert_close(module(x), Rounded()(x))
