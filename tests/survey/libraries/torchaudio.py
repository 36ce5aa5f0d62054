"""`torchaudio`: its models and transforms."""

from collections.abc import Callable
from typing import Any

import torch

from tests.survey.libraries.recipe import Models, Recipe, noise


def _model(name: str, *args: Any, **options: Any) -> Callable[[], Recipe]:
    def make() -> Recipe:
        import torchaudio

        return Recipe(getattr(torchaudio.models, name)(**options).eval(), args)

    return make


def _transform(name: str, *args: Any, **options: Any) -> Callable[[], Recipe]:
    def make() -> Recipe:
        import torchaudio

        return Recipe(getattr(torchaudio.transforms, name)(**options).eval(), args)

    return make


def _tacotron() -> Recipe:
    import torchaudio

    module = torchaudio.models.Tacotron2(n_symbol=20, n_mels=20)
    tokens, lengths = torch.arange(12).remainder(20)[None], torch.tensor([12])
    return Recipe(module.eval(), (tokens, lengths, noise(1, 20, 16), torch.tensor([16])))


def _wav2vec2() -> Recipe:
    import torchaudio

    module = torchaudio.models.wav2vec2_model(
        extractor_mode="group_norm",
        extractor_conv_layer_config=[(32, 10, 5), (32, 3, 2)],
        extractor_conv_bias=False,
        encoder_embed_dim=64,
        encoder_projection_dropout=0.0,
        encoder_pos_conv_kernel=16,
        encoder_pos_conv_groups=4,
        encoder_num_layers=2,
        encoder_num_heads=4,
        encoder_attention_dropout=0.0,
        encoder_ff_interm_features=128,
        encoder_ff_interm_dropout=0.0,
        encoder_dropout=0.0,
        encoder_layer_norm_first=False,
        encoder_layer_drop=0.0,
        aux_num_out=20,
    )
    return Recipe(module.eval(), (noise(1, 4000),))


def _squim() -> Recipe:
    import torchaudio

    module = torchaudio.models.squim_objective_model(
        feat_dim=32,
        win_len=64,
        d_model=32,
        nhead=4,
        hidden_dim=32,
        num_blocks=2,
        rnn_type="LSTM",
        chunk_size=20,
    )
    return Recipe(module.eval(), (noise(1, 4000),))


_LENGTHS = torch.tensor([40])

MODELS: Models = {
    "Conformer": _model(
        "Conformer",
        noise(1, 40, 32),
        _LENGTHS,
        input_dim=32,
        num_heads=4,
        ffn_dim=64,
        num_layers=2,
        depthwise_conv_kernel_size=7,
    ),
    "ConvTasNet": _model("ConvTasNet", noise(1, 1, 4000), enc_num_feats=64, msk_num_layers=3),
    "DeepSpeech": _model("DeepSpeech", noise(1, 1, 40, 32), n_feature=32, n_hidden=64, n_class=20),
    "Emformer": _model(
        "Emformer",
        noise(1, 42, 32),
        _LENGTHS,
        input_dim=32,
        num_heads=4,
        ffn_dim=64,
        num_layers=2,
        segment_length=4,
        left_context_length=8,
        right_context_length=2,
    ),
    "HDemucs": _model(
        "HDemucs",
        noise(1, 2, 16384),
        sources=["a", "b"],
        channels=8,
    ),
    "SquimObjective": _squim,
    "Tacotron2": _tacotron,
    "Wav2Letter": _model("Wav2Letter", noise(1, 1, 4000), num_classes=20, num_features=1),
    "Wav2Vec2": _wav2vec2,
    "WaveRNN": _model(
        "WaveRNN",
        noise(1, 1, 16 * 4),
        noise(1, 1, 20, 20),
        upsample_scales=[2, 2, 1],
        n_classes=16,
        hop_length=4,
        n_res_block=2,
        n_rnn=32,
        n_fc=32,
        kernel_size=5,
        n_freq=20,
        n_hidden=16,
        n_output=16,
    ),
    "Spectrogram": _transform("Spectrogram", noise(1, 4000)),
    "ComplexSpectrogram": _transform("Spectrogram", noise(1, 4000), power=None),
    "MelSpectrogram": _transform("MelSpectrogram", noise(1, 4000), n_mels=40),
    "MFCC": _transform("MFCC", noise(1, 4000), melkwargs={"n_mels": 40}),
    "LFCC": _transform("LFCC", noise(1, 4000)),
    "GriffinLim": _transform(
        "GriffinLim",
        noise(1, 201, 20).abs(),
        n_iter=4,
        rand_init=False,
    ),
    "Resample": _transform("Resample", noise(1, 4000), orig_freq=16000, new_freq=8000),
    "AmplitudeToDB": _transform("AmplitudeToDB", noise(1, 4000).abs()),
    "MuLawEncoding": _transform("MuLawEncoding", noise(1, 4000).tanh()),
    "PSD": _transform("PSD", torch.complex(noise(3, 20, 30), noise(2, 3, 20, 30)[1])),
}
