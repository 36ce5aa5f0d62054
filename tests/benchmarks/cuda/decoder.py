"""A decoder of 1.2 billion parameters with a KV cache: a prompt of 2,048, then one token at a time.

The model is `transformers`' Llama with its static cache, random weights, bfloat16; nothing of it is
ours. Prompt and step are two methods of one program, exported on the GPU.
"""

import dataclasses
import functools
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pteron.command.contender import text_table
from tests.benchmarks.cuda.timing import interleaved, kernels_us, timed

PROMPT, LENGTH = 2048, 4096
CONFIG = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 16,
    "vocab_size": 32000,
    "max_position_embeddings": LENGTH,
}


def build(**changes: Any) -> nn.Module:
    """The model with its cache as buffers, as `transformers` makes it for export."""
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
    from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

    torch.manual_seed(0)
    config = LlamaConfig(**{**CONFIG, **changes}, attn_implementation="sdpa")
    with torch.device("cuda"):
        model = LlamaForCausalLM(config).to(torch.bfloat16).eval()
    model.generation_config = GenerationConfig(
        use_cache=True,
        cache_implementation="static",
        max_length=LENGTH,
        cache_config={"batch_size": 1, "max_cache_len": LENGTH, "device": "cuda"},
    )
    return TorchExportableModuleWithStaticCache(model)


def _inputs(first: int, count: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator("cuda").manual_seed(first)
    ids = torch.randint(0, 1000, (1, count), device="cuda", generator=generator)
    return {"input_ids": ids, "cache_position": torch.arange(first, first + count, device="cuda")}


def lower(module: nn.Module, folder: Path) -> tuple[Path, list[Path], float]:
    """Our program for prompt and step; its weights, and how many seconds it took."""
    from pteron.backends.cuda import CudaPartitioner
    from pteron.exir import ExecutorchBackendConfig, to_edge_transform_and_lower

    start = time.perf_counter()
    with torch.no_grad():
        methods = {
            name: torch.export.export(module, (), kwargs=_inputs(0, count), strict=True)
            for name, count in (("prompt", PROMPT), ("step", 1))
        }
    program = to_edge_transform_and_lower(methods, partitioner=[CudaPartitioner()]).to_executorch(
        ExecutorchBackendConfig(skip_h2d_for_method_inputs=True, skip_d2h_for_method_outputs=True)
    )
    path = folder / "model.pte"
    program.save(path)
    program.write_tensor_data_to_file(folder)
    return path, sorted(folder.glob("*.ptd")), time.perf_counter() - start


def measure(rounds: int, **changes: Any) -> dict[str, Any]:
    """Microseconds of prompt and step, each way, and how far results are from eager's."""
    from pteron.runtime import Runtime

    warnings.simplefilter("ignore")
    module = build(**changes)
    prompt, step = _inputs(0, PROMPT), _inputs(PROMPT, 1)
    report: dict[str, Any] = {}
    with torch.no_grad(), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        expected = {"prompt": module(**prompt).clone(), "step": module(**step).clone()}
        path, data, seconds = lower(module, folder)
        report["lowering_s"] = round(seconds, 1)
        report["file_mb"] = {p.suffix: round(p.stat().st_size / 1e6) for p in (path, *data)}
        loaded = Runtime.get().load_program(path, data_path=data)
        session = loaded.session()
        ours = {
            method: loaded.load_method(method, session=session) for method in ("prompt", "step")
        }
        found = {
            "prompt": ours["prompt"].execute(list(prompt.values()))[0].clone(),
            "step": ours["step"].execute(list(step.values()))[0].clone(),
        }
        report["error"] = {
            method: float((found[method].float() - expected[method].float()).abs().max())
            / float(expected[method].float().abs().max())
            for method in found
        }
        print(report, flush=True)
        for method, inputs in (("step", step), ("prompt", prompt)):
            prepared = loaded.load_method(method, session=session)
            prepared.prepare(list(inputs.values()))
            ways: dict[str, Callable[[], Any]] = {
                "eager": lambda inputs=inputs: module(**inputs),
                "ours": functools.partial(ours[method].execute, list(inputs.values())),
                "ours, prepared": functools.partial(prepared.execute, list(inputs.values())),
            }
            for mode in ("default", "reduce-overhead"):
                torch._dynamo.reset()
                compiled = torch.compile(module, mode=mode)
                try:
                    for _ in range(3):
                        compiled(**inputs)
                except Exception as error:
                    report.setdefault("failed", {})[f"{method} {mode}"] = str(error)[:300]
                    continue
                ways[mode] = lambda c=compiled, inputs=inputs: c(**inputs)
            launches = {way: timed(call) for way, call in ways.items()}
            times = interleaved(launches, rounds, batch=10)
            report[method] = {
                way: {**dataclasses.asdict(taken), "kernels_us": kernels_us(launches[way])}
                for way, taken in times.items()
            }
            print(method, report[method], flush=True)
    return report


def table(report: dict[str, Any]) -> str:
    """One line a method and way."""
    names = ("latency", "paced", "host", "kernels")
    rows: list[list[str | float]] = [["method", "way", *names]]
    for method in ("step", "prompt"):
        for way, taken in report[method].items():
            rows.append([method, way, *(taken[f"{name}_us"] for name in names)])
    others = {k: v for k, v in report.items() if k not in ("prompt", "step")}
    return f"us a call\n{text_table(rows, left=2)}\n{others}"
