"""Masks that are known when a program is lowered."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim, ExportedProgram
from torch.fx import Node

from pteron.backends.aoti.ops.attention.attention import WHOLE, Attention
from pteron.backends.aoti.passes.attention import unrepeated
from pteron.backends.aoti.passes.constant_masks import remove_constant_masks
from pteron.exir.operators.decompositions import decompose, functionalize

MakeMask = Callable[[torch.Tensor], torch.Tensor]


class Attend(torch.nn.Module):
    """Attention with the mask that `make` makes from the query."""

    def __init__(self, make: MakeMask, keys: int = 6) -> None:
        super().__init__()
        self.make = make
        self.keys = keys
        self.register_buffer("triangle", torch.ones(keys, keys, dtype=torch.bool).tril())

    def forward(self, q: torch.Tensor) -> torch.Tensor:
        k = q[:, :, :1].expand(-1, -1, self.keys, -1) * torch.arange(self.keys)[:, None]
        return F.scaled_dot_product_attention(q, k, k + 1, self.make(q))


def lowered(module: torch.nn.Module, q: torch.Tensor, **options: Any) -> ExportedProgram:
    program = decompose(functionalize(torch.export.export(module, (q,), **options)), WHOLE)
    expected = module(q)
    remove_constant_masks(program)
    program.graph_module.graph.lint()
    torch.testing.assert_close(program.module()(q), expected)
    return program


def call_of(program: ExportedProgram) -> Attention:
    (node,) = [n for n in program.graph.nodes if n.target in WHOLE]
    assert isinstance(node, Node)
    return Attention.of(node)


def by_position(q: torch.Tensor) -> torch.Tensor:
    n = torch.arange(6)
    return (n[: q.shape[2], None] >= n)[None, None]


def numbers(mask: torch.Tensor, least: float) -> torch.Tensor:
    return torch.zeros(mask.shape).masked_fill(~mask, least)


LEAST = torch.finfo(torch.float32).min


@pytest.mark.parametrize(
    "make",
    [
        lambda q: torch.ones(6, 6, dtype=torch.bool),
        lambda q: torch.ones(1, 1, 1, 6, dtype=torch.bool),
        lambda q: torch.zeros(2, 1, 6, 6),
    ],
)
def test_a_mask_of_all_keys_is_left_out(make: MakeMask) -> None:
    call = call_of(lowered(Attend(make), torch.randn(2, 3, 6, 8)))
    assert call.mask is None and not call.is_causal


@pytest.mark.parametrize("queries", [6, 4])
@pytest.mark.parametrize(
    "make",
    [
        by_position,
        lambda q: numbers(by_position(q), float("-inf")),
        lambda q: numbers(by_position(q), LEAST).expand(2, 1, -1, -1),
    ],
)
def test_a_lower_triangle_becomes_causal(make: MakeMask, queries: int) -> None:
    program = lowered(Attend(make), torch.randn(2, 3, queries, 8))
    call = call_of(program)
    assert call.mask is None and call.is_causal
    # What made it is gone, but for the arange of the keys.
    targets = [str(n.target) for n in program.graph.nodes]
    assert targets.count("aten.arange.start_step") == 1 and "aten.ge.Tensor" not in targets


@pytest.mark.parametrize(
    ("make", "kept"),
    [
        (lambda q: (torch.arange(6) < 4).expand(2, 1, 6, 6), 4),
        (lambda q: ((torch.arange(6) > 0) & (torch.arange(6) < 4))[None, None, None], 3),
        (lambda q: numbers(torch.arange(6) < 4, LEAST)[None], 4),
    ],
)
def test_keys_that_no_query_sees_are_left_out(make: MakeMask, kept: int) -> None:
    call = call_of(lowered(Attend(make), torch.randn(2, 3, 6, 8)))
    assert call.mask is None and not call.is_causal
    assert call.key.meta["val"].shape == call.value.meta["val"].shape == (2, 3, kept, 8)


def test_keys_behind_a_lower_triangle_are_left_out() -> None:
    call = call_of(lowered(Attend(by_position), torch.randn(2, 3, 4, 8)))
    assert call.is_causal and call.key.meta["val"].shape == (2, 3, 4, 8)


def test_repeated_keys_are_read_where_they_lay() -> None:
    class Repeated(torch.nn.Module):
        def forward(self, q: torch.Tensor) -> torch.Tensor:
            k = q[:, :2, None].expand(-1, -1, 2, -1, -1).reshape(2, 4, 6, 8)
            return F.scaled_dot_product_attention(q, k, k, (torch.arange(6) < 4)[None])

    call = call_of(lowered(Repeated(), torch.randn(2, 4, 6, 8)))
    assert call.mask is not None and unrepeated(call.key) is not None


def test_a_mask_among_the_tensors_of_the_model_goes() -> None:
    module = Attend(lambda q: module.triangle)
    program = lowered(module, torch.randn(2, 3, 6, 8))
    assert call_of(program).is_causal
    assert "triangle" not in program.state_dict
    assert len(program.graph_signature.input_specs) == len(
        program.graph.find_nodes(op="placeholder")
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda q: by_position(q).flip(-1),
        lambda q: (torch.arange(6) != 2)[None],
        lambda q: (torch.arange(6) < torch.tensor([6, 4])[:, None])[:, None, None],  # by the batch
        lambda q: torch.ones(6, 6, dtype=torch.bool).tril(1),
        lambda q: by_position(q) & (torch.arange(6)[:, None] - torch.arange(6) < 3),  # a window
        lambda q: torch.zeros(6, 6).masked_fill(~by_position(q)[0, 0], -1.0),
        lambda q: torch.zeros(6, 6) - torch.arange(6),  # of distances
        lambda q: q[:, :1, :, :6] > 0,  # by the input
        lambda q: q.new_zeros(6, 6) + q.sum() * 0,
    ],
)
def test_other_masks_stay(make: MakeMask) -> None:
    call = call_of(lowered(Attend(make), torch.rand(2, 3, 6, 8) + 0.1))
    assert call.mask is not None and not call.is_causal


def test_random_masks_stay() -> None:
    module = Attend(lambda q: torch.rand(6, 6) > -1)
    assert call_of(lowered(module, torch.randn(2, 3, 6, 8))).mask is not None


def test_masks_of_lengths_that_are_not_known_stay() -> None:
    module = Attend(lambda q: torch.arange(q.shape[2])[:, None] >= torch.arange(6))
    call = call_of(
        lowered(
            module, torch.randn(2, 3, 6, 8), dynamic_shapes=({2: Dim("queries", min=2, max=32)},)
        )
    )
    assert call.mask is not None
