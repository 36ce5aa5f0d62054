"""Attention as the passes leave it."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim, ExportedProgram
from torch.fx import Node

from pteron.backends.aoti.ops.attention.attention import ATTENTION, RUNTIME_ATTENTION, WHOLE
from pteron.backends.aoti.passes.attention import AttentionPass, WholeAttentionPass, blocks_of
from pteron.exir.operators.decompositions import decompose, functionalize

FLEX = torch.ops.higher_order.flex_attention


class Attend(torch.nn.Module):
    """Attention over heads made as models make them; `options` go to it."""

    def __init__(self, times: int = 1, **options: Any) -> None:
        super().__init__()
        self.times = times
        self.options = options

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        if self.times > 1:
            batch, heads, keys, items = k.shape
            sizes = batch, heads, self.times, keys, items
            k, v = (x[:, :, None].expand(sizes).reshape(batch, -1, keys, items) for x in (k, v))
        return F.scaled_dot_product_attention(q, k, v, mask, **self.options)


def program_of(module: torch.nn.Module, *inputs: torch.Tensor, **options: Any) -> ExportedProgram:
    return decompose(functionalize(torch.export.export(module, inputs, **options)), WHOLE)


def calls(program: ExportedProgram, target: Any) -> list[Node]:
    return [node for node in program.graph.nodes if node.target is target]


def heads(count: int, length: int = 5, *, inside: bool = False) -> torch.Tensor:
    made = torch.randn(2, length, count, 8).transpose(1, 2)
    return made if inside else made.contiguous()


def check(program: ExportedProgram) -> None:
    """The graph is whole, and its output has the name that the signature knows."""
    program.graph_module.graph.lint()
    (spec,) = program.graph_signature.output_specs
    (result,) = program.graph.output_node().args[0]
    assert isinstance(result, Node)
    assert spec.arg.name == result.name


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("choice", ["library", "flex", "products"])
def test_choices_keep_name_and_layout_of_the_result(choice: Any, inside: bool) -> None:
    q, k, v = heads(4, inside=inside), heads(4, 7), heads(4, 7)
    program = program_of(Attend(), q, k, v)
    (traced,) = [node.meta["val"].stride() for node in calls(program, ATTENTION)]
    AttentionPass(lambda call: choice)(program.graph_module)
    check(program)
    found = {"library": RUNTIME_ATTENTION, "flex": FLEX, "products": ATTENTION}
    assert [len(calls(program, op)) for op in found.values()] == [
        int(name == choice) for name in found
    ]
    (result,) = program.graph.output_node().args[0]  # type: ignore[misc]
    assert result.meta["val"].stride() == traced


def test_masks_become_numbers_once() -> None:
    class Twice(Attend):
        def forward(self, q: Any, k: Any, v: Any, mask: Any = None) -> torch.Tensor:
            return super().forward(q, k, v, mask) + super().forward(k, q, v, mask)

    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    program = program_of(Twice(), heads(4), heads(4), heads(4), mask)
    AttentionPass(lambda call: "library")(program.graph_module)
    first, second = calls(program, RUNTIME_ATTENTION)
    assert first.args[3] is second.args[3]
    assert first.args[3].meta["val"].dtype == torch.float32  # type: ignore[union-attr]


@pytest.mark.parametrize("sizes", [(256, 384), (200, 300), (128, 129)])
def test_blocks_are_those_of_flex_attention(sizes: tuple[int, int]) -> None:
    from torch.nn.attention.flex_attention import create_block_mask

    every = torch.ones(sizes, dtype=torch.bool)
    for mask in (every, every.tril()[None], every.tril(100).triu(-50)[None, None]):
        mask[..., sizes[1] - 30 :] = False
        flags = mask.view(sizes)
        expected = create_block_mask(
            lambda b, h, m, n, flags=flags: flags[m, n], 1, 1, *sizes, device="cpu"
        ).as_tuple()
        found = blocks_of(mask, queries=sizes[0], keys=sizes[1])
        for numbers, order, number, indices in zip(
            found[::2], found[1::2], expected[2:6:2], expected[3:6:2], strict=True
        ):
            assert torch.equal(numbers, number)
            visited = torch.arange(order.shape[-1]) < numbers[..., None]
            assert torch.equal(order[visited], indices[visited])


@pytest.mark.parametrize("sizes", [(128, 128), (1, 128, 128), (1, 1, 128, 128), (2, 1, 128, 128)])
def test_blocks_of_a_mask_are_found_once(sizes: tuple[int, ...]) -> None:
    class Twice(Attend):
        def forward(self, q: Any, k: Any, v: Any, mask: Any = None) -> torch.Tensor:
            return super().forward(q, k, v, mask) + super().forward(k, q, v, mask)

    mask = torch.ones(sizes, dtype=torch.bool).tril()
    inputs = *(heads(4, 128) for _ in range(3)), mask
    program = program_of(Twice(), *inputs)
    expected = program.module()(*inputs)
    AttentionPass(lambda call: "flex")(program.graph_module)
    check(program)
    assert len(calls(program, FLEX)) == 2
    # Of a part, and of all keys; a mask for each batch is added as numbers.
    count = 2 if mask.numel() == 128 * 128 else 0
    assert len(calls(program, torch.ops.aten.sort.stable)) == count
    torch.testing.assert_close(program.module()(*inputs), expected)


def test_repeated_keys_are_read_once() -> None:
    q, k, v = heads(6), heads(2, 7), heads(2, 7)
    program = program_of(Attend(times=3), q, k, v)
    AttentionPass(lambda call: "library")(program.graph_module)
    (call,) = calls(program, RUNTIME_ATTENTION)
    assert [node.name for node in call.args[1:3]] == ["k", "v"]  # type: ignore[union-attr]
    assert call.kwargs["enable_gqa"]
    assert not calls(program, torch.ops.aten.expand.default)


def test_what_the_runtime_cannot_do_stays() -> None:
    cases: list[tuple[Attend, list[torch.Tensor]]] = [
        (Attend(), [heads(2).double() for _ in range(3)]),
        (Attend(dropout_p=0.5), [heads(2) for _ in range(3)]),
        (Attend(), [torch.randn(1, 2, 3, 300) for _ in range(3)]),
        (Attend(), [torch.randn(2, 2, 2, 3, 8) for _ in range(3)]),
    ]
    for module, inputs in cases:
        program = program_of(module, *inputs)
        AttentionPass(lambda call: "library")(program.graph_module)
        assert calls(program, ATTENTION) and not calls(program, RUNTIME_ATTENTION)


def test_dynamic_sizes() -> None:
    batch, length = Dim("batch", max=8), Dim("length", min=2, max=64)
    shapes = ({0: batch, 2: length},) * 3
    inputs = [torch.randn(2, 3, 9, 8) for _ in range(3)]
    for choice in ("library", "flex", "products"):
        program = program_of(Attend(is_causal=True), *inputs, dynamic_shapes=shapes)
        AttentionPass(lambda call, choice=choice: choice)(program.graph_module)  # type: ignore[misc]
        check(program)


def test_other_forms_become_attention() -> None:
    class Form(torch.nn.Module):
        def forward(self, q: Any, k: Any, v: Any) -> Any:
            flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
            return flash(q, k, v, 0.0, True, scale=0.5)[0]

    program = program_of(Form(), heads(2), heads(2), heads(2))
    WholeAttentionPass()(program.graph_module)
    (call,) = calls(program, ATTENTION)
    assert call.kwargs["is_causal"] and call.kwargs["scale"] == 0.5


def test_a_form_whose_other_results_are_used_stays() -> None:
    class Form(torch.nn.Module):
        def forward(self, q: Any, k: Any, v: Any) -> Any:
            flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
            return flash(q, k, v)

    program = program_of(Form(), heads(2), heads(2), heads(2))
    WholeAttentionPass()(program.graph_module)
    assert not calls(program, ATTENTION)
