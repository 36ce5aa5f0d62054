"""Weights that torchao quantized before export take their bits, in the file and in memory."""

import copy
import pathlib

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
