"""Which operators Inductor leaves to fallback kernels, by its tables and by a trial lowering."""

import contextlib
import dataclasses
import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any

import torch

from pteron.backends.aoti.inductor.absent_gpu import fake_tensors_of_any_device, without_kernels
from pteron.backends.aoti.inductor.capture import operator_functions
from pteron.backends.aoti.inductor.generate import LOCK, generate_module
from pteron.backends.aoti.inductor.generated_code import Target
from pteron.backends.aoti.inductor.memoized import load_inductor
from pteron.backends.aoti.inductor.release import UnsupportedTorch
from pteron.backends.aoti.inductor.runtime_functions import runtime_functions
from pteron.exir.graph.shape_bounds import sources_of_sizes


def may_be_fallback(op: torch._ops.OpOverload) -> bool:
    """Whether `op` may become a fallback kernel, by Inductor's tables: it has no lowering, its
    lowering is a fallback or mentions one, or is in a module of library calls."""
    load_inductor()
    from torch._inductor import lowering

    if op in lowering.fallbacks or _is_always_fallback(op):
        return True
    if op not in lowering.lowerings:
        return False
    function = inspect.unwrap(lowering.lowerings[op])
    return function.__module__ != "torch._inductor.lowering" or _mentions_fallback(function)


def _is_always_fallback(op: Any) -> bool:
    """Whether Inductor neither compiles nor decomposes `op` in any case."""
    from torch._inductor import lowering
    from torch._inductor.decomposition import select_decomp_table

    compiled = op in lowering.lowerings and op not in lowering.fallbacks
    return not compiled and op not in select_decomp_table()


def compiles_higher_order(op: Any) -> bool:
    """Whether Inductor generates code for a higher-order operator, such as cond."""
    load_inductor()
    from torch._inductor import lowering
    from torch._inductor.fx_passes import post_grad

    if op in lowering.lowerings:
        return op not in lowering.fallbacks
    # map and scan become loops before they are lowered.
    name = op.name().removesuffix("_impl")
    return hasattr(post_grad, f"decompose_{name}_to_while_loop")


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
        for name in code.co_names:
            called = value.__globals__.get(name)
            if inspect.isfunction(called) and called.__module__ == value.__module__:
                visit(called)
        for cell in value.__closure__ or ():
            with contextlib.suppress(ValueError):
                if inspect.isfunction(cell.cell_contents):
                    visit(cell.cell_contents)

    visit(function)
    return any("fallback" in name.lower() for name in names)


def c_function(op: torch._ops.OpOverload, device: str) -> str | None:
    """The C shim of `op` as a fallback kernel, if any."""
    from torchgen.aoti.fallback_ops import inductor_fallback_ops

    if own := runtime_functions(device).get(op):
        return own
    overload = op._overloadname
    schema = op._schema.name.replace("::", ".")
    for name in (overload, "out" if overload == "default" else f"{overload}_out"):
        if f"{schema}.{name}" in inductor_fallback_ops:
            base = schema.partition(".")[2]
            suffix = "" if name == "default" else f"_{name}"
            return f"aoti_torch_{device}_{base}{suffix}"
    return None


@dataclasses.dataclass(frozen=True)
class CalledFunctions:
    """What generated code calls: C shims, and operators without one (by the proxy executor)."""

    functions: tuple[str, ...] = ()
    proxied: tuple[str, ...] = ()
    failure: str = ""


def functions_called_by(node: torch.fx.Node, target: Target) -> CalledFunctions:
    """Generates code for `node` alone and returns what that code calls; nothing is compiled."""
    target = dataclasses.replace(target, gpu="", architectures=())
    key = (target, signature(node))
    if key not in _CALLED:
        kernels = {"cuda": without_kernels, "mps": fake_tensors_of_any_device}.get(
            target.device, contextlib.nullcontext
        )()
        try:
            with LOCK, kernels:
                code = generate_module(_module_of(node, target.device), (target,), None)[0]
            _CALLED[key] = CalledFunctions(operator_functions(code.model), code.proxied)
        except UnsupportedTorch:
            raise
        except Exception as error:
            line = str(error).strip().partition("\n")[0]
            _CALLED[key] = CalledFunctions(failure=f"{type(error).__name__}: {line}")
            if target.device == "cuda" and not torch.cuda.is_available():
                _CALLED[key] = _called_by_table(node.target, target.device)
    return _CALLED[key]


def _called_by_table(op: Any, device: str) -> CalledFunctions:
    """What is certain without generated code. Operators that torch cannot trace without a GPU may
    be compiled with one; lowering on a machine with a GPU tries again."""
    if not _is_always_fallback(op):
        return CalledFunctions()
    function = c_function(op, device)
    return CalledFunctions((function,)) if function else CalledFunctions(proxied=(str(op),))


_CALLED: dict[tuple[Target, str], CalledFunctions] = {}


def signature(node: torch.fx.Node) -> str:
    """A call's operator, arguments, and layouts of the tensors among them."""

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


def _module_of(node: torch.fx.Node, device: str) -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    on_device = torch.device("cpu" if device == "cpu" else f"{device}:0")

    @functools.cache
    def copied(argument: torch.fx.Node) -> Any:
        """A number is computed as before, since that says what it depends on."""
        value = argument.meta.get("val")
        if isinstance(value, torch.SymInt | torch.SymFloat) and argument.op == "call_function":
            return graph.node_copy(argument, copied)
        if not isinstance(value, torch.Tensor | torch.SymInt):
            return value
        if isinstance(value, torch.Tensor) and value.device.type != device != "cpu":
            with value.fake_mode:  # type: ignore[attr-defined]
                value = torch.empty_strided(
                    value.size(), value.stride(), dtype=value.dtype, device=on_device
                )
        made = graph.placeholder(argument.name)
        made.meta["val"] = value
        return made

    for source in sources_of_sizes(node.graph, node.all_input_nodes):
        copied(source)
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), copied)
    kwargs = {k: on_device if isinstance(v, torch.device) else v for k, v in kwargs.items()}
    assert callable(node.target)
    call = graph.call_function(node.target, args, kwargs)
    call.meta["val"] = returned = node.meta.get("val")
    results = [call]
    if isinstance(returned, tuple | list):
        results = [graph.call_function(operator.getitem, (call, i)) for i in range(len(returned))]
        for result, value in zip(results, returned, strict=True):
            result.meta["val"] = value
        results = [each for each in results if isinstance(each.meta["val"], torch.Tensor)]
    graph.output(tuple(results))
    graph.eliminate_dead_code()
    return torch.fx.GraphModule(torch.nn.Module(), graph)
