"""Example inputs for a model of `transformers`, by the names of its parameters."""

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from tests.survey.shrink import TOKENS, VOCABULARY

Inputs = dict[str, Any]


def inputs_of(module: nn.Module) -> Iterator[Inputs]:
    """Inputs to try, one set after the other."""
    signature = inspect.signature(module.forward).parameters
    required = [
        name
        for name, parameter in signature.items()
        if parameter.default is parameter.empty
        and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    main = getattr(module, "main_input_name", "input_ids")
    names = dict.fromkeys([*([main] if main in signature else []), *required])
    if getattr(module.config, "is_encoder_decoder", False) and "decoder_input_ids" in signature:
        names["decoder_input_ids"] = None
    make = _Maker(module.config)
    both = [
        n for n in ("input_ids", "pixel_values", "input_features", "input_values") if n in signature
    ]
    for chosen in (list(names), list(dict.fromkeys([*names, *both]))):
        for variant in range(3):
            yield {name: make(name, variant) for name in chosen}


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
            return self._randn(1, 4000) if variant < 2 else self._randn(1, 1, 4000)
        if name == "input_features":
            mel = (
                self._find(
                    "num_mel_bins", "feature_size", "input_feat_per_channel", "input_feat_size"
                )
                or 80
            )
            frames = 2 * (self._find("max_source_positions") or 50)
            return [
                self._randn(1, mel, frames),
                self._randn(1, 100, mel),
                self._randn(1, 100, 2 * mel),
            ][variant]
        raise ValueError(f"no example for {name}")

    def _image(self, variant: int) -> torch.Tensor:
        channels = self._find("num_channels", "in_channels", "in_chans") or 3
        size = self._find("image_size", "img_size") or 64
        height, width = (size, size) if isinstance(size, int) else size
        if variant == 1:
            return self._randn(1, self._find("num_frames") or 4, channels, height, width)
        if variant == 2:
            return self._randn(1, 3, 64, 64)
        return self._randn(1, channels, height, width)

    def _find(self, *names: str) -> Any:
        """The first of the fields that the configuration, or one inside it, has."""
        for name in names:
            value = getattr(self._config, name, None)
            if value is not None:
                return value
        for part in getattr(self._config, "sub_configs", ()):
            inner = getattr(self._config, part, None)
            if inner is not None:
                value = _Maker(inner)._find(*names)
                if value is not None:
                    return value
        return None

    def _randn(self, *sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, generator=self._generator)
