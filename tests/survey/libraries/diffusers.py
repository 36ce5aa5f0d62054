"""`diffusers`: denoisers and autoencoders, tiny, and steps of its schedulers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.survey.libraries.recipe import Models, Recipe, image, noise


def _model(
    name: str, args: tuple[Any, ...] = (), kwargs: Any = None, **config: Any
) -> Callable[[], Recipe]:
    def make() -> Recipe:
        import diffusers

        return Recipe(getattr(diffusers, name)(**config).eval(), args, kwargs or {})

    return make


class _Step(nn.Module):
    """One step of sampling, the denoiser's prediction given."""

    def __init__(self, scheduler: Any, index: int) -> None:
        super().__init__()
        self.scheduler, self.index = scheduler, index
        scheduler.set_timesteps(8)
        self.time = scheduler.timesteps[index].item()

    def forward(self, predicted: torch.Tensor, sample: torch.Tensor) -> torch.Tensor:
        # Else they look for the time among all, which torch.export refuses.
        self.scheduler._step_index = self.index
        found: torch.Tensor = self.scheduler.step(predicted, self.time, sample, return_dict=False)[
            0
        ]
        return found


def _step(name: str, **options: Any) -> Callable[[], Recipe]:
    def make() -> Recipe:
        import diffusers

        scheduler = getattr(diffusers, name)(**options)
        return Recipe(_Step(scheduler, 3), (noise(1, 4, 8, 8), noise(1, 4, 8, 8)))

    return make


_LATENT, _TEXT, _TIME = noise(1, 4, 16, 16), noise(1, 7, 32), torch.tensor([10])
_BLOCKS = {
    "block_out_channels": (32, 64),
    "layers_per_block": 1,
    "norm_num_groups": 8,
}

MODELS: Models = {
    "UNet2DModel": _model(
        "UNet2DModel",
        (image(1, 3, 16, 16), _TIME),
        sample_size=16,
        **_BLOCKS,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=8,
    ),
    "UNet2DConditionModel": _model(
        "UNet2DConditionModel",
        (_LATENT, _TIME, _TEXT),
        sample_size=16,
        **_BLOCKS,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=8,
    ),
    "UNet2DConditionModel_xl": _model(
        "UNet2DConditionModel",
        (_LATENT, _TIME, _TEXT),
        {"added_cond_kwargs": {"text_embeds": noise(1, 32), "time_ids": image(1, 6)}},
        sample_size=16,
        **_BLOCKS,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=(2, 4),
        cross_attention_dim=32,
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=80,
        transformer_layers_per_block=(1, 2),
    ),
    "ControlNetModel": _model(
        "ControlNetModel",
        (_LATENT, _TIME, _TEXT, image(1, 3, 128, 128)),
        **_BLOCKS,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=8,
        conditioning_embedding_out_channels=(16, 32, 96, 256),
    ),
    "AutoencoderKL": _model(
        "AutoencoderKL",
        (image(1, 3, 32, 32),),
        **_BLOCKS,
        latent_channels=4,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    ),
    "AutoencoderTiny": _model(
        "AutoencoderTiny",
        (image(1, 3, 32, 32),),
        encoder_block_out_channels=(32, 32),
        decoder_block_out_channels=(32, 32),
        num_encoder_blocks=(1, 2),
        num_decoder_blocks=(2, 1),
    ),
    "VQModel": _model(
        "VQModel",
        (image(1, 3, 32, 32),),
        **_BLOCKS,
        latent_channels=3,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    ),
    "DiTTransformer2DModel": _model(
        "DiTTransformer2DModel",
        (noise(1, 4, 8, 8), _TIME, torch.tensor([3])),
        sample_size=8,
        num_layers=2,
        num_attention_heads=2,
        attention_head_dim=16,
        in_channels=4,
        out_channels=8,
        num_embeds_ada_norm=20,
        patch_size=2,
    ),
    "PixArtTransformer2DModel": _model(
        "PixArtTransformer2DModel",
        (noise(1, 4, 8, 8),),
        {
            "encoder_hidden_states": noise(1, 7, 32),
            "timestep": _TIME,
            "added_cond_kwargs": {"resolution": None, "aspect_ratio": None},
        },
        sample_size=8,
        num_layers=2,
        num_attention_heads=2,
        attention_head_dim=16,
        in_channels=4,
        out_channels=8,
        cross_attention_dim=32,
        caption_channels=32,
        use_additional_conditions=False,
    ),
    "SD3Transformer2DModel": _model(
        "SD3Transformer2DModel",
        (noise(1, 4, 16, 16), noise(1, 7, 32), noise(1, 64), _TIME),
        sample_size=16,
        patch_size=1,
        in_channels=4,
        num_layers=2,
        attention_head_dim=8,
        num_attention_heads=4,
        joint_attention_dim=32,
        caption_projection_dim=32,
        pooled_projection_dim=64,
        out_channels=4,
    ),
    "FluxTransformer2DModel": _model(
        "FluxTransformer2DModel",
        (),
        {
            "hidden_states": noise(1, 16, 4),
            "encoder_hidden_states": noise(1, 7, 32),
            "pooled_projections": noise(1, 32),
            "timestep": torch.tensor([1.0]),
            "img_ids": image(16, 3),
            "txt_ids": image(7, 3),
        },
        patch_size=1,
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=32,
        axes_dims_rope=(4, 4, 8),
    ),
    "AuraFlowTransformer2DModel": _model(
        "AuraFlowTransformer2DModel",
        (),
        {
            "hidden_states": noise(1, 4, 16, 16),
            "encoder_hidden_states": noise(1, 7, 32),
            "timestep": torch.tensor([0.5]),
        },
        sample_size=16,
        patch_size=2,
        in_channels=4,
        num_mmdit_layers=1,
        num_single_dit_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        caption_projection_dim=32,
        joint_attention_dim=32,
        out_channels=4,
        pos_embed_max_size=64,
    ),
    "UNet1DModel": _model(
        "UNet1DModel",
        (noise(1, 14, 16), _TIME),
        block_out_channels=(8, 8),
        in_channels=14,
        out_channels=14,
        time_embedding_type="positional",
        use_timestep_embedding=True,
        flip_sin_to_cos=False,
        freq_shift=1.0,
        out_block_type="OutConv1DBlock",
        mid_block_type="MidResTemporalBlock1D",
        down_block_types=("DownResnetBlock1D", "DownResnetBlock1D"),
        up_block_types=("UpResnetBlock1D",),
        act_fn="swish",
    ),
    "UNet3DConditionModel": _model(
        "UNet3DConditionModel",
        (noise(1, 4, 4, 16, 16), _TIME, _TEXT),
        sample_size=16,
        **_BLOCKS,
        down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"),
        up_block_types=("UpBlock3D", "CrossAttnUpBlock3D"),
        cross_attention_dim=32,
        attention_head_dim=8,
    ),
    "DDIM": _step("DDIMScheduler"),
    "FlowMatchEuler": _step("FlowMatchEulerDiscreteScheduler"),
    "DPMSolverMultistep": _step("DPMSolverMultistepScheduler"),
    "UniPC": _step("UniPCMultistepScheduler"),
    "LMSDiscrete": _step("LMSDiscreteScheduler"),
    "PNDM": _step("PNDMScheduler"),
}
