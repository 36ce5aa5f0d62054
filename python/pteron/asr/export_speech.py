"""Lowers a Whisper checkpoint of `transformers` to a program that transcribes speech.

pteron.asr.export("folder", "model.pte", quantize="int8")
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from pteron.exir.config import ExecutorchBackendConfig
from pteron.exporter import ExportError, ExportReport, check_path, partitioners_of
from pteron.exporter import export as export_methods
from pteron.exporter.backends import Backends
from pteron.llm.export_checkpoint import (
    QUANTIZE,
    load_checkpoint,
    options_for,
    quantize_linear,
    read_text,
    tokenizer_of,
)


def export(
    folder: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    backend: Backends = "cpu",
    quantize: str = "none",
    dtype: str = "auto",
    options: Mapping[str, Any] | None = None,
    verify: bool = True,
    on_stage: Callable[[str], object] = lambda stage: None,
) -> ExportReport:
    """Writes a program that `pteron.asr.Transcriber` runs.

    Its methods are those of `SpeechModel`; `prefill` is `decode` for several tokens. Constant
    methods: get_sampling_rate, get_fft_size, get_hop_length and get_window_frames of the audio;
    get_max_context_len, get_vocab_size, get_eos_ids, get_timestamp_begin and tokenizer of the text;
    prompt (token ids before the text, -1 for the language's), languages and tasks (token ids by
    name).

    Args:
      folder: config.json, generation_config.json, preprocessor_config.json, *.safetensors and
        tokenizer.json, as save_pretrained() of model and processor write them. Nothing is
        downloaded, and no code in the folder is run.
      path: the program file, `*.pte`.
      backend, quantize, dtype, options, verify, on_stage: as of `pteron.llm.export`.

    Raises:
      ExportError: what was given cannot be exported; nothing was written.
      VerificationError, OSError: as of `pteron.export`.
    """
    check_path(path)
    if quantize not in QUANTIZE:
        raise ExportError(f"quantize: found {quantize!r}; expected one of {', '.join(QUANTIZE)}")
    options = options_for(quantize, backend, options)
    partitioners_of(backend, options)  # raises early
    source = Path(folder)
    kind = json.loads(read_text(source, "config.json")).get("model_type")
    if kind != "whisper":
        raise ExportError(f"{str(folder)!r} has a model of type {kind!r}; expected 'whisper'")
    tokenizer = tokenizer_of(source)
    extractor = _extractor(source)
    on_stage("load the checkpoint")
    model = load_checkpoint(source, dtype, backend, "WhisperForConditionalGeneration")
    if quantize != "none":
        quantize_linear(model, quantize)
    try:
        constants = _text_constants(model)  # raises early, too
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ExportError(
            f"generation_config.json of {str(folder)!r} is not of a Whisper model"
            f" ({type(error).__name__}: {error})"
        ) from error
    return export_methods(
        _methods(model, extractor),
        path=path,
        constant_methods={
            "get_sampling_rate": extractor.sampling_rate,
            "get_fft_size": extractor.n_fft,
            "get_hop_length": extractor.hop_length,
            "get_window_frames": 2 * model.config.max_source_positions,
            "tokenizer": tokenizer,
            **constants,
        },
        backend=backend,
        options=options,
        config=ExecutorchBackendConfig(verify="example" if verify else False),
        on_stage=on_stage,
    )


def _extractor(folder: Path) -> Any:
    import transformers

    try:
        extractor = transformers.WhisperFeatureExtractor.from_pretrained(
            folder, local_files_only=True
        )
    except Exception as error:
        raise ExportError(
            f"transformers cannot load the feature extractor of {str(folder)!r}: {error}\n"
            "try:  WhisperFeatureExtractor.save_pretrained(folder)"
        ) from error
    if extractor.dither or getattr(extractor, "do_normalize", False):
        raise ExportError("the feature extractor has dither or do_normalize; expected neither")
    return extractor


def _text_constants(model: Any) -> dict[str, Any]:
    from transformers.models.whisper.tokenization_whisper import TO_LANGUAGE_CODE

    rules, config = model.generation_config, model.config
    if rules.eos_token_id is None or rules.decoder_start_token_id is None:
        raise ExportError(
            "generation_config.json has no eos_token_id or decoder_start_token_id; expected those"
            " of a Whisper model"
        )
    codes = {
        token.strip("<|>"): id for token, id in (getattr(rules, "lang_to_id", None) or {}).items()
    }
    names = {name: codes[code] for name, code in TO_LANGUAGE_CODE.items() if code in codes}
    no_times = getattr(rules, "no_timestamps_token_id", config.vocab_size)
    prompt = [rules.decoder_start_token_id]
    for _, token in getattr(rules, "forced_decoder_ids", None) or ():
        prompt.append(-1 if token is None else token)
    if codes and len(prompt) == 1:
        prompt.append(-1)
    languages, tasks = {**codes, **names}, dict(getattr(rules, "task_to_id", None) or {})
    language, task = getattr(rules, "language", None), getattr(rules, "task", None)
    if codes and (language or task):
        name = language.strip("<|>").lower() if language else None
        if (name and name not in languages) or (task or "transcribe") not in tasks:
            raise ExportError(
                f"generation_config.json has language {language!r} and task {task!r}; expected ones"
                f" that it has ids for: {', '.join([*languages, *tasks])}"
            )
        prompt = [prompt[0], languages[name] if name else -1, tasks[task or "transcribe"]]
    return {
        "get_max_context_len": config.max_target_positions,
        "get_vocab_size": config.vocab_size,
        "get_eos_ids": [rules.eos_token_id],
        "get_timestamp_begin": no_times + 1,
        "prompt": [token for token in prompt if token != no_times],
        "languages": languages,
        "tasks": tasks if codes else {},
    }


def _methods(model: Any, extractor: Any) -> dict[str, Any]:
    """Methods with example inputs, as `pteron.export` takes them."""
    from pteron.asr.speech_model import SpeechModel

    speech = SpeechModel(model, extractor).eval()
    device, frames = model.device, 2 * model.config.max_source_positions
    count = (frames - 1) * extractor.hop_length + extractor.n_fft
    samples = torch.randn(1, count, generator=torch.Generator().manual_seed(0)).to(device)
    features = speech.features(samples)["features"]
    one = torch.ones(1, dtype=torch.int64, device=device)
    start = model.generation_config.decoder_start_token_id
    tokens = torch.full((1, 3), start, dtype=torch.int64, device=device)
    dim = torch.export.Dim("time", min=2, max=model.config.max_target_positions // 2)
    return {
        "features": (speech.features, (samples,)),
        "encode": (speech.encode, (features, features.amax((1, 2)), one * frames)),
        "prefill": (
            speech.decode,
            (tokens, one * 0, one * 3, one),
            ({1: dim}, None, None, None),
        ),
        "decode": (speech.decode, (tokens[:, :1], one * 3, one * 3, one)),
    }
