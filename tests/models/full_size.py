"""Other people's models at full size, with random weights.

    sample = FULL_SIZE["resnet50"]
    sample.module()(*sample.inputs(0))

Of `transformers`, `torchvision`, `timm`, `monai`, `segmentation_models_pytorch` and `diffusers`:
@transformers//transformers and @model_libraries//..., or what the machine has. A model imports its
own library alone.
"""

import importlib
import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import nn

from tests.models.sample import Sample, randint, randn


def library(name: str) -> ModuleType:
    """The package of that name.

    Others import torchvision, too, if it is there. Its operators need torch's CUDA build; without
    these it is imported if two of them are known by name.
    """
    if importlib.util.find_spec("torchvision"):
        try:
            importlib.import_module("torchvision")
        except RuntimeError:
            for operator in ("nms", "qnms"):
                torch.library.define(
                    f"torchvision::{operator}", "(Tensor a, Tensor b, float c) -> Tensor"
                )
    return importlib.import_module(name)


class Output(nn.Module):
    """One output of a model of `transformers`; `build` is given that package."""

    def __init__(self, name: str, build: Callable[[Any], nn.Module]) -> None:
        super().__init__()
        self.name, self.model = name, build(library("transformers"))

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


def _images(seed: int) -> torch.Tensor:
    return randn(seed, 4, 3, 224, 224)


def calibrated(module: nn.Module, inputs: Callable[[int], torch.Tensor] = _images) -> nn.Module:
    """`module` with weights of trained size, and statistics of its batch norms from such inputs.
    With the weights that EfficientNet begins with, nothing is left at its end.
    """
    for conv in module.modules():
        if isinstance(conv, (nn.Conv2d, nn.Conv3d)):
            nn.init.kaiming_normal_(conv.weight)
    norms = [m for m in module.modules() if isinstance(m, (nn.BatchNorm2d, nn.BatchNorm3d))]
    module.eval()
    for norm in norms:
        norm.reset_parameters()
        norm.momentum = None  # the average over all calls
        norm.train()
    with torch.no_grad():
        for seed in range(4):
            module(inputs(1000 + seed))
    return module.eval()


class LlamaStep(nn.Module):
    """One token with a cache: `past` and the results after the logits are keys and values of all
    layers in turn, [1, heads, time, width of a head]."""

    heads, layers, width = 12, 12, 768

    def __init__(self) -> None:
        super().__init__()
        transformers = library("transformers")
        self.model = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
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


def _net(name: str, build: Callable[[], nn.Module], *sizes: int) -> Sample:
    """A network of convolutions for one input, calibrated with batches of two."""
    return Sample(
        name,
        lambda: calibrated(build(), lambda seed: randn(seed, 2, *sizes)),
        lambda seed: (randn(seed, 1, *sizes),),
    )


def _torchvision(name: str, *sizes: int) -> Sample:
    return _net(name, lambda: library("torchvision").models.get_model(name, weights=None), *sizes)


def _timm(name: str, size: int) -> Sample:
    return _net(name, lambda: library("timm").create_model(name), 3, size, size)


def _monai(name: str, size: int, network: str, **options: Any) -> Sample:
    def build() -> nn.Module:
        net: nn.Module = getattr(library("monai.networks.nets"), network)(**options)
        return net

    return _net(name, build, 1, size, size, size)


def _segmentation(name: str, network: str, encoder: str) -> Sample:
    def build() -> nn.Module:
        networks = library("segmentation_models_pytorch")
        net: nn.Module = getattr(networks, network)(encoder, encoder_weights=None, classes=3)
        return net

    return _net(name, build, 3, 256, 256)


class _Denoiser(nn.Module):
    """A U-Net of `diffusers` with attention; `x` is [1, 4, 32, 32], at step 500."""

    def __init__(self) -> None:
        super().__init__()
        self.model = library("diffusers").UNet2DConditionModel(
            sample_size=32,
            block_out_channels=(128, 256, 256),
            down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
            layers_per_block=1,
            cross_attention_dim=256,
        )

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        (denoised,) = self.model(x, torch.tensor(500), text, return_dict=False)
        return denoised


class _Decoder(nn.Module):
    """The decoder of an autoencoder of `diffusers`; `x` is [1, 4, 16, 16], the image 128 x 128."""

    def __init__(self) -> None:
        super().__init__()
        self.model = library("diffusers").AutoencoderKL(
            block_out_channels=(32, 64, 128, 128),
            down_block_types=("DownEncoderBlock2D",) * 4,
            up_block_types=("UpDecoderBlock2D",) * 4,
            latent_channels=4,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        (image,) = self.model.decode(x, return_dict=False)
        return image


class _Lstm(nn.Module):
    """Two layers in both directions; `x` is [1, 100, 128]."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(128, 128, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(x)[0]


def _encoder(model: str, config: str, **options: Any) -> Callable[[], nn.Module]:
    """An encoder of `transformers`."""

    def build(transformers: Any) -> nn.Module:
        configured = getattr(transformers, f"{config}Config")(**options)
        built: nn.Module = getattr(transformers, model)(configured)
        return built.get_encoder() if model == "WhisperModel" else built

    return lambda: Output("last_hidden_state", build)


_WHISPER_TINY = {
    "d_model": 384,
    "encoder_layers": 4,
    "decoder_layers": 4,
    "encoder_attention_heads": 6,
    "decoder_attention_heads": 6,
    "encoder_ffn_dim": 1536,
    "decoder_ffn_dim": 1536,
}

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
        Sample(
            "t5_small_encoder_128",
            _encoder("T5EncoderModel", "T5"),
            lambda seed: (randint(seed, 32000, 1, 128),),
        ),
        Sample(
            "distilbert_8x32",
            _encoder("DistilBertModel", "DistilBert"),
            lambda seed: (randint(seed, 30000, 8, 32),),
        ),
        Sample(
            "whisper_tiny_encoder",
            _encoder("WhisperModel", "Whisper", **_WHISPER_TINY),
            lambda seed: (randn(seed, 1, 80, 3000),),
        ),
        _torchvision("densenet121", 3, 224, 224),
        _torchvision("mobilenet_v3_large", 3, 224, 224),
        _torchvision("regnet_y_400mf", 3, 224, 224),
        _torchvision("r3d_18", 3, 16, 64, 64),
        _torchvision("mc3_18", 3, 16, 64, 64),
        _timm("mobilenetv4_conv_small", 224),
        _timm("efficientnetv2_s", 288),
        _timm("fastvit_t8", 256),
        _monai("vnet", 32, "VNet"),
        _monai(
            "unet_3d",
            64,
            "UNet",
            spatial_dims=3,
            in_channels=1,
            out_channels=2,
            channels=(16, 32, 64, 128),
            strides=(2, 2, 2),
            num_res_units=2,
        ),
        _segmentation("unet_resnet18", "Unet", "resnet18"),
        _segmentation("deeplabv3plus_mobilenet_v2", "DeepLabV3Plus", "mobilenet_v2"),
        Sample(
            "diffusion_unet",
            _Denoiser,
            lambda seed: (randn(seed, 1, 4, 32, 32), randn(seed + 1, 1, 77, 256)),
        ),
        Sample("diffusion_decoder", _Decoder, lambda seed: (randn(seed, 1, 4, 16, 16),)),
        Sample("bidirectional_lstm", _Lstm, lambda seed: (randn(seed, 1, 100, 128),)),
    )
}
