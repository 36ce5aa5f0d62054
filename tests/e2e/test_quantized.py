"""Weights that torchao quantized before export take their bits, in the file and in memory."""

import copy
import pathlib
from typing import Any

import pytest
import torch
from torch import nn
from torchao.quantization import Int8WeightOnlyConfig, IntxWeightOnlyConfig, PerGroup, quantize_
from transformers import LlamaConfig, LlamaForCausalLM

import pteron
from pteron.exir._serialize.program_file import deserialize_program

CONFIGS = {
    "int8": Int8WeightOnlyConfig(),
    "int4_groups": IntxWeightOnlyConfig(
        weight_dtype=torch.int4,  # type: ignore[attr-defined]
        granularity=PerGroup(32),
    ),
}


class Logits(nn.Module):
    """Llama of `transformers`, of random weights; tokens to logits."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        config = LlamaConfig(
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            vocab_size=64,
            use_cache=False,
        )
        self.model = LlamaForCausalLM(config)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(tokens).logits
        return logits


@pytest.mark.parametrize(
    ("config", "dtype"), [("int8", torch.bfloat16), ("int4_groups", torch.float32)]
)
def test_a_decoder(config: str, dtype: torch.dtype, tmp_path: pathlib.Path) -> None:
    plain = Logits().eval().to(dtype)
    module = copy.deepcopy(plain)
    quantize_(module, CONFIGS[config])
    linears = (layer for layer in plain.modules() if isinstance(layer, nn.Linear))
    quantized = sum(linear.weight.numel() for linear in linears)
    for tokens in (torch.tensor([[3]]), torch.tensor([[3, 1, 4, 1, 5]])):
        path = tmp_path / f"{tokens.shape[1]}.pte"
        with torch.no_grad():
            pteron.export(module, (tokens,), path)
            expected = module(tokens)
        least, most = {"int8": (1, 1.7), "int4_groups": (0.5, 0.9)}[config]
        assert least < _weight_bytes(path) / quantized < most, "bits of each, scales and the rest"
        method = pteron.Runtime.get().load_program(path).load_method("forward")
        (found,) = method.execute([tokens])
        error = (found.double() - expected.double()).norm() / expected.double().norm()
        assert error < {torch.float32: 1e-5, torch.bfloat16: 2e-2}[dtype]


def _weight_bytes(path: pathlib.Path) -> int:
    named = deserialize_program(path.read_bytes()).named_data
    others = ("_so_blob", "model_graph/forward")
    return sum(len(data) for key, data in named.items() if not key.endswith(others))


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("config", list(CONFIGS))
def test_products_of_bfloat16(config: str, rows: int, tmp_path: pathlib.Path) -> None:
    """A row, rows of few and of many registers, each with terms that fill no block."""
    torch.manual_seed(1)
    module = nn.Linear(1184, 100, bias=False, dtype=torch.bfloat16).eval()
    quantize_(module, CONFIGS[config])
    x = torch.randn(rows, 1184, dtype=torch.bfloat16)
    with torch.no_grad():
        pteron.export(module, (x,), tmp_path / "x.pte", options={"cpu.isa": "native"})
    method = pteron.Runtime.get().load_program(tmp_path / "x.pte").load_method("forward")
    (found,) = method.execute([x])
    weight: Any = module.weight
    values, scale = weight.qdata.double(), weight.scale.double().reshape(100, -1, 1)
    exact = (values.view(100, scale.shape[1], -1) * scale).view(100, -1)
    expected = x.double() @ exact.T
    error = (found.double() - expected).norm() / expected.norm()
    # The result is rounded, as are weights of several rows; that of int8 also before its scale.
    assert error < {"int8": 4e-3, "int4_groups": 2.5e-3}[config]
