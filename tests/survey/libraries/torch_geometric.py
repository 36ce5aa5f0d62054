"""`torch_geometric`: models and layers, exported with any number of nodes and edges."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.export import Dim

from tests.survey.libraries.recipe import Models, Recipe, noise

_IN, _OUT = 16, 8


def _graph(nodes: int, edges: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(nodes)
    return torch.randint(0, nodes, (2, edges), generator=generator)


def _recipe(module: nn.Module, *extra: int) -> Recipe:
    """Of nodes with features and edges; `extra` are the widths of edges' features."""

    def inputs(nodes: int, edges: int) -> tuple[Any, ...]:
        return (
            noise(nodes, _IN),
            _graph(nodes, edges),
            *(noise(edges, width) for width in extra),
        )

    nodes, edges = Dim("nodes", min=2, max=1000), Dim("edges", min=2, max=5000)
    shapes = ({0: nodes}, {1: edges}, *({0: edges} for _ in extra))
    return Recipe(module.eval(), inputs(30, 100), dynamic_shapes=shapes, other=inputs(50, 81))


def _model(name: str, **options: Any) -> Callable[[], Recipe]:
    def make() -> Recipe:
        from torch_geometric import nn as layers

        module = getattr(layers, name)(
            in_channels=_IN, hidden_channels=32, num_layers=2, out_channels=_OUT, **options
        )
        return _recipe(module)

    return make


def _layer(name: str, *extra: int, **options: Any) -> Callable[[], Recipe]:
    def make() -> Recipe:
        from torch_geometric import nn as layers

        return _recipe(getattr(layers, name)(_IN, _OUT, **options), *extra)

    return make


def _of_graphs() -> Recipe:
    """A graph network with a pooling of each graph of a batch."""
    from torch_geometric import nn as layers

    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = layers.GIN(_IN, 32, 2)
            self.head = nn.Linear(32, _OUT)

        def forward(
            self, x: torch.Tensor, edges: torch.Tensor, batch: torch.Tensor
        ) -> torch.Tensor:
            pooled = layers.global_mean_pool(self.network(x, edges), batch, size=3)
            return torch.log_softmax(self.head(pooled), -1)

    nodes, edges = Dim("nodes", min=3, max=1000), Dim("edges", min=2, max=5000)

    def inputs(count: int, edges: int) -> tuple[Any, ...]:
        return noise(count, _IN), _graph(count, edges), torch.arange(count) * 3 // count

    return Recipe(
        Pooled().eval(),
        inputs(30, 100),
        dynamic_shapes=({0: nodes}, {1: edges}, {0: nodes}),
        other=inputs(50, 81),
    )


def _gin_layer() -> Recipe:
    from torch_geometric import nn as layers

    return _recipe(
        layers.GINConv(nn.Sequential(nn.Linear(_IN, 32), nn.ReLU(), nn.Linear(32, _OUT)))
    )


def _edge_layer() -> Recipe:
    from torch_geometric import nn as layers

    return _recipe(layers.EdgeConv(nn.Linear(2 * _IN, _OUT)))


MODELS: Models = {
    "GCN": _model("GCN"),
    "GAT": _model("GAT", heads=2),
    "GATv2": _model("GAT", heads=2, v2=True),
    "GraphSAGE": _model("GraphSAGE"),
    "GraphSAGE_max": _model("GraphSAGE", aggr="max"),
    "GIN": _model("GIN"),
    "PNA": _model(
        "PNA",
        aggregators=["mean", "min", "max", "std"],
        scalers=["identity"],
        deg=torch.tensor([0, 2, 5, 3]),
    ),
    "EdgeCNN": _model("EdgeCNN"),
    "TransformerConv": _layer("TransformerConv", heads=2),
    "GraphConv": _layer("GraphConv"),
    "GINConv": _gin_layer,
    "EdgeConv": _edge_layer,
    "GENConv": _layer("GENConv"),
    "TAGConv": _layer("TAGConv"),
    "ChebConv": _layer("ChebConv", K=3),
    "ARMAConv": _layer("ARMAConv"),
    "LEConv": _layer("LEConv"),
    "ResGatedGraphConv": _layer("ResGatedGraphConv"),
    "ClusterGCNConv": _layer("ClusterGCNConv"),
    "GATConv_edges": _layer("GATConv", 4, edge_dim=4, heads=2),
    "pooled": _of_graphs,
}
