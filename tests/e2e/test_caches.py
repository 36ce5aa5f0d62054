"""Models of transformers with their caches, as outputs and inputs of programs."""

import copy
import pathlib
from typing import Any

import pytest
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

import pteron

_DECODER: dict[str, Any] = {
    **{"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 100},
    **{"num_attention_heads": 4, "num_key_value_heads": 2},
}
_IDS = torch.tensor([[1, 2, 3, 4, 5, 6]])


def _decoder(kind: str) -> Any:
    torch.manual_seed(0)
    if kind == "llama":
        return LlamaForCausalLM(LlamaConfig(**_DECODER)).eval()
    return MistralForCausalLM(MistralConfig(**_DECODER, sliding_window=4)).eval()


def _exported(model: Any, path: pathlib.Path, **kwargs: Any) -> Any:
    pteron.export(model, (), path, kwargs=kwargs)
    return pteron.Runtime.get().load_program(path).load_method("forward")


def _eager(model: Any, **kwargs: Any) -> Any:
    with torch.no_grad():
        return model(**kwargs)


def _name_of_cache(outputs: Any) -> str:
    """Which transformers renamed."""
    return "cache" if "cache" in outputs else "past_key_values"


def _check_layers(found: Any, cache: Any) -> None:
    for index, layer in enumerate(cache.layers):
        torch.testing.assert_close(found.key_cache[index], layer.keys)
        torch.testing.assert_close(found.value_cache[index], layer.values)


@pytest.mark.parametrize("kind", ["llama", "mistral"])
def test_a_decoder_returns_its_cache(kind: str, tmp_path: pathlib.Path) -> None:
    model = _decoder(kind)
    found = _exported(model, tmp_path / "first.pte", input_ids=_IDS)(input_ids=_IDS)
    expected = _eager(model, input_ids=_IDS)
    torch.testing.assert_close(found.logits, expected.logits)
    name = _name_of_cache(expected)
    _check_layers(found[name], expected[name])


def test_a_decoder_goes_on_from_its_cache(tmp_path: pathlib.Path) -> None:
    model, following = _decoder("llama"), torch.tensor([[7]])
    first = _eager(model, input_ids=_IDS)
    name = _name_of_cache(first)
    returned = _exported(model, tmp_path / "first.pte", input_ids=_IDS)(input_ids=_IDS)[name]

    def step(cache: Any) -> dict[str, Any]:
        return {"input_ids": following, name: copy.deepcopy(cache)}

    method = _exported(model, tmp_path / "step.pte", **step(first[name]))
    expected = _eager(model, **step(first[name]))
    for cache in (first[name], returned, dict(returned)):
        found = method(**step(cache))
        torch.testing.assert_close(found.logits, expected.logits)
        _check_layers(found[name], expected[name])


def test_the_caches_of_encoder_and_decoder(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    sizes = {"d_model": 32, "d_ff": 64, "num_layers": 2, "num_heads": 4, "d_kv": 8}
    model = T5ForConditionalGeneration(
        T5Config(**sizes, vocab_size=100, decoder_start_token_id=0)
    ).eval()
    first = _eager(model, input_ids=_IDS, decoder_input_ids=_IDS[:, :2])
    name = _name_of_cache(first)

    def step() -> dict[str, Any]:
        return {
            "decoder_input_ids": _IDS[:, 2:3],
            "encoder_outputs": (first.encoder_last_hidden_state,),
            name: copy.deepcopy(first[name]),
        }

    found = _exported(model, tmp_path / "step.pte", **step())(**step())
    expected = _eager(model, **step())
    torch.testing.assert_close(found.logits, expected.logits)
    for part in ("self_attention_cache", "cross_attention_cache"):
        _check_layers(found[name][part], getattr(expected[name], part))
