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
