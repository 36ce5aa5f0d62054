"""From an exported program to C++ sources.

One call at a time: a lock serialises callers, because Inductor's state belongs to the process.
"""

import copy
import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, TypeAlias

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from pteron.backends.aoti.inductor.absent_gpu import absent_gpu, absent_mps
from pteron.backends.aoti.inductor.absent_weights import fake_mode_of, real_values
from pteron.backends.aoti.inductor.architectures import also_compiled_for
from pteron.backends.aoti.inductor.capture import capture_sources
from pteron.backends.aoti.inductor.cuda import (
    device_from_constants,
    kernel_folder,
    kernels_that_wait,
    launched_early,
    saved_kernels,
)
from pteron.backends.aoti.inductor.generated_code import GeneratedCode, Target
from pteron.backends.aoti.inductor.loop_repairs import fix_var_mean_of_empty
from pteron.backends.aoti.inductor.patches import Context, wrapped
from pteron.backends.aoti.inductor.release import release
from pteron.backends.aoti.inductor.runtime_functions import declared
from pteron.backends.aoti.inductor.scope import compile_scope, target_scope, without_inputs

Options: TypeAlias = Mapping[str, Any] | None
Each: TypeAlias = Callable[[int, GeneratedCode], None] | None


class MutatedBuffers(ValueError):
    """A program writes buffers of its own."""


#: Held while Inductor works, and by callers while they edit programs that share its state.
LOCK = threading.RLock()


def generate(program: ExportedProgram, target: Target, options: Options = None) -> GeneratedCode:
    """Generates the C++ of `program` for `target`; see `generate_variants`."""
    return generate_variants(program, (target,), options)[0]


def generate_variants(
    program: ExportedProgram, targets: Sequence[Target], options: Options = None, each: Each = None
) -> list[GeneratedCode]:
    """Generates the C++ of `program` for each of `targets`.

    Args:
        program: what to compile. Its buffers must not be mutated (mutated state has to be an
            input): Inductor's freezing would read their initial values forever.
        targets: the machines; they differ in what kernels are generated for, no more.
        options: Inductor configuration entries that win over ours.
        each: called with each target's index and code as soon as it is generated.

    Raises:
        UnsupportedTorch: see `release`.
        MutatedBuffers: it writes buffers of its own.
        Whatever Inductor raises; the process's Inductor state is put back first.
    """
    _reject_mutated_buffers(program)
    module = program.module(check_guards=False)
    _numbers_as_sizes(module, targets[0].device)
    if targets[0].gpu:
        module.meta.update(program.graph_module.meta)
    with LOCK, fix_var_mean_of_empty(program.range_constraints):
        return generate_module(module, targets, options, each)


def generate_module(
    module: torch.fx.GraphModule, targets: Sequence[Target], options: Options, each: Each = None
) -> list[GeneratedCode]:
    """The same for a graph module whose placeholders carry fake values."""
    release()
    target = targets[0]
    arguments = tuple(node.meta["val"] for node in module.graph.nodes if node.op == "placeholder")
    captured: list[GeneratedCode] = []
    waiting: set[str] = set()

    def finish(index: int) -> None:
        code = captured[index]
        model = launched_early(declared(code.model, target.device, target.operators), waiting)
        captured[index] = code = dataclasses.replace(code, model=model)
        if each:
            each(index, code)

    patches = {**_options(target), **(options or {})}
    with LOCK, compile_scope(target), capture_sources(captured), ExitStack() as stack:
        stack.enter_context(generate_for_each_target(targets, options or {}, finish))
        if target.device == "mps":
            stack.enter_context(absent_mps())
        elif target.gpu:
            stack.enter_context(absent_gpu(target.gpu))
        if target.gpu:
            stack.enter_context(real_values(module))
        if target.device == "cuda":
            patches["aot_inductor.output_path"] = stack.enter_context(kernel_folder())
            stack.enter_context(also_compiled_for(target.architectures))
            waiting = stack.enter_context(kernels_that_wait(target.gpu, target.architectures))
            stack.enter_context(saved_kernels())
            stack.enter_context(device_from_constants())
        if not arguments:
            stack.enter_context(without_inputs(module))
        torch._inductor.aot_compile(module, arguments, options=patches)
    return captured


def _numbers_as_sizes(module: torch.fx.GraphModule, device: str) -> None:
    """Replaces the inputs of `module` that are integers, in place: AOTInductor takes tensors only.

        f(x, n)    ==>    f(x, sizes): n = sizes.size(0)

    `sizes` has the shape (n, 0), so it has no memory. The runtime makes it of the integer
    (backends/aoti/runtime/argument_binding.cpp), and the contract checks its sizes.
    """
    placeholders = list(module.graph.find_nodes(op="placeholder"))
    for node in placeholders:
        number = node.meta["val"]
        if not isinstance(number, torch.SymInt):
            continue
        with fake_mode_of(module.graph, shape_env=number.node.shape_env):
            node.meta["val"] = torch.empty((number, 0), dtype=torch.uint8, device=device)
        with module.graph.inserting_after(placeholders[-1]):
            size = module.graph.call_function(torch.ops.aten.sym_size.int, (node, 0))
        size.meta["val"] = number
        node.replace_all_uses_with(size, lambda user, size=size: user is not size)
    module.recompile()


def generate_for_each_target(
    targets: Sequence[Target], options: Mapping[str, Any], finish: Callable[[int], None]
) -> Context:
    """Inductor generates code of a graph for each target, after the passes that all share
    (decompositions, FX passes, constant folding), and `finish` is called after each."""
    from torch._inductor import compile_fx

    first = _options(targets[0])

    def generate_each(generate_code: Any, gm: Any, *args: Any, **kwargs: Any) -> Any:
        for index, target in enumerate(targets):
            is_last = index == len(targets) - 1
            own = _options(target).items()
            changed = {k: v for k, v in own if v != first[k] and k not in options}
            with target_scope(target), torch._inductor.config.patch(changed):
                result = generate_code(gm if is_last else _copy(gm), *args, **kwargs)
            finish(index)
        return result

    return wrapped(compile_fx, "fx_codegen_and_compile", generate_each)


def _copy(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy whose graphs may be changed; tensors are shared."""
    tensors = {
        id(value): value
        for part in module.modules()
        for value in pytree.tree_leaves(vars(part))
        if isinstance(value, torch.Tensor)
    }
    return copy.deepcopy(module, tensors)


def _reject_mutated_buffers(program: ExportedProgram) -> None:
    mutated = sorted(set(program.graph_signature.buffers_to_mutate.values()))
    if mutated:
        raise MutatedBuffers(
            f"the partition mutates its own buffers {mutated}; frozen code would read their "
            "initial values at every call. Pass them in as inputs that the code mutates."
        )


def _options(target: Target) -> dict[str, Any]:
    """Inductor's configuration for `target`."""
    options: dict[str, Any] = {
        "aot_inductor.link_libtorch": False,
        "aot_inductor.package": True,
        "aot_inductor.package_cpp_only": False,
        "aot_inductor.package_constants_in_so": False,
        "aot_inductor.package_constants_on_disk_format": "binary_blob",
        "aot_inductor.use_runtime_constant_folding": False,
        # The capture replaces the compile step; a path keeps Inductor from hashing the module.
        "aot_inductor.output_path": "/nonexistent/model",
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
            # Arrays with an element for each thread are as long as there are threads.
            "cpp.dynamic_threads": target.num_threads > 1,
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
    if hasattr(torch._inductor.config.aot_inductor, "enable_line_tables"):  # from 2.13 on
        options["aot_inductor.enable_line_tables"] = False
    return options
