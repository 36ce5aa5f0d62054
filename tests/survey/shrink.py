"""Configurations of `transformers` made small, by the names of their fields.

    for way in WAYS:
        config = small_config("llama", way)     # smaller ones first; not each of them makes a model

Nothing here knows an architecture but `_EXCEPTIONS`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

VOCABULARY = 100
TOKENS = 16

_HEADS, _HEAD = 4, 16


def _at_most(limit: int) -> Callable[[int], int]:
    return lambda value: min(value, limit)


def _always(number: int) -> Callable[[int], int]:
    return lambda value: number


Rules = tuple[tuple[str, Callable[[int], int]], ...]

# Patterns of whole names of fields that are numbers; the first one that fits says the new value.
_SMALL: Rules = (
    (r"num_feat_extract_layers|.*layers?_id", lambda value: value),
    (r"num_kv_shared_layers|max_window_layers|first_k_dense_replace|.*_offset", _at_most(1)),
    (r".*_(period|interval|pattern)|.*_every_n_layers?|interleave_.*_step", _at_most(2)),
    (r"(.*_)?n?(um_)?(.*_)?(layers?|blocks?|depth)", _at_most(2)),
    (r"(.*_)?vocab_size(_.*)?", _at_most(VOCABULARY)),
    (r"max_(.*_)?position(_embedding)?s|n_positions|n_ctx", _at_most(64)),
    (r"sliding_window|attention_window|local_attention|.*chunk_size|context_size", _at_most(8)),
    (r"num_queries|num_denoising", _at_most(10)),
    (r"n_words", _at_most(VOCABULARY)),
)
_NARROW: Rules = (
    (r"mamba_n_heads|mamba_num_heads|n_mamba_heads", _always(2 * _HEADS)),
    (r"mamba_d_ssm", _always(2 * _HEADS * _HEAD)),
    (r"(.*_)?(key_value_heads|kv_heads|n_head_kv)", _at_most(2)),
    (r"(.*_)?n?(um_)?(.*_)?heads?", _at_most(_HEADS)),
    (r"qk_rope_head_dim|rotary_dim", _always(_HEAD // 2)),
    (r"qk_head_dim", _always(_HEAD + _HEAD // 2)),
    (r"(.*_)?(head_dim|headdim|d_kv|d_head|dim_head|kv_channels)", _always(_HEAD)),
    (r"(.*_)?(lora_rank)", _at_most(32)),
    (r"(.*_)?(intermediate_size|ffn_dim|d_ff|mlp_dim|d_inner|n_inner)(_.*)?", _at_most(128)),
    (
        r"((.*_)?hidden_size|d_model|n_embd|embed_dim|emb_dim|dim|hidden_dim)",
        _at_most(_HEADS * _HEAD),
    ),
    (r"embedding_size|word_embed_proj_dim|projection_dim", _at_most(_HEADS * _HEAD)),
    (r"num_experts_per_tok|num_experts_per_token|moe_k", _at_most(2)),
    (r"n_group|topk_group", _at_most(1)),
    (r"num_local_experts|num_experts|n_routed_experts|moe_num_experts", _at_most(4)),
)
_LISTS = re.compile(r"(.*_)?(depths|layer_types|types|layers_block_type|no_rope_layers)")

# Fields that a configuration of this `model_type` needs besides.
_EXCEPTIONS: Mapping[str, Mapping[str, Any]] = {
    "deepseek_v2": {"num_experts_per_tok": 2},
    "esm": {"vocab_size": VOCABULARY, "pad_token_id": 1, "mask_token_id": 32},
    "mamba2": {"num_heads": 2 * _HEADS},
    "patchtsmixer": {"context_length": 32, "num_input_channels": 2},
    "patchtst": {"context_length": 32, "num_input_channels": 2},
    "xmod": {"default_language": "en_XX"},
    **{
        f"{name}_text": {"rope_parameters": {"rope_theta": 1e4, "mrope_section": [2, 3, 3]}}
        for name in ("glm4v", "glm_image", "glm_ocr", "paddleocr_vl", "qwen2_vl", "qwen2_5_vl")
    },
}

# Derived fields, which are recomputed.
_DERIVED = frozenset({"stage_names", "out_features", "out_indices"})

#: Rules to try, one after the other: all small, as wide as the default, the default itself.
WAYS: tuple[Rules, ...] = (_SMALL + _NARROW, _SMALL, ())


def config_class(name: str) -> Any:
    """The class of an architecture's configuration; KeyError if `transformers` has none."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return CONFIG_MAPPING[name]


def small_config(name: str, rules: Rules) -> Any:
    """The default configuration made smaller by the rules; raises what `transformers` does."""
    make = config_class(name)
    fields = make().to_dict()
    if rules:
        fields = shrink(fields, rules)
    config = make(**fields)
    for each in _with_parts(config):
        each.use_cache = False
    return config


def _with_parts(config: Any) -> Iterator[Any]:
    """A configuration and those inside it."""
    yield config
    for part in getattr(config, "sub_configs", ()):
        if (inner := getattr(config, part, None)) is not None:
            yield from _with_parts(inner)


def shrink(
    fields: Mapping[str, Any], rules: Rules = WAYS[0], tokens: dict[int, int] | None = None
) -> dict[str, Any]:
    """The fields with smaller values. `tokens` gets the new numbers of special tokens."""
    tokens = {} if tokens is None else tokens
    layers = max(
        (v for k, v in fields.items() if isinstance(v, int) and re.fullmatch(_LAYERS, k)), default=0
    )
    small: dict[str, Any] = {}
    for name, value in fields.items():
        if name in _DERIVED:
            continue
        if isinstance(value, dict):
            of_names = all(isinstance(key, str) for key in value)
            small[name] = shrink(value, rules, tokens) if of_names else value
        elif isinstance(value, list | tuple):
            small[name] = _shrink_list(name, list(value), layers)
        elif name == "image_size" and isinstance(value, int):
            patch = fields.get("patch_size")
            small[name] = 4 * patch if isinstance(patch, int) and patch >= 8 else 64
        elif isinstance(value, int) and not isinstance(value, bool):
            small[name] = _shrink_number(name, value, rules, tokens)
        else:
            small[name] = value
    if any(pattern.startswith("mamba") for pattern, _ in rules):
        _agree(fields, small)
    small.update(_EXCEPTIONS.get(fields.get("model_type", ""), {}))
    return small


def _agree(fields: Mapping[str, Any], small: dict[str, Any]) -> None:
    """Makes the narrow fields fit each other."""
    heads = [name for name in ("num_attention_heads", "num_key_value_heads") if name in fields]
    if len({fields[name] for name in heads}) == 1 or small.get(heads[-1] if heads else "") is None:
        small.update(dict.fromkeys(heads, _HEADS))
    if "head_dim" in small:
        small["head_dim"] = small.get("qk_rope_head_dim", _HEAD)
    if sections := small.get("mrope_section"):
        half = int(_HEAD // 2 * small.get("partial_rotary_factor", 1))
        parts = [max(1, half * section // sum(sections)) for section in sections]
        small["mrope_section"] = [half - sum(parts[1:]), *parts[1:]]
    if "per_layer_config" in small:
        small["per_layer_config"] = {
            key: value for key, value in fields["per_layer_config"].items() if int(key) < 2
        }


_LAYERS = r"num_hidden_layers|n_layers?|num_layers"


def _shrink_number(name: str, value: int, rules: Rules, tokens: dict[int, int]) -> int:
    if re.fullmatch(r".*token_(id|index)", name) and value >= VOCABULARY // 2:
        return tokens.setdefault(value, VOCABULARY - 1 - len(tokens))
    for pattern, change in rules:
        if re.fullmatch(pattern, name):
            return change(value) if value > 0 else value
    return value


def _shrink_list(name: str, values: list[Any], layers: int) -> list[Any]:
    """One value for each layer becomes the first and another one that occurs."""
    if name == "depths":
        return [min(value, 2 if index == 0 else 1) for index, value in enumerate(values)]
    if layers > 2 and len(values) == layers:
        others = [value for value in values if value != values[0]]
        return [values[0], others[0] if others else values[1]]
    return values
