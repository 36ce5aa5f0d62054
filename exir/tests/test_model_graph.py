"""The graph of the model in a program file."""

import sys

import torch
from torch import nn

from pteron.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from pteron.exir._serialize import model_graph
from pteron.exir._serialize.model_graph import GraphNode
from pteron.exir._serialize.program_file import deserialize_program
from pteron.exir.program import EdgeProgramManager
from pteron.exir.tests.backends import OpsPartitioner
from pteron.exir.tests.modules import Islands

aten = torch.ops.aten


def graph_of(edge: EdgeProgramManager) -> list[GraphNode]:
    file = deserialize_program(edge.to_executorch().buffer)
    return model_graph.unpack(file.named_data[model_graph.KEY + "forward"])


def test_operators_of_delegates_and_between_them() -> None:
    exported = torch.export.export(Islands(), (torch.randn(2, 4),))
    nodes = graph_of(
        to_edge_transform_and_lower(exported, partitioner=[OpsPartitioner(but=[aten.relu.default])])
    )
    by_name = {node.name: node for node in nodes}
    assert by_name["x"] == GraphNode("x", "input", shapes=["float32[2, 4]"], nbytes=32)
    assert by_name["linear.weight"].op == "weight" and by_name["linear.weight"].nbytes == 64
    assert by_name["total"].op == "buffer"
    (first, *_) = (node for node in nodes if node.op == "aten.addmm")
    assert {nodes[i].name for i in first.inputs} >= {"linear.bias", "x"}
    assert (first.module, first.shapes) == ("linear", ["float32[2, 4]"])
    assert first.source.startswith("modules.py:")
    delegates = [node.delegate for node in nodes if node.op.startswith("aten.")]
    assert len(set(delegates)) > 2  # each relu has its own, of what is compiled in the end
    # What a delegate computes is read by the next one.
    relu = next(node for node in nodes if node.op == "aten.relu")
    assert [nodes[i].op for i in relu.inputs] == ["aten.addmm"]
    assert nodes[relu.inputs[0]].delegate != relu.delegate


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
        return torch.topk(y, 1)


def test_branches_results_and_bounds() -> None:
    batch = torch.export.Dim("batch", max=8)
    exported = torch.export.export(Branches(), (torch.ones(2, 4),), dynamic_shapes=({0: batch},))
    nodes = graph_of(to_edge_transform_and_lower(exported, partitioner=[OpsPartitioner()]))
    (cond,) = (node for node in nodes if node.op == "cond")
    assert {"aten.sin", "aten.cos"} <= {nodes[i].op for i in cond.inputs}
    (topk,) = (node for node in nodes if node.op == "aten.topk")
    assert len(topk.shapes) == 2 and topk.nbytes == 8 * (4 + 8)


class Indexes(nn.Module):
    """Uses of integers, of which the inputs are named after."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.few = nn.Embedding(50, 4), nn.Embedding(7, 4)

    def forward(
        self,
        x: torch.Tensor,
        embedded: torch.Tensor,
        moved: torch.Tensor,
        added: torch.Tensor,
        subtracted: torch.Tensor,
        twice: torch.Tensor,
        second: torch.Tensor,
        after_a_mask: torch.Tensor,
        gathered: torch.Tensor,
        checked: torch.Tensor,
        dynamic: torch.Tensor,
        multiplied: torch.Tensor,
        plain: torch.Tensor,
    ) -> list[torch.Tensor]:
        count = checked.item()
        torch._check(count >= 2)
        torch._check(count <= 3)
        mask = torch.ones(3, 5, dtype=torch.bool)
        return [
            self.words(embedded),
            self.few(torch.cat([moved[:, None].expand(2, 2).t().long(), moved.view(1, 2)])),
            self.few(added + 2),
            self.few(1 - 1 + subtracted - 1),
            self.words(twice) + self.few(twice),
            x[0, :, second],
            x.new_zeros(3, 5, 6)[mask, after_a_mask],
            x[0, 0].gather(0, gathered),
            x[0, 0, :count],
            x[:, 0, 0][dynamic],
            self.few(multiplied * 3),
            plain * 2,
        ]


def test_ranges_of_integers() -> None:
    one = torch.ones(2, dtype=torch.int64)
    inputs = {
        "embedded": one,
        "moved": one.int(),
        "added": one,
        "subtracted": one,
        "twice": one,
        "second": one,
        "after_a_mask": one[:1],
        "gathered": one,
        "checked": torch.tensor(2),
        "dynamic": one,
        "multiplied": one,
        "plain": one,
    }
    shapes = ({0: torch.export.Dim("batch", min=3, max=9)}, *[None] * len(inputs))
    own = [value.clone() for value in inputs.values()]  # one tensor would be one input
    exported = torch.export.export(Indexes(), (torch.randn(4, 3, 4), *own), dynamic_shapes=shapes)
    expected = {
        "embedded": [0, 49],
        "moved": [0, 6],
        "added": [0, 4],
        "subtracted": [1, 7],
        "twice": [0, 6],
        "second": [0, 3],
        "after_a_mask": [0, 5],
        "gathered": [0, 3],
        "checked": [2, 3],
        "dynamic": [0, 2],
    }
    for partitioner in (OpsPartitioner(), OpsPartitioner(but=[aten.embedding.default])):
        nodes = graph_of(to_edge_transform_and_lower(exported, partitioner=[partitioner]))
        found = {n.name: n.range for n in nodes if n.op == "input" and n.range}
        assert found == expected


def test_it_can_be_left_out_and_is_the_same_each_time() -> None:
    exported = torch.export.export(Islands(), (torch.randn(2, 4),))
    edge = to_edge_transform_and_lower(exported, partitioner=[OpsPartitioner()])
    without = edge.to_executorch(ExecutorchBackendConfig(emit_graph=False))
    assert not any(
        key.startswith(model_graph.KEY) for key in deserialize_program(without.buffer).named_data
    )
    assert edge.to_executorch().buffer == edge.to_executorch().buffer
    assert sys.path[0].encode() not in edge.to_executorch().buffer


def test_packed_and_unpacked() -> None:
    nodes = [GraphNode("x", "input"), GraphNode("y", "aten.relu", [0], ["f"], 4, "m:1", "a", 0)]
    assert model_graph.unpack(model_graph.pack(nodes)) == nodes
