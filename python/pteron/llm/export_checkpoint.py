"""Lowers a checkpoint of `transformers` to a program that generates text.

pteron.llm.export("folder", "model.pte", quantize="int8", max_length=4096)
"""

import importlib
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
from pteron.llm.sampling import SETTINGS

QUANTIZE = ("none", "int8", "int4", "fp8")


def export(
    folder: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    backend: Backends = "cpu",
    quantize: str = "none",
    dtype: str = "auto",
    max_length: int | None = None,
    chunk: int = 512,
    batch: int = 1,
    options: Mapping[str, Any] | None = None,
    verify: bool = True,
    on_stage: Callable[[str], object] = lambda stage: None,
) -> ExportReport:
    """Writes a program that `pteron.llm.Generator` runs.

    Its methods are those of `LanguageModel`. Constant methods have ExecuTorch's names where it has
    them: get_max_seq_len (the most tokens of one call of prefill), get_max_context_len,
    get_max_batch_size, get_vocab_size, get_bos_id, get_eos_ids, use_kv_cache,
    enable_dynamic_shape; tokenizer (the text of tokenizer.json) and chat_template (a dict).

    Args:
      folder: config.json, *.safetensors and tokenizer.json, as save_pretrained() writes them.
        Nothing is downloaded, and no code in the folder is run.
      path: the program file, `*.pte`.
      backend, options: as of `pteron.export`. For "cuda" the model is moved to the GPU.
      quantize: weights of linear layers, by torchao: "int8" or "fp8" (float8_e4m3fn) with a scale
        per row, "int4" with one per 32 values; "none" keeps them.
      dtype: of weights and cache, as "float32" or "bfloat16"; "auto" is the checkpoint's.
      max_length: tokens of a text, prompt and answer, that the cache has memory for; by default
        what the model was made for, at most 2048.
      chunk: the most tokens of a prompt that are read in one call.
      batch: texts that are generated at the same time.
      verify: compare the program with the model on example inputs.
      on_stage: called with the name of each stage before it starts.

    Raises:
      ExportError: what was given cannot be exported; nothing was written.
      VerificationError, OSError: as of `pteron.export`.
    """
    check_path(path)
    for name, value, least in (("batch", batch, 1), ("chunk", chunk, 2)):
        if type(value) is not int or value < least:
            raise ExportError(f"{name}: found {value!r}; expected an integer from {least} on")
    if quantize not in QUANTIZE:
        raise ExportError(f"quantize: found {quantize!r}; expected one of {', '.join(QUANTIZE)}")
    options = options_for(quantize, backend, options)
    chosen = partitioners_of(backend, options)  # raises early
    on_cpu = all(type(partitioner).__name__ == "CpuPartitioner" for partitioner in chosen)
    source = Path(folder)
    tokenizer = tokenizer_of(source)
    read_text(source, "config.json")
    chat_template = _chat_template(source)
    on_stage("load the checkpoint")
    model = load_checkpoint(source, dtype, backend)
    options = options_for(quantize, backend, options, model.dtype)
    config = model.config.get_text_config()
    length = _length(config, max_length)
    if quantize != "none":
        quantize_linear(model, quantize)
    methods = _methods(model, batch, length, min(chunk, length), on_cpu=on_cpu)
    eos = model.generation_config.eos_token_id
    eos = config.eos_token_id if eos is None else eos
    eos = [] if eos is None else eos if isinstance(eos, list) else [eos]
    if not all(isinstance(token, int) for token in eos):
        raise ExportError(f"generation_config.json: eos_token_id is {eos}; expected ids")
    return export_methods(
        methods,
        path=path,
        constant_methods={
            "get_max_seq_len": min(chunk, length),
            "get_max_context_len": length,
            "get_max_batch_size": batch,
            "get_vocab_size": config.vocab_size,
            "get_bos_id": config.bos_token_id,
            "get_eos_ids": eos,
            "use_kv_cache": True,
            "enable_dynamic_shape": True,
            "tokenizer": tokenizer,
            "chat_template": chat_template,
        },
        backend=backend,
        options=options,
        config=ExecutorchBackendConfig(
            verify="example" if verify else False,
            skip_d2h_for_method_outputs={
                name: name in ("decode", "greedy", "start", "copy") for name in methods
            },
        ),
        on_stage=on_stage,
    )


def read_text(folder: Path, name: str) -> str:
    """A text file of the checkpoint, an object of JSON if its name says so."""
    try:
        text = (folder / name).read_text("utf-8")
        if name.endswith(".json") and not isinstance(json.loads(text), dict):
            raise ValueError("it has no object of JSON")
        return text
    except (OSError, ValueError) as error:
        found = ", ".join(sorted(p.name for p in folder.glob("*"))[:20]) or "nothing"
        raise ExportError(
            f"{str(folder)!r} has no readable {name} ({error}); found {found}.\n"
            "try:  model.save_pretrained(folder), and tokenizer.save_pretrained(folder) of a fast"
            " tokenizer"
        ) from error


def tokenizer_of(folder: Path) -> str:
    """The text of tokenizer.json, which the package tokenizers, of transformers, can read."""
    text = read_text(folder, "tokenizer.json")
    try:
        _transformers()
        importlib.import_module("tokenizers").Tokenizer.from_str(text)
    except ImportError:
        raise
    except Exception as error:
        raise ExportError(f"{str(folder / 'tokenizer.json')!r} is no tokenizer: {error}") from error
    return text


def _chat_template(folder: Path) -> dict[str, Any]:
    """The template and the special tokens that it may name; empty without one."""
    has_config = (folder / "tokenizer_config.json").exists()
    known = json.loads(read_text(folder, "tokenizer_config.json")) if has_config else {}
    try:
        template = known.get("chat_template")
        if isinstance(template, list):  # several with names
            template = {item["name"]: item["template"] for item in template}.get("default")
        if (folder / "chat_template.jinja").exists():
            template = read_text(folder, "chat_template.jinja")
        if not template:
            return {}
        tokens = {key: value for key, value in known.items() if key.endswith("_token")}
        texts = {
            key: value["content"] if isinstance(value, dict) else value
            for key, value in tokens.items()
            if isinstance(value, str | dict)
        }
        if not all(isinstance(text, str) for text in (template, *texts.values())):
            raise TypeError("a chat template or a token is no text")
    except (KeyError, TypeError) as error:
        raise ExportError(
            f"tokenizer_config.json of {str(folder)!r} is not what a tokenizer's save_pretrained()"
            f" writes ({type(error).__name__}: {error})"
        ) from error
    return {"template": template, **texts}


def _transformers() -> Any:
    try:
        return importlib.import_module("transformers")
    except ImportError as error:
        raise ImportError(
            f"pteron.llm.export needs transformers ({error}).\ntry:  pip install transformers",
            name="transformers",
        ) from error


def load_checkpoint(
    folder: Path, dtype: str, backend: Backends, auto: str = "AutoModelForCausalLM"
) -> Any:
    """A model of transformers' class `auto`, on the device that `backend` lowers it on."""
    transformers = _transformers()
    chosen = backend if isinstance(backend, list | tuple) else [backend]
    if dtype != "auto" and not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise ExportError(f"dtype: found {dtype!r}; expected auto, float32, bfloat16 or float16")
    if (folder / "generation_config.json").exists():
        read_text(folder, "generation_config.json")  # which transformers passes over if damaged
    logging = transformers.utils.logging
    shows = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model, found = getattr(transformers, auto).from_pretrained(
            folder,
            local_files_only=True,
            use_safetensors=True,
            dtype=dtype,
            output_loading_info=True,
        )
    except Exception as error:  # of safetensors, too
        raise ExportError(
            f"transformers {transformers.__version__} cannot load {str(folder)!r} with"
            f" {auto}: {error}"
        ) from error
    finally:
        if shows:
            logging.enable_progress_bar()
    if missing := sorted(found["missing_keys"]):
        raise ExportError(
            f"{str(folder)!r} lacks {len(missing)} weights of {type(model).__name__}, which would"
            f" be random: {', '.join(missing[:5])}\ntry:  the files and the config.json that"
            " model.save_pretrained(folder) wrote together"
        )
    quantized = getattr(model.config, "quantization_config", None)
    if quantized is not None and getattr(model, "hf_quantizer", None) is None:
        raise ExportError(
            f"{str(folder)!r} has weights that are quantized ({quantized}), which transformers"
            f" {transformers.__version__} does not know; expected weights as they were trained"
        )
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("batched_mm")  # the one without data-dependent shapes
    on_gpu = "cuda" in chosen and torch.cuda.is_available()
    return model.requires_grad_(False).to("cuda" if on_gpu else "cpu")


def _length(config: Any, max_length: int | None) -> int:
    most = getattr(config, "max_position_embeddings", None) or 1 << 31
    length = min(most, 2048) if max_length is None else max_length
    if not isinstance(length, int) or not 2 <= length <= most:
        raise ExportError(
            f"max_length: found {length!r}; expected 2 to {most}, the model's"
            f" max_position_embeddings"
        )
    return length


def options_for(
    quantize: str,
    backend: Backends,
    options: Mapping[str, Any] | None,
    dtype: torch.dtype = torch.float32,
) -> Mapping[str, Any]:
    """Options of backends for weights that are quantized or not float32, besides those given."""
    options = {} if options is None else options
    is_packed = quantize != "none" or dtype != torch.float32
    if is_packed and quantize != "fp8" and backend in ("cpu", ["cpu"]):
        # The layout of such weights is the same for all methods, and half a byte for int4. As they
        # are, the runtime's library would convert them to float32 in each call.
        options = {"cpu.weights": "packed", **options}
    return options


def quantize_linear(model: Any, kind: str) -> None:
    """Quantizes weights of linear layers, in place, by torchao."""
    try:
        from torchao import quantization
    except ImportError as error:
        raise ImportError(
            f"quantize={kind!r} needs torchao ({error}).\ntry:  pip install torchao",
            name="torchao",
        ) from error
    if kind == "int4":
        config = quantization.IntxWeightOnlyConfig(
            weight_dtype=torch.int4,  # type: ignore[attr-defined]
            granularity=quantization.PerGroup(32),
        )
    else:
        configs = {
            "int8": quantization.Int8WeightOnlyConfig,
            "fp8": quantization.Float8WeightOnlyConfig,
        }
        # Otherwise torchao changes Inductor's configuration of the whole process.
        config = configs[kind](set_inductor_config=False)
    quantization.quantize_(model, config)


def _methods(model: Any, batch: int, length: int, chunk: int, *, on_cpu: bool) -> dict[str, Any]:
    """Methods with example inputs, as `pteron.export` takes them."""
    from pteron.llm.language_model import LanguageModel

    try:
        language_model = LanguageModel(model, batch, length, decides=on_cpu).eval()
    except (TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
        raise ExportError(
            f"{type(model).__name__} does not run with a cache of keys and values alone"
            f" ({type(error).__name__}: {error})"
        ) from error
    time = min(3, chunk)
    tokens = torch.arange(time, device=model.device)[None] + 1
    zero, one = tokens[0, :1] * 0, tokens[0, :1]
    settings = [
        torch.full_like(one, value, dtype=torch.tensor(value).dtype) for value in SETTINGS.values()
    ]
    sizes: Any = {1: torch.export.Dim("time", min=2, max=chunk)} if chunk > 2 else {}
    rows = zero
    of_rows: Any = None
    if batch > 1:
        rows = torch.arange(2, device=model.device)
        of_rows = {0: torch.export.Dim("rows", min=1, max=batch)}
        sizes = of_rows | sizes
    methods: dict[str, Any] = {
        "prefill": (
            language_model.prefill,
            (tokens.repeat(len(rows), 1), rows * 0, rows * 0 + time, rows),
            (sizes or None, of_rows, of_rows, of_rows),
        ),
        "start": (
            language_model.start,
            (rows, rows + 1, rows * 0 + time, *[value.repeat(len(rows)) for value in settings]),
            (of_rows,) * (3 + len(settings)),
        ),
        "decode": (language_model.decode, ()),
        "read": (language_model.read, ()),
    }
    if not on_cpu:
        methods["greedy"] = (language_model.greedy, ())
    if batch > 1:
        methods["copy"] = (language_model.copy, (zero, one))
    return methods
