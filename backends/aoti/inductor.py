"""Everything this project knows of TorchInductor's inside; no other module touches it.

`generate` turns a graph into C++ sources and constants without writing a file and without running
a compiler. All the state it needs is set for the duration of the call and put back, whatever
happens, so that a program's own `torch.compile` before and after is not affected and does not
affect us::

    code = inductor.generate(exported_program, target, options)
    code.model      # C++: the model class and its kernels call
    code.constants  # (Constant(name, fqn, tensor), ...): what the code reads

What is relied on, and since when it is known to hold, is the table `_HOOKS`; a torch release that
is not in it is refused with a sentence, not with a crash inside Inductor. `check_hooks` tests each
entry and is a unit test of its own, so that an upgrade fails there first.

One call at a time: a lock serialises callers, because Inductor's state belongs to the process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import itertools
import json
import operator
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

#: torch releases whose Inductor was read and tested.
SUPPORTED_RELEASES = ("2.11", "2.13")

_LOCK = threading.RLock()


@dataclasses.dataclass(frozen=True)
class Target:
    """What the code is generated for.

    Attributes:
        device: a torch device type, "cpu", "cuda" or "mps".
        vector_bits: SIMD width of CPU code: 512, 256 or 0 (scalar).
        num_threads: most threads that one parallel region may use (CPU).
        prefer_templates: generate GEMMs into the code wherever a template takes the shape.
    """

    device: str
    vector_bits: int = 256
    num_threads: int = 1
    prefer_templates: bool = True


@dataclasses.dataclass(frozen=True)
class Constant:
    """A tensor of the generated code; `name` is the container's, `fqn` the model's, `index` its
    place in the container's table."""

    index: int
    name: str
    fqn: str
    tensor: torch.Tensor


@dataclasses.dataclass(frozen=True)
class GeneratedCode:
    """Sources of one model and what they need.

    Attributes:
        interface: the C entry points; equal text for every model of one torch release and device.
        model: the model class; needs `interface`'s headers, not its text.
        kernels: C++ kernels that `model` calls; may be empty.
        constants: in the container's order, without those that no line of code reads.
        unread_constants: declared in the container but read by no line of code.
        proxied: operators that the code can only call through the proxy executor.
        num_outputs: of the container, mutated inputs not counted.
        embedded: device code of kernels that the model loads, by the symbol it is found under.
    """

    interface: str
    model: str
    kernels: str
    constants: tuple[Constant, ...]
    unread_constants: tuple[Constant, ...]
    proxied: tuple[str, ...]
    num_outputs: int
    embedded: Mapping[str, bytes] = dataclasses.field(default_factory=dict)

    @property
    def all_constants(self) -> tuple[Constant, ...]:
        """Every constant that the container declares, in its order."""
        return tuple(sorted((*self.constants, *self.unread_constants), key=lambda c: c.index))


class UnsupportedTorch(RuntimeError):
    """This torch release's Inductor is not one that was tested."""


def release() -> str:
    """The running torch's release, "2.13"; raises UnsupportedTorch if it is not a tested one."""
    found = ".".join(torch.__version__.split(".")[:2])
    if found not in SUPPORTED_RELEASES:
        raise UnsupportedTorch(
            f"torch {torch.__version__} is installed; lowering was tested with torch "
            f"{' and '.join(SUPPORTED_RELEASES)}. Install one of these to lower a model "
            "(running a lowered program needs no torch)."
        )
    return found


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
        Whatever Inductor raises; the process's Inductor state is put back first.
    """
    _reject_mutated_buffers(program)
    return _generate(program.module(check_guards=False), target, options)


def _generate(
    module: torch.fx.GraphModule, target: Target, options: Mapping[str, Any] | None
) -> GeneratedCode:
    release()
    arguments = tuple(
        node.meta["val"] for node in module.graph.nodes if node.op == "placeholder"
    )
    captured: list[GeneratedCode] = []
    patches = {**_options(target), **(options or {})}
    with _LOCK, _scope(target, captured), contextlib.ExitStack() as stack:
        if target.device == "cuda":
            patches["aot_inductor.output_path"] = stack.enter_context(_kernel_folder())
        if not arguments:
            stack.enter_context(_fake_mode_of(module))
        torch._inductor.aot_compile(module, arguments, options=patches)
    (code,) = captured
    return code


def _reject_mutated_buffers(program: ExportedProgram) -> None:
    mutated = sorted(set(program.graph_signature.buffers_to_mutate.values()))
    if mutated:
        raise ValueError(
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
            "freezing": target.prefer_templates,
            "max_autotune": target.prefer_templates,
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
            # Kernels travel inside the image, as machine code.
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


# --- the scope -------------------------------------------------------------------------------


@contextlib.contextmanager
def _scope(target: Target, captured: list[GeneratedCode]) -> Iterator[None]:
    """Inductor's process-wide state as our code generation needs it, put back on exit."""
    import torch._inductor.compile_fx  # noqa: F401  registers Inductor's lowerings

    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH))
        stack.enter_context(_fresh_counters())
        stack.enter_context(_captured_sources(captured))
        stack.enter_context(_without_patterns_of(_refused_pattern_modules(target)))
        if target.device == "cpu":
            stack.enter_context(_without_mkldnn())
            stack.enter_context(_vector_isa(target.vector_bits))
            if target.prefer_templates:
                stack.enter_context(_template_choices())
        yield


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """`owner.name` is `value` inside."""
    before = inspect.getattr_static(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def _fake_mode_of(module: torch.fx.GraphModule) -> Iterator[None]:
    """A graph without inputs: Inductor, which asks the inputs for the fake mode, asks the nodes."""
    from torch._inductor import compile_fx
    from torch._subclasses import FakeTensorMode

    detect = compile_fx.detect_fake_mode
    values = (node.meta.get("val") for node in module.graph.nodes)
    modes = [value.fake_mode for value in values if hasattr(value, "fake_mode")]
    mode = modes[0] if modes else FakeTensorMode(allow_non_fake_inputs=True)
    with _replaced(compile_fx, "detect_fake_mode", lambda inputs=None: detect(inputs) or mode):
        yield


@contextlib.contextmanager
def _fresh_counters() -> Iterator[None]:
    """Template numbers go into generated names; each model counts from zero."""
    from torch._inductor.codegen.cpp_template import CppTemplate
    from torch._inductor.select_algorithm import TritonTemplate

    with contextlib.ExitStack() as stack:
        for template in (CppTemplate, TritonTemplate):
            stack.enter_context(_replaced(template, "index_counter", itertools.count()))
        yield


@contextlib.contextmanager
def _without_mkldnn() -> Iterator[None]:
    """oneDNN off. What Inductor registers only while it is on is registered before, once, so that
    the process's own compilations find their patterns afterwards."""
    from torch._inductor.fx_passes import mkldnn_fusion

    for name in ("_mkldnn_fusion_init", "_mkldnn_weight_pack_init"):
        register = getattr(mkldnn_fusion, name, None)
        if register is not None:
            register()
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def _refused_pattern_modules(target: Target) -> frozenset[str]:
    """Modules of Inductor whose graph rewrites lead to operators that we do not serve."""
    passes = "torch._inductor.fx_passes"
    refused = {f"{passes}.fuse_attention"}
    if target.device == "cpu":
        refused |= {f"{passes}.mkldnn_fusion", f"{passes}.quantization"}
    return frozenset(refused)


@contextlib.contextmanager
def _without_patterns_of(modules: frozenset[str]) -> Iterator[None]:
    """Pattern passes skip the entries that `modules` registered, whenever they did so."""
    from torch._inductor.pattern_matcher import PatternMatcherPass

    apply = PatternMatcherPass.apply

    @functools.wraps(apply)
    def filtered_apply(self: PatternMatcherPass, *args: Any, **kwargs: Any) -> int:
        registered = self.patterns
        self.patterns = type(registered)(
            list,
            {
                key: kept
                for key, entries in registered.items()
                if (kept := [e for e in entries if not _origins(e) & modules])
            },
        )
        try:
            return apply(self, *args, **kwargs)
        finally:
            self.patterns = registered

    with _replaced(PatternMatcherPass, "apply", filtered_apply):
        yield


_ORIGINS: dict[int, tuple[Any, frozenset[str]]] = {}


def _origins(entry: Any) -> frozenset[str]:
    """Names of the modules whose functions `entry` would call."""
    known = _ORIGINS.get(id(entry))
    if known is not None and known[0] is entry:
        return known[1]
    seen: set[int] = set()
    found: set[str] = set()

    def visit(value: Any, depth: int) -> None:
        if id(value) in seen or depth > 3:
            return
        seen.add(id(value))
        if isinstance(value, functools.partial):
            visit(value.func, depth)
            for argument in (*value.args, *value.keywords.values()):
                visit(argument, depth + 1)
        elif inspect.isfunction(value):
            found.add(value.__module__)
            for cell in value.__closure__ or ():
                with contextlib.suppress(ValueError):
                    visit(cell.cell_contents, depth + 1)

    for attribute in ("handler", "extra_check", "normalize_args"):
        visit(getattr(entry, attribute, None), 0)
    origins = frozenset(found)
    _ORIGINS[id(entry)] = (entry, origins)
    return origins


@contextlib.contextmanager
def _template_choices() -> Iterator[None]:
    """GEMMs become C++ templates where one fits, without benchmarking; else the library call."""
    from torch._inductor.select_algorithm import get_algorithm_selector_cache

    def prefer_templates(choices: Sequence[Any]) -> list[Any]:
        templates = [choice for choice in choices if "cpp" in choice.name.lower()]
        return (templates or list(choices))[:1]

    selector = get_algorithm_selector_cache()
    with _replaced(selector, "preprocessing_fns", [prefer_templates]):
        yield


@contextlib.contextmanager
def _vector_isa(bits: int) -> Iterator[None]:
    """The vector width comes from the target: nothing is probed, the exporter's CPU plays no part."""
    from torch._inductor import cpu_vec_isa

    by_width = {512: cpu_vec_isa.VecAVX512, 256: cpu_vec_isa.VecAVX2}
    if bits == 0:
        available: list[Any] = []
    elif bits in by_width:
        base = by_width[bits]
        available = [type(base.__name__, (base,), {"__bool__": lambda self: True})()]
    else:
        raise ValueError(f"vector_bits is {bits}; expected 512, 256 or 0")
    with contextlib.ExitStack() as stack:
        stack.enter_context(_replaced(cpu_vec_isa, "valid_vec_isa_list", lambda: available))
        yield


# --- the capture -----------------------------------------------------------------------------


@contextlib.contextmanager
def _captured_sources(captured: list[GeneratedCode]) -> Iterator[None]:
    """Takes the sources where Inductor would compile them."""
    from torch._inductor.codecache import AotCodeCompiler

    def compile(
        graph: Any,
        wrapper_code: str,
        kernel_code: str,
        serialized_extern_kernel_nodes: str | None,
        **_: Any,
    ) -> list[str]:
        captured.append(
            _generated_code(graph, wrapper_code, kernel_code, serialized_extern_kernel_nodes)
        )
        return ["captured"]

    with _replaced(AotCodeCompiler, "compile", staticmethod(compile)):
        yield


def _generated_code(graph: Any, wrapper: str, kernels: str, proxied: str | None) -> GeneratedCode:
    interface, model = split_wrapper(wrapper)
    read = _identifiers_read(model)
    constants, unread = [], []
    for index, name in enumerate(graph.constants):
        if name in graph.folded_constants:
            continue
        fqn = graph.allocated_constant_name.get(name, name)
        tensor = graph.get_original_value_of_constant(name).detach()
        (constants if name in read else unread).append(
            Constant(index, name, fqn, tensor)
        )
    return GeneratedCode(
        interface=interface,
        model=model,
        kernels=_OMP_THREADS.sub(r"\1num_threads(pteron_threads(\2))", kernels),
        constants=tuple(constants),
        unread_constants=tuple(unread),
        proxied=_proxied_operators(proxied),
        num_outputs=len(graph.graph_outputs),
        embedded=_device_kernels(wrapper),
    )


@contextlib.contextmanager
def _kernel_folder() -> Iterator[str]:
    """A folder of this compilation alone, where Inductor leaves the machine code of kernels. Those
    of earlier compilations, which may have the same names, are forgotten."""
    from torch._inductor.codecache import CudaKernelParamCache

    with tempfile.TemporaryDirectory(prefix="pteron-kernels-") as folder:
        before = dict(CudaKernelParamCache.cache)
        CudaKernelParamCache.cache.clear()
        try:
            yield folder
        finally:
            CudaKernelParamCache.cache.clear()
            CudaKernelParamCache.cache.update(before)


_EMBEDDED_KERNEL = re.compile(r"extern const unsigned char __(\w+)_start\[\];")


def _device_kernels(wrapper: str) -> dict[str, bytes]:
    """The machine code of each kernel that `wrapper` declares."""
    from torch._inductor.codecache import CudaKernelParamCache, get_cpp_wrapper_cubin_path_name

    return {
        name: Path(CudaKernelParamCache.cache[name][get_cpp_wrapper_cubin_path_name()]).read_bytes()
        for name in sorted(set(_EMBEDDED_KERNEL.findall(wrapper)))
        if name in CudaKernelParamCache.cache
    }


#: A fixed number of threads becomes "at most": code cut for N threads is right with fewer.
_OMP_THREADS = re.compile(r"(?<=omp parallel )((?:for )?)num_threads\((\d+)\)")


def _proxied_operators(serialized: str | None) -> tuple[str, ...]:
    if not serialized:
        return ()
    nodes = json.loads(serialized)["nodes"]
    return tuple(sorted({node["node"]["target"] for node in nodes}))


_INTERFACE_END = '} // extern "C"\n'


def split_wrapper(wrapper: str) -> tuple[str, str]:
    """Cuts Inductor's wrapper into the C entry points and the model.

    The entry points use the model class only through its header, so each half compiles alone, and
    the first half is the same for every model.
    """
    head, end, rest = wrapper.partition(_INTERFACE_END)
    if not end or "AOTInductorModelContainerCreateWithDevice" not in head:
        raise UnsupportedTorch(
            "Inductor's wrapper no longer starts with the entry points of a model container"
        )
    includes = "".join(
        line for line in head.splitlines(keepends=True) if line.startswith("#include")
    )
    return head + end, includes + rest


_DECLARATION = re.compile(
    r"^\s*(constants_info_\[\d+\]\..*|\[\[maybe_unused\]\] auto& \w+ = constants_->at\(\d+\);)$",
    re.MULTILINE,
)


def _identifiers_read(model: str) -> set[str]:
    """Identifiers of the model's code, the declarations of constants left out."""
    return set(re.findall(r"[A-Za-z_]\w*", _DECLARATION.sub("", model)))


_OPERATOR_CALL = re.compile(r"\b(aoti_torch_(?:cpu|cuda|mps)_\w+)\(")


def operator_functions(model: str) -> tuple[str, ...]:
    """The C functions of operators that the model's code calls, sorted."""
    return tuple(sorted(set(_OPERATOR_CALL.findall(model))))


# --- what Inductor does not compile ----------------------------------------------------------


def may_call_out(op: torch._ops.OpOverload) -> bool:
    """Whether Inductor may leave `op` to a function of the runtime, as far as its tables
    say: it has no lowering, its lowering is a call, or the lowering mentions one."""
    import torch._inductor.compile_fx  # noqa: F401  registers Inductor's lowerings
    from torch._inductor import lowering
    from torch._inductor.decomposition import select_decomp_table

    if op in lowering.fallbacks:
        return True
    if op in lowering.lowerings:
        return _mentions_fallback(lowering.lowerings[op])
    return op not in select_decomp_table()


def compiles_higher_order(op: Any) -> bool:
    """Whether Inductor generates code for a higher-order operator, such as cond."""
    import torch._inductor.compile_fx  # noqa: F401
    from torch._inductor import lowering

    return op in lowering.lowerings and op not in lowering.fallbacks


@functools.cache
def _mentions_fallback(function: Callable[..., Any]) -> bool:
    names: set[str] = set()
    seen: set[int] = set()

    def visit(value: Any) -> None:
        value = inspect.unwrap(value)
        code = getattr(value, "__code__", None)
        if code is None or id(value) in seen:
            return
        seen.add(id(value))
        names.update(code.co_names)
        for cell in value.__closure__ or ():
            with contextlib.suppress(ValueError):
                if inspect.isfunction(cell.cell_contents):
                    visit(cell.cell_contents)

    visit(function)
    return any("fallback" in name.lower() for name in names)


def c_function(op: torch._ops.OpOverload, device: str) -> str | None:
    """The C function that stands for `op` where it is called and not compiled, if any."""
    from torchgen.aoti.fallback_ops import inductor_fallback_ops

    overload = op._overloadname
    schema = op._schema.name.replace("::", ".")
    for name in (overload, "out"):
        if f"{schema}.{name}" in inductor_fallback_ops:
            base = schema.partition(".")[2]
            suffix = "" if name == "default" else f"_{name}"
            return f"aoti_torch_{device}_{base}{suffix}"
    return None


@dataclasses.dataclass(frozen=True)
class CalledFunctions:
    """What the code of one call needs: C functions, and operators without one."""

    functions: tuple[str, ...] = ()
    proxied: tuple[str, ...] = ()
    failure: str = ""


def functions_called_by(node: torch.fx.Node, target: Target) -> CalledFunctions:
    """Generates code for `node` alone and says what that code calls; nothing is compiled."""
    key = (target, _signature(node))
    if key not in _CALLED:
        try:
            code = _generate(_module_of(node), target, None)
            _CALLED[key] = CalledFunctions(operator_functions(code.model), code.proxied)
        except UnsupportedTorch:
            raise
        except Exception as error:
            line = str(error).strip().partition("\n")[0]
            _CALLED[key] = CalledFunctions(failure=f"{type(error).__name__}: {line}")
    return _CALLED[key]


_CALLED: dict[tuple[Target, str], CalledFunctions] = {}


def _signature(node: torch.fx.Node) -> str:
    def describe(argument: Any) -> str:
        if isinstance(argument, torch.fx.Node):
            value = argument.meta.get("val")
            if isinstance(value, torch.Tensor):
                return f"{value.dtype} {tuple(value.shape)} {value.stride()} {value.device}"
            return f"{type(value).__name__} {value}"
        if isinstance(argument, list | tuple):
            return f"[{', '.join(describe(item) for item in argument)}]"
        return repr(argument)

    arguments = [describe(a) for a in node.args]
    arguments += [f"{name}={describe(a)}" for name, a in sorted(node.kwargs.items())]
    return f"{node.target}({', '.join(arguments)})"


def _module_of(node: torch.fx.Node) -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}

    def copy(argument: torch.fx.Node) -> Any:
        if not isinstance(argument.meta.get("val"), torch.Tensor):
            return argument.meta.get("val")
        if argument not in copies:
            copies[argument] = graph.placeholder(argument.name)
            copies[argument].meta["val"] = argument.meta["val"]
        return copies[argument]

    for argument in node.all_input_nodes:
        copy(argument)
    call = graph.call_function(
        node.target, torch.fx.map_arg(node.args, copy), torch.fx.map_arg(node.kwargs, copy)
    )
    call.meta["val"] = node.meta.get("val")
    returned = node.meta.get("val")
    if isinstance(returned, tuple | list):
        results = []
        for index, value in enumerate(returned):
            item = graph.call_function(operator.getitem, (call, index))
            item.meta["val"] = value
            if isinstance(value, torch.Tensor):
                results.append(item)
        graph.output(tuple(results))
    else:
        graph.output((call,))
    graph.eliminate_dead_code()
    return torch.fx.GraphModule(torch.nn.Module(), graph)
