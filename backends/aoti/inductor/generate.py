"""From an exported program to C++ sources.

One call at a time: a lock serialises callers, because Inductor's state belongs to the process.
"""

import dataclasses
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import torch
from torch.export import ExportedProgram

from pteron.backends.aoti.inductor.absent_gpu import absent_gpu
from pteron.backends.aoti.inductor.absent_weights import real_values
from pteron.backends.aoti.inductor.architectures import also_compiled_for
from pteron.backends.aoti.inductor.capture import captured_sources
from pteron.backends.aoti.inductor.cuda import kernel_folder
from pteron.backends.aoti.inductor.generated_code import GeneratedCode, Target
from pteron.backends.aoti.inductor.own_functions import declared
from pteron.backends.aoti.inductor.release import release
from pteron.backends.aoti.inductor.scope import compile_scope, fake_mode_of


class MutatedBuffers(ValueError):
    """A program writes buffers of its own."""


#: Held while Inductor works, and by callers while they edit programs that share its state.
LOCK = threading.RLock()


def generate(
    program: ExportedProgram, target: Target, options: Mapping[str, Any] | None = None
) -> GeneratedCode:
    """Generates the C++ of `program` for `target`.

    Args:
        program: what to compile. Its buffers must not be mutated (mutated state has to be an
            input): Inductor's freezing would read their initial values for ever.
        target: the machine.
        options: Inductor configuration entries that win over ours.

    Raises:
        UnsupportedTorch: see `release`.
        MutatedBuffers: it writes buffers of its own.
        Whatever Inductor raises; the process's Inductor state is put back first.
    """
    _reject_mutated_buffers(program)
    module = program.module(check_guards=False)
    if target.gpu:
        module.meta.update(program.graph_module.meta)
    return generate_module(module, target, options)


def generate_module(
    module: torch.fx.GraphModule, target: Target, options: Mapping[str, Any] | None
) -> GeneratedCode:
    """The same for a graph module whose placeholders carry fake values."""
    release()
    arguments = tuple(node.meta["val"] for node in module.graph.nodes if node.op == "placeholder")
    captured: list[GeneratedCode] = []
    patches = {**_options(target), **(options or {})}
    with LOCK, compile_scope(target), captured_sources(captured), ExitStack() as stack:
        if target.gpu:
            stack.enter_context(absent_gpu(target.gpu))
            stack.enter_context(real_values(module))
        if target.device == "cuda":
            patches["aot_inductor.output_path"] = stack.enter_context(kernel_folder())
            stack.enter_context(also_compiled_for(target.architectures))
        if not arguments:
            stack.enter_context(fake_mode_of(module))
        torch._inductor.aot_compile(module, arguments, options=patches)
    (code,) = captured
    return dataclasses.replace(code, model=declared(code.model, target.device))


def _reject_mutated_buffers(program: ExportedProgram) -> None:
    mutated = sorted(set(program.graph_signature.buffers_to_mutate.values()))
    if mutated:
        raise MutatedBuffers(
            f"the partition mutates its own buffers {mutated}; frozen code would read their "
            "initial values at every call. Pass them in as inputs that the code mutates."
        )


def _options(target: Target) -> dict[str, Any]:
    """Inductor's configuration for `target`. Keys that a release lacks are left out by name."""
    options: dict[str, Any] = {
        "aot_inductor.link_libtorch": False,
        "aot_inductor.package": True,
        "aot_inductor.package_cpp_only": False,
        "aot_inductor.package_constants_in_so": False,
        "aot_inductor.package_constants_on_disk_format": "binary_blob",
        "aot_inductor.use_runtime_constant_folding": False,
        # The capture replaces the compile step; a path keeps Inductor from hashing the module.
        "aot_inductor.output_path": "/nonexistent/model",
        "aot_inductor.enable_line_tables": False,
        # Comments that tell where a line came from hold paths of the exporter.
        "comment_origin": False,
        "trace.enabled": False,
        "trace.provenance_tracking_level": 0,
    }
    if target.device == "cpu":
        options |= {
            "freezing": target.freeze,
            "max_autotune": target.freeze and target.templates,
            "max_autotune_gemm_backends": "CPP,ATEN",
            "cpp.simdlen": target.vector_bits or 1,
            "cpp.vec_isa_ok": True,
            "cpp.threads": target.num_threads,
            "cpp.dynamic_threads": False,
            "cpp.fallback_scatter_reduce_sum": False,
            "cpp.weight_prepack": True,
        }
    if target.device == "cuda":
        options |= {
            # Kernels travel inside the shared object, as machine code.
            "aot_inductor.embed_kernel_binary": True,
            "aot_inductor.emit_multi_arch_kernel": False,
            "triton.autotune_at_compile_time": True,
            "triton.cudagraphs": False,
        }
    return {key: value for key, value in options.items() if _has_option(key)}


def _has_option(key: str) -> bool:
    owner: Any = torch._inductor.config
    *path, name = key.split(".")
    for part in path:
        owner = getattr(owner, part, None)
    return hasattr(owner, name)
