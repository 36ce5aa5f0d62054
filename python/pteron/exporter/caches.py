"""Caches of transformers' models as inputs and outputs of what is exported.

    register_caches()
    torch.export.export(model, (), {"input_ids": ids})  # returns a DynamicCache

torch.export takes only types that are registered as pytrees. transformers registers DynamicCache in
a function that its users have to know, with a constructor that creates tensors, which torch cannot
decompose; and EncoderDecoderCache not at all.
"""

import sys
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

_TENSORS = ["key_cache", "value_cache"]
_PARTS = ["self_attention_cache", "cross_attention_cache"]


def register_caches() -> None:
    """Registers those that are not, for the process, if transformers is imported."""
    module: Any = sys.modules.get("transformers.cache_utils")
    if not hasattr(module, "DynamicSlidingWindowLayer"):
        return  # not imported, or a version whose caches have no layers
    _register(
        module.DynamicCache,
        _states,
        lambda states, of: _cache(module, [*zip(*states, of[1], strict=True)]),
    )
    _register(
        module.EncoderDecoderCache,
        lambda cache: ([getattr(cache, name) for name in _PARTS], _PARTS),
        lambda parts, _: module.EncoderDecoderCache(*parts),
    )


def _register(kind: Any, flatten: Any, unflatten: Any) -> None:
    if kind in pytree.SUPPORTED_NODES:
        return

    def flatten_with_keys(cache: Any) -> Any:
        values, context = flatten(cache)
        names = context if context is _PARTS else context[0]
        return [*zip(map(pytree.MappingKey, names), values, strict=True)], context

    name = f"{kind.__module__}.{kind.__name__}"
    pytree.register_pytree_node(
        kind,
        flatten,
        unflatten,
        serialized_type_name=name,
        flatten_with_keys_fn=flatten_with_keys,
    )
    torch.fx._pytree.register_pytree_flatten_spec(kind, lambda cache, _: flatten(cache)[0])


def _states(cache: Any) -> tuple[list[Any], list[Any]]:
    """Keys and values of each layer, and [names, sliding windows], as transformers has it."""
    layers = [layer for layer in cache.layers if layer.keys is not None]
    windows = [getattr(layer, "sliding_window", None) for layer in layers]
    return [[x.keys for x in layers], [x.values for x in layers]], [_TENSORS, windows]


def _cache(module: Any, states: list[tuple[Any, Any, int | None]]) -> Any:
    cache = module.DynamicCache()
    for keys, values, window in states:
        with _disable_current_modes():  # a layer with a window has a tensor of it
            layer = module.DynamicSlidingWindowLayer(window) if window else module.DynamicLayer()
        layer.keys, layer.values, layer.is_initialized = keys, values, True
        if isinstance(keys, torch.Tensor):
            layer.device, layer.dtype = keys.device, keys.dtype
            if window:
                layer.cumulative_length = keys.shape[-2]
        cache.layers.append(layer)
    return cache
