"""Small checkpoints, as transformers saves them."""

from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

VOCABULARY = 96
#: Tokens of the cache of each.
POSITIONS = 64
#: Of those families that have one: shorter than the texts of tests.
WINDOW = 8

_COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": POSITIONS,
    "bos_token_id": 1,
    "eos_token_id": None,
    "pad_token_id": 0,
    "initializer_range": 0.4,  # so that tokens differ
    "tie_word_embeddings": False,
}
_SCALED = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
_GEMMA = {"head_dim": 16, "sliding_window": WINDOW, "query_pre_attn_scalar": 16}
_EXPERTS = {
    "head_dim": 16,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
}

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {**_COMMON, "rope_parameters": _SCALED}),
    "qwen2": ("Qwen2Config", _COMMON),
    "qwen3": ("Qwen3Config", {**_COMMON, "head_dim": 16}),
    "qwen3_moe": ("Qwen3MoeConfig", {**_COMMON, **_EXPERTS}),
    "gemma2": ("Gemma2Config", {**_COMMON, **_GEMMA}),
    "gemma3": (
        "Gemma3TextConfig",
        {**_COMMON, **_GEMMA, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "phi3": ("Phi3Config", _COMMON),
    "mistral": ("MistralConfig", {**_COMMON, "sliding_window": WINDOW}),
    "smollm3": ("SmolLM3Config", {**_COMMON, "no_rope_layers": [1, 0]}),
    "gpt2": (
        "GPT2Config",
        {
            "vocab_size": VOCABULARY,
            "n_embd": 32,
            "n_layer": 2,
            "n_head": 4,
            "n_positions": POSITIONS,
            "bos_token_id": 1,
            "eos_token_id": None,
            "initializer_range": 0.4,
        },
    ),
}


def random_model(family: str) -> Any:
    """A model with random weights; whatever the tokens, other ones follow."""
    name, options = FAMILIES[family]
    torch.manual_seed(0)
    config = getattr(transformers, name)(**options)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def trained(text: str) -> Any:
    """Llama that knows one text by heart, with `<eos>` after it; for at most 256 tokens."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the steps are too small for several threads
    config = transformers.LlamaConfig(
        vocab_size=258,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=1,
        eos_token_id=0,
    )
    model = transformers.AutoModelForCausalLM.from_config(config).train()
    ids = torch.tensor([[*byte_ids(text), 0]])
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(150):
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.01
    return model.eval()


def byte_ids(text: str) -> list[int]:
    """Tokens of the tokenizer of `save`."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    ((pretty, _),) = pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    ).pre_tokenize_str(text)
    return [2 + alphabet.index(character) for character in pretty]


def save(model: Any, folder: Path, **options: Any) -> None:
    """With a tokenizer of bytes: token 2 + n is the n-th character of ByteLevel's alphabet.

    Args:
      **options: of the tokenizer, as chat_template.
    """
    model.save_pretrained(folder, max_shard_size="100KB")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {word: i for i, word in enumerate(["<eos>", "<bos>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=words, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<bos>", eos_token="<eos>", **options
    ).save_pretrained(folder)
