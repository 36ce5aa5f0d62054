"""Tokens a second and time to the first token of language models at full size, beside peers.

  tools/bazel run //tests/benchmarks:text -- --models=llama_1b --device=cpu --json=$HOME/text.json

Checkpoints have the shapes of known models and random weights, with a tokenizer of numbers. Peers:
`eager` and `compile` are transformers with a static cache, the second with each step as one
function that torch.compile made (mode reduce-overhead on a GPU) and quantized by torchao as ours,
its tokens fed back on the device; `genai` is ONNX Runtime GenAI, `ct2` CTranslate2, on the CPU,
where they are installed (both quantize activations, too; where they have no bfloat16, they compute
in float32). All choose the likeliest token. Weights and cache are read once for each step, so
`read_ms` is the least time of a step at the bandwidth that a copy of 1 GB has in this run, on the
CPU a dot product of 1 GB. `peak_mb` is the most memory of the process, mapped files included.

On a GPU machine without Bazel tools/gpu takes it along.
"""

import gc
import importlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from absl import app, flags

from pteron.command.contender import text_table
from tests.benchmarks.results import Results, commit, cpu_name

_LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
}
_QWEN3: dict[str, Any] = {
    "model_type": "qwen3",
    "vocab_size": 151936,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40960,
    "rope_theta": 1000000.0,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
}
#: Shapes of Llama-3.2-1B and Qwen3-0.6B, and one for trying this program.
MODELS: dict[str, dict[str, Any]] = {
    "llama_1b": _LLAMA,
    "qwen3_0.6b": _QWEN3,
    "small": _LLAMA
    | {"vocab_size": 1024, "hidden_size": 256, "num_hidden_layers": 2}
    | {"intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 2},
}
_WAYS = ("ours", "eager", "compile", "genai", "ct2")

_MODELS = flags.DEFINE_list("models", ["llama_1b", "qwen3_0.6b"], f"Of {', '.join(MODELS)}.")
_DEVICE = flags.DEFINE_enum("device", "cpu", ["cpu", "cuda"], "Where it runs.")
_DTYPE = flags.DEFINE_string("dtype", "bfloat16", "Of weights and cache.")
_QUANTIZE = flags.DEFINE_list("quantize", ["none"], "Of none, int8, int4, fp8.")
_BATCH = flags.DEFINE_list("batch", ["1"], "Texts at the same time.")
_PROMPT = flags.DEFINE_list("prompt", ["128", "2048"], "Tokens of prompts.")
_NEW = flags.DEFINE_integer("new_tokens", 128, "Tokens of answers.", 8)
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Answers of each way; medians count.", 1)
_WAYS_FLAG = flags.DEFINE_list("ways", ["ours", "eager", "compile"], f"Of {', '.join(_WAYS)}.")
_THREADS = flags.DEFINE_integer("threads", 0, "On the CPU; 0: as each way chooses.", 0)
_FOLDER = flags.DEFINE_string("folder", "", "Keeps checkpoints and programs for the next run.")
_JSON = flags.DEFINE_string("json", "", "Where to write the results as JSON.")

#: The tokens of each step, of prompts and the number of new tokens.
Way = Callable[[list[list[int]], int], Iterator[list[int]]]


def write_checkpoint(name: str, folder: Path, dtype: torch.dtype) -> None:
    """A model of random weights as save_pretrained writes it, with a tokenizer of numbers."""
    import transformers
    from tokenizers import Tokenizer, models

    torch.manual_seed(0)
    values = dict(MODELS[name])
    config = transformers.AutoConfig.for_model(values.pop("model_type"), **values)
    # Peers want them; random weights hardly choose the last one.
    config.bos_token_id, config.eos_token_id = config.vocab_size - 2, config.vocab_size - 1
    device = _DEVICE.value
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
    model.save_pretrained(folder)
    words = {str(number): number for number in range(config.vocab_size)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="0"))
    ends = {"bos_token": str(config.bos_token_id), "eos_token": str(config.eos_token_id)}
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="0", **ends
    ).save_pretrained(folder)


def _ours(folder: Path, quantize: str, batch: int, length: int) -> tuple[Way, dict[str, Any]]:
    import pteron.llm

    path = folder / f"{_DEVICE.value}_{quantize}_{batch}_{length}.pte"
    start = time.perf_counter()
    if not path.exists():
        pteron.llm.export(
            folder,
            path,
            backend=_DEVICE.value,
            quantize=quantize,
            batch=batch,
            max_length=length,
            verify=False,
        )
    exported = time.perf_counter()
    generator = pteron.llm.Generator(path)
    facts = {
        "lowering_s": round(exported - start, 1),
        "load_s": round(time.perf_counter() - exported, 2),
        "file_mb": _megabytes(path),
    }

    def run(prompts: list[list[int]], new: int) -> Iterator[list[int]]:
        for tokens in generator.tokens(prompts, max_new_tokens=new):
            yield [token for token in tokens if token is not None]

    return run, facts


def _model(folder: Path, quantize: str) -> Any:
    import transformers

    from pteron.llm.export_checkpoint import quantize_linear

    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    model = model.to(_DEVICE.value).eval().requires_grad_(False)
    if quantize == "int4" and _DEVICE.value == "cuda":
        from torchao import quantization

        quantization.quantize_(
            model,
            quantization.Int4WeightOnlyConfig(
                group_size=32, int4_packing_format="tile_packed_to_4d"
            ),
        )
    elif quantize != "none":
        from torchao.quantization.utils import recommended_inductor_config_setter

        recommended_inductor_config_setter()
        quantize_linear(model, quantize)
    return model


def _torch(folder: Path, quantize: str, length: int, mode: str | None) -> Way:
    import transformers

    model = _model(folder, quantize)
    device = _DEVICE.value

    def step(tokens: torch.Tensor, positions: torch.Tensor, cache: Any) -> torch.Tensor:
        places = {"cache_position": positions, "position_ids": positions[None]}
        # As generate() has it: of a prompt, logits of the last token alone.
        found = model(tokens, past_key_values=cache, logits_to_keep=1, **places)
        chosen: torch.Tensor = found.logits[:, -1].argmax(-1, keepdim=True)
        return chosen

    is_gpu = device == "cuda"
    compiled: Any = (
        step
        if mode is None
        else torch.compile(step, mode=mode if is_gpu else "default", fullgraph=True, dynamic=False)
    )
    cache = transformers.StaticCache(config=model.config, max_cache_len=length)

    @torch.no_grad()
    def run(prompts: list[list[int]], new: int) -> Iterator[list[int]]:
        cache.reset()
        ids = torch.tensor(prompts, device=device)
        positions = torch.arange(ids.shape[1], device=device)
        token = step(ids, positions, cache)  # the prompt: eager, as generate() reads it
        yield token[:, 0].tolist()
        position = torch.tensor([ids.shape[1]], device=device)
        made = []
        for _ in range(new - 1):
            if mode and is_gpu:
                torch.compiler.cudagraph_mark_step_begin()
            token = compiled(token, position, cache).clone()
            position = position + 1
            made.append(token)
            if len(made) == 8:  # the host reads behind, as it does with ours
                yield from torch.cat(made, 1).T.tolist()
                made = []
        if made:
            yield from torch.cat(made, 1).T.tolist()

    return run


def _megabytes(path: Path) -> int:
    """Of a file, or of all in a folder."""
    files = [path] if path.is_file() else path.rglob("*")
    return round(sum(file.stat().st_size for file in files) / 1e6)


def _peak(reset: bool = False) -> int:
    """The most resident megabytes of this process since the last reset; 0 where not Linux."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        text = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return int(text.split("VmHWM:")[1].split()[0]) // 1024


def _genai(folder: Path, quantize: str, batch: int) -> tuple[Way, dict[str, Any]]:
    genai = importlib.import_module("onnxruntime_genai")
    target = folder / f"genai_{quantize}"
    precision = {"none": "fp32", "int4": "int4", "int8": "int8"}[quantize]
    command = ("-m", "onnxruntime_genai.models.builder", "-m", folder, "-i", folder, "-o", target)
    options = ("-p", precision, "-e", "cpu", "-c", folder / "cache")
    if not target.exists():
        subprocess.run([sys.executable, *command, *options], check=True, capture_output=True)
    start = time.perf_counter()
    config = genai.Config(str(target))
    if _THREADS.value:
        threads = {"session_options": {"intra_op_num_threads": _THREADS.value}}
        config.overlay(json.dumps({"model": {"decoder": threads}}))
    model = genai.Model(config)
    facts = {"load_s": round(time.perf_counter() - start, 2), "file_mb": _megabytes(target)}

    def run(prompts: list[list[int]], new: int) -> Iterator[list[int]]:
        parameters = genai.GeneratorParams(model)
        parameters.set_search_options(
            max_length=len(prompts[0]) + new, batch_size=batch, do_sample=False
        )
        generator = genai.Generator(model, parameters)
        generator.append_tokens(prompts if batch > 1 else prompts[0])
        for _ in range(new):
            generator.generate_next_token()
            yield list(map(int, generator.get_next_tokens()))

    return run, facts


def _ct2(folder: Path, quantize: str) -> tuple[Way, dict[str, Any]]:
    ctranslate2 = importlib.import_module("ctranslate2")
    converters = importlib.import_module("ctranslate2.converters")
    target = folder / f"ct2_{quantize}"
    kind = {"none": "float32", "int8": "int8_float32"}[quantize]
    if not target.exists():
        converters.TransformersConverter(str(folder)).convert(str(target), quantization=kind)
    start = time.perf_counter()
    generator = ctranslate2.Generator(
        str(target), device="cpu", intra_threads=_THREADS.value, compute_type=kind
    )
    facts = {"load_s": round(time.perf_counter() - start, 2), "file_mb": _megabytes(target)}

    def run(prompts: list[list[int]], new: int) -> Iterator[list[int]]:
        texts = [[str(token) for token in ids] for ids in prompts]
        step: list[int] = []
        for result in generator.generate_tokens(
            texts, max_length=new, min_length=new, sampling_topk=1, end_token=[]
        ):
            step.append(result.token_id)
            if len(step) == len(texts):
                yield step
                step = []

    return run, facts


def make(way: str, folder: Path, quantize: str, batch: int, length: int) -> tuple[Way, Any]:
    """The function of a way, and what is to be told of it."""
    if way == "ours":
        return _ours(folder, quantize, batch, length)
    if way == "genai":
        return _genai(folder, quantize, batch)
    if way == "ct2":
        return _ct2(folder, quantize)
    mode = "reduce-overhead" if way == "compile" else None
    return _torch(folder, quantize, length, mode), {}


def measure(way: Way, prompts: list[list[int]], new: int) -> tuple[float, float, list[int]]:
    """Seconds to the first token, seconds of a step after it, and the first text's tokens."""
    start = time.perf_counter()
    tokens: list[int] = []
    first = 0.0
    for step in way(prompts, new):
        first = first or time.perf_counter()
        tokens.append(step[0])
    if len(tokens) != new:
        raise RuntimeError(f"{len(tokens)} tokens came; expected {new}")
    return first - start, (time.perf_counter() - first) / (new - 1), tokens


def bandwidth() -> float:
    """Bytes a second that a copy of 1 GB reads and writes, or on the CPU a dot product reads."""
    source = torch.zeros(1 << 28, device=_DEVICE.value)
    target = torch.zeros_like(source)
    on_gpu = _DEVICE.value == "cuda"
    wait = torch.cuda.synchronize if _DEVICE.value == "cuda" else lambda: None
    times = []
    for _ in range(8):
        wait()
        start = time.perf_counter()
        target.copy_(source) if on_gpu else torch.dot(source, source)
        wait()
        times.append(time.perf_counter() - start)
    return (2 if on_gpu else 1) * (1 << 30) / min(times)


def step_bytes(name: str, quantize: str, batch: int, tokens: int, dtype: torch.dtype) -> float:
    """What a step reads at least: the weights, and the keys and values of `tokens` of each text."""
    c = MODELS[name]
    hidden, width = c["hidden_size"], c["head_dim"]
    heads, groups = c["num_attention_heads"], c["num_key_value_heads"]
    attention = hidden * width * (2 * heads + 2 * groups)
    layers = c["num_hidden_layers"] * (attention + 3 * hidden * c["intermediate_size"])
    size = {
        "none": dtype.itemsize,
        "int8": 1.0,
        "fp8": 1.0,
        "int4": 0.5 + dtype.itemsize / 32,
    }[quantize]
    cache = 2 * c["num_hidden_layers"] * groups * width * tokens * batch * dtype.itemsize
    # Tied to the embedding, the last matmul is quantized with the linear layers.
    return (layers + hidden * c["vocab_size"]) * size + cache


def _case(name: str, quantize: str, batch: int, folder: Path, report: dict[str, Any]) -> None:
    prompts = sorted(map(int, _PROMPT.value))
    length = prompts[-1] + _NEW.value + 8
    dtype = getattr(torch, _DTYPE.value)
    for way_name in _WAYS_FLAG.value:
        key = f"{name} {quantize} {batch} {way_name}"
        if key in report["rows"]:
            continue
        try:
            _peak(reset=True)
            way, facts = make(way_name, folder, quantize, batch, length)
            for prompt in prompts:
                generator = torch.Generator().manual_seed(prompt)
                most = MODELS[name]["vocab_size"]
                runs = []
                for _ in range(_ROUNDS.value + 1):
                    # Other prompts each time: a beginning that is known need not be read.
                    ids = torch.randint(0, most, (batch, prompt), generator=generator).tolist()
                    runs.append(measure(way, ids, _NEW.value))
                first = statistics.median(run[0] for run in runs[1:])
                step = statistics.median(run[1] for run in runs[1:])
                least = step_bytes(name, quantize, batch, prompt + _NEW.value // 2, dtype)
                facts[str(prompt)] = {
                    "first_ms": round(first * 1e3, 2),
                    "step_ms": round(step * 1e3, 3),
                    "tokens_s": round(batch / step, 1),
                    "read_ms": round(least / report["bandwidth"] * 1e3, 3),
                    "tokens": runs[-1][2],
                }
            report["rows"][key] = facts
            facts["peak_mb"] = _peak()
        except Exception as error:  # a peer that lacks the case does not end the others
            report["rows"][key] = {"failed": f"{type(error).__name__}: {str(error)[:500]}"}
        print(key, {k: v for k, v in report["rows"][key].items()}, flush=True)
        way = None  # type: ignore[assignment]
        torch._dynamo.reset()
        gc.collect()
        if _DEVICE.value == "cuda":
            torch.cuda.empty_cache()


def table(rows: dict[str, Any]) -> str:
    """A line for each case, way and prompt."""
    lines: list[list[str | float]] = [
        ["model", "weights", "batch", "way", "prompt"]
        + ["first ms", "step ms", "tokens/s", "read ms", "same tokens"]
    ]
    for key, facts in rows.items():
        name, quantize, batch, way = key.split()
        for prompt, found in facts.items():
            if not isinstance(found, dict):
                continue
            ours = rows.get(f"{name} {quantize} {batch} ours", {}).get(prompt, {}).get("tokens", [])
            pairs = list(zip(ours, found["tokens"], strict=False))
            same = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
            values = [found[k] for k in ("first_ms", "step_ms", "tokens_s", "read_ms")]
            lines.append([name, quantize, batch, way, prompt, *values, same])
    return text_table(lines, left=5)


def main(argv: Sequence[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"unexpected arguments: {' '.join(argv[1:])}")
    for flag, known in ((_MODELS, MODELS), (_WAYS_FLAG, _WAYS)):
        if unknown := [value for value in flag.value if value not in known]:
            raise app.UsageError(f"--{flag.name}: no {', '.join(unknown)}; {', '.join(known)}")
    if _DEVICE.value == "cuda" and not torch.cuda.is_available():
        sys.exit("there is no GPU here to measure on")
    if _THREADS.value:
        torch.set_num_threads(_THREADS.value)
    machine = torch.cuda.get_device_name() if _DEVICE.value == "cuda" else cpu_name()
    origin = {"machine": machine, "torch": torch.__version__, "commit": commit()}
    results = Results(_JSON.value, origin)
    results.report.setdefault("bandwidth", bandwidth())
    results.report.setdefault("rows", {})
    print(f"{machine}: {results.report['bandwidth'] / 1e9:.0f} GB/s", flush=True)
    for name in _MODELS.value:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(_FOLDER.value or temporary, f"{name}_{_DTYPE.value}")
            if not folder.exists():
                partial = Path(f"{folder}.partial")
                write_checkpoint(name, partial, getattr(torch, _DTYPE.value))
                partial.rename(folder)
            for quantize in _QUANTIZE.value:
                for batch in map(int, _BATCH.value):
                    _case(name, quantize, batch, folder, results.report)
                    results.save()
    print(table(results.report["rows"]))


if __name__ == "__main__":
    app.run(main)
