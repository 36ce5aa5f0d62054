"""Example inputs for a model of `transformers`, by the names of its parameters."""

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from tests.survey.shrink import TOKENS, VOCABULARY

Inputs = dict[str, Any]


_OPTIONAL = ("input_ids", "pixel_values", "input_features", "input_values")


def inputs_of(module: nn.Module) -> Iterator[Inputs]:
    """Inputs to try, one set after the other."""
    signature = inspect.signature(module.forward).parameters
    names = [
        name
        for name, parameter in signature.items()
        if parameter.default is parameter.empty
        and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    main = getattr(module, "main_input_name", "input_ids")
    if main in signature and main not in names:
        names.insert(0, main)
    if getattr(module.config, "is_encoder_decoder", False) and "decoder_input_ids" in signature:
        names.append("decoder_input_ids")
    if "bbox" in signature and "bbox" not in names:
        names.append("bbox")
    make = _Maker(module.config)
    if "input_ids" in signature and "pixel_values" in signature:
        with contextlib.suppress(Exception):
            yield _with_image(module, make)
    more = list(dict.fromkeys([*names, *(name for name in _OPTIONAL if name in signature)]))
    for chosen in (names, more):
        for variant in range(3):
            yield {name: make(name, variant) for name in chosen}


def _with_image(module: Any, make: "_Maker") -> Inputs:
    """Text with a place for each feature of an image; raises for models of another kind."""
    token = make.find("image_token_id", "image_token_index")
    if not isinstance(token, int):
        raise ValueError("the model has no token for images")
    patch, merged = make.find("patch_size"), make.find("temporal_patch_size")
    image: Inputs = {"pixel_values": make("pixel_values", 0)}
    if "image_grid_thw" in inspect.signature(module.forward).parameters:
        width = 3 * patch * patch * (merged or 1)
        image = {"pixel_values": make.randn(16, width), "image_grid_thw": torch.tensor([[1, 4, 4]])}
    elif _needs(module.get_image_features, "image_sizes"):
        image["image_sizes"] = torch.tensor([image["pixel_values"].shape[-2:]])
    with torch.no_grad():
        features = module.get_image_features(**image)
    features = getattr(features, "pooler_output", features)
    rows = sum(x.numel() // x.shape[-1] for x in pytree.tree_leaves(features))
    text = make("input_ids", 0)
    places = torch.full((1, rows), token)
    inputs = {"input_ids": torch.cat([text[:, :4], places, text[:, 4:]], 1), **image}
    if "mm_token_type_ids" in inspect.signature(module.forward).parameters:
        inputs["mm_token_type_ids"] = (inputs["input_ids"] == token).long()
    return inputs


def _needs(function: Any, name: str) -> bool:
    """Whether a parameter has no default."""
    parameters = inspect.signature(function).parameters
    return name in parameters and parameters[name].default is inspect.Parameter.empty


class _Maker:
    def __init__(self, config: Any) -> None:
        self._config = config
        self._generator = torch.Generator().manual_seed(0)

    def __call__(self, name: str, variant: int) -> Any:
        self._generator.manual_seed(0)
        if name == "bbox":
            return (
                torch.randint(0, 50, (1, TOKENS, 2), generator=self._generator)
                .repeat(1, 1, 2)
                .sort(-1)
                .values
            )
        if name.endswith("attention_mask"):
            return torch.ones(1, TOKENS, dtype=torch.int64)
        if name.endswith("ids"):
            return torch.randint(3, VOCABULARY // 2, (1, TOKENS), generator=self._generator)
        if name.startswith("pixel"):
            return self._image(variant)
        if name == "input_values":
            length, bins = self.find("max_length") or 100, self.find("num_mel_bins") or 80
            return self.randn(1, *[(4000,), (1, 4000), (length, bins)][variant])
        if name == "past_values":
            return self.randn(1, self.find("context_length"), self.find("num_input_channels"))
        if name == "inputs_embeds":
            return self.randn(1, TOKENS, self.find("hidden_size"))
        if name == "input_features":
            mel = (
                self.find(
                    "num_mel_bins", "feature_size", "input_feat_per_channel", "input_feat_size"
                )
                or 80
            )
            frames = 2 * (self.find("max_source_positions") or 50)
            return [
                self.randn(1, mel, frames),
                self.randn(1, 100, mel),
                self.randn(1, 100, 2 * mel),
            ][variant]
        raise ValueError(f"no example for {name}")

    def _image(self, variant: int) -> torch.Tensor:
        channels = self.find("num_channels", "in_channels", "in_chans") or 3
        size = self.find("image_size", "img_size") or 64
        height, width = (size, size) if isinstance(size, int) else size
        if variant == 1:
            return self.randn(1, self.find("num_frames") or 4, channels, height, width)
        if variant == 2:
            return self.randn(1, 3, 64, 64)
        return self.randn(1, channels, height, width)

    def find(self, *names: str) -> Any:
        """The first of the fields that the configuration, or one inside it, has."""
        for name in names:
            value = getattr(self._config, name, None)
            if value is not None:
                return value
        for part in getattr(self._config, "sub_configs", ()):
            inner = getattr(self._config, part, None)
            if inner is not None:
                value = _Maker(inner).find(*names)
                if value is not None:
                    return value
        return None

    def randn(self, *sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, generator=self._generator)
