"""Other people's models at full size: `transformers` configurations with random weights.

    sample = FULL_SIZE["resnet50"]
    sample.module()(*sample.inputs(0))

Needs `transformers`: @transformers//transformers, or what the machine has.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.models.sample import Sample, randint, randn


class Output(nn.Module):
    """One output of a model of `transformers`; `build` is given that package."""

    def __init__(self, name: str, build: Callable[[Any], nn.Module]) -> None:
        super().__init__()
        import transformers

        self.name, self.model = name, build(transformers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = getattr(self.model(x), self.name)
        return output


def logits(model: str, **config: Any) -> nn.Module:
    """An image classifier of 1000 classes, as ResNetForImageClassification for "ResNet"."""

    def build(transformers: Any) -> nn.Module:
        configured = getattr(transformers, f"{model}Config")(num_labels=1000, **config)
        built: nn.Module = getattr(transformers, f"{model}ForImageClassification")(configured)
        return built

    return Output("logits", build)


def bert() -> nn.Module:
    """BERT-base."""
    return Output(
        "last_hidden_state", lambda t: t.BertModel(t.BertConfig(), add_pooling_layer=False)
    )


def calibrated(module: nn.Module) -> nn.Module:
    """`module` with weights of trained size, and statistics of its batch norms from images as
    `_image` makes them. With the weights that EfficientNet begins with, nothing is left at its end.
    """
    for conv in module.modules():
        if isinstance(conv, nn.Conv2d):
            nn.init.kaiming_normal_(conv.weight)
    norms = [m for m in module.modules() if isinstance(m, nn.BatchNorm2d)]
    module.eval()
    for norm in norms:
        norm.reset_parameters()
        norm.momentum = None  # the average over all calls
        norm.train()
    with torch.no_grad():
        for seed in range(4):
            module(randn(1000 + seed, 4, 3, 224, 224))
    return module.eval()


class LlamaStep(nn.Module):
    """One token with a cache: `past` and the results after the logits are keys and values of all
    layers in turn, [1, heads, time, width of a head]."""

    heads, layers, width = 12, 12, 768

    def __init__(self) -> None:
        super().__init__()
        from transformers import LlamaConfig, LlamaForCausalLM

        self.model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=32000,
                hidden_size=self.width,
                intermediate_size=4 * self.width,
                num_hidden_layers=self.layers,
                num_attention_heads=self.heads,
            )
        )

    def forward(self, ids: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        from transformers import DynamicCache

        cache = DynamicCache()
        for layer in range(self.layers):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        logits = self.model(ids, past_key_values=cache, use_cache=True).logits
        return logits, *(t for layer in cache.layers for t in (layer.keys, layer.values))

    @classmethod
    def inputs(cls, seed: int) -> tuple[torch.Tensor, ...]:
        """After 127 tokens."""
        sizes = 1, cls.heads, 127, cls.width // cls.heads
        past = (randn(seed + i, *sizes) for i in range(2 * cls.layers))
        return randint(seed, 32000, 1, 1), *past


def _wav2vec2() -> nn.Module:
    return Output("logits", lambda t: t.Wav2Vec2ForCTC(t.Wav2Vec2Config()))


def _efficientnet_b0() -> nn.Module:
    sizes = {"width_coefficient": 1.0, "depth_coefficient": 1.0, "image_size": 224}
    return logits("EfficientNet", **sizes, hidden_dim=1280)


def _image(seed: int) -> tuple[torch.Tensor]:
    return (randn(seed, 1, 3, 224, 224),)


FULL_SIZE = {
    sample.name: sample
    for sample in (
        Sample("resnet50", lambda: calibrated(logits("ResNet")), _image),
        Sample("vit_b16", lambda: logits("ViT"), _image),
        Sample("bert_base_128", bert, lambda seed: (randint(seed, 30000, 1, 128),)),
        Sample("mobilenet_v2", lambda: calibrated(logits("MobileNetV2")), _image),
        Sample("convnext_t", lambda: logits("ConvNext"), _image),
        Sample("swin_t", lambda: logits("Swin"), _image),
        Sample("wav2vec2_1s", _wav2vec2, lambda seed: (randn(seed, 1, 16000),)),
        Sample("llama_160m_step", LlamaStep, LlamaStep.inputs),
        Sample("efficientnet_b0", lambda: calibrated(_efficientnet_b0()), _image),
    )
}
