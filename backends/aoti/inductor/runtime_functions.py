"""Operators for which the runtime has a C shim and torch has none.

Inductor leaves an operator that torch's list of C shims lacks to a proxy executor. Inside
`register_runtime_functions` the runtime's shims are on the list: the code calls them by the name
and with the arguments that torch's own would have, and `declared` adds their declarations.
"""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import torch

import pteron.backends.aoti.ops.convolution.convolution  # noqa: F401  defines its operators
import pteron.backends.aoti.ops.detection.detection  # noqa: F401  defines its operator
import pteron.backends.aoti.ops.quantized_mma.quantized_mma  # noqa: F401  defines its operator
import pteron.backends.aoti.ops.recurrent.recurrent  # noqa: F401  defines its operator
from pteron.backends.aoti.inductor.capture import operator_functions
from pteron.backends.aoti.inductor.kernel_text import after_includes
from pteron.backends.aoti.inductor.patches import Context, together
from pteron.backends.aoti.ops import shim_list
from pteron.backends.aoti.ops.attention.attention import RUNTIME_ATTENTION


def runtime_functions(device: str) -> dict[torch._ops.OpOverload, str]:
    """The runtime's C shims of operators for which torch has none."""
    from torchgen.aoti.fallback_ops import inductor_fallback_ops

    functions = {}
    for function in shim_list.load(device).declarations:
        op = operator_of(function.removeprefix(f"aoti_torch_{device}_"))
        if op is not None and str(op) not in inductor_fallback_ops:
            functions[op] = function
    return functions


def operator_of(name: str) -> torch._ops.OpOverload | None:
    """The operator that a C function is named after: `median_dim` is aten.median.dim.

    An operator of another library is None until the library is imported.
    """
    parts = [] if name in _OPERATORS else name.split("_")
    for namespace in (torch.ops.aten, torch.ops.pteron, torch.ops.torchvision):
        for end in range(len(parts), 0, -1):
            packet = getattr(namespace, "_".join(parts[:end]), None)
            overload = "_".join(parts[end:]) or "default"
            if packet is not None and overload in packet.overloads():
                return _OPERATORS.setdefault(name, getattr(packet, overload))
    return _OPERATORS.get(name)


_OPERATORS: dict[str, torch._ops.OpOverload] = {}


def register_runtime_functions(device: str, operators: Sequence[str] = ()) -> Context:
    """Inside, Inductor calls the runtime's shims, and the caller's functions of `operators`, rather
    than the proxy executor."""
    from torch._inductor import config
    from torchgen.aoti.fallback_ops import inductor_fallback_ops

    own = runtime_functions(device)
    added: dict[str, Any] = {str(op): {} for op in own if op.namespace == "aten"}
    # `declared` adds their declarations.
    ours = [RUNTIME_ATTENTION, *(op for op in own if op.namespace != "aten")]
    ours += callers_functions(device, operators).values()
    custom: dict[torch._ops.OpOverload, list[str]] = {op: [] for op in ours}
    shims = config.patch({"aot_inductor.custom_ops_to_c_shims": custom})
    return together(mock.patch.dict(inductor_fallback_ops, added), shims)


@functools.cache
def _torch_header(device: str) -> str:
    """torch's declarations of its C shims for a device."""
    folder = Path(torch.__file__).parent / "include/torch/csrc/inductor/aoti_torch/generated"
    return (folder / f"c_shim_{device}.h").read_text()


def callers_functions(device: str, operators: Sequence[str]) -> dict[str, torch._ops.OpOverload]:
    """Operators with a C function of the caller's, by the function's name.

    Raises:
      ValueError: there is no such operator, or its function's name is taken.
    """
    found: dict[str, torch._ops.OpOverload] = {}
    for operator in operators:
        namespace, _, name = operator.partition("::")
        packet = getattr(getattr(torch.ops, namespace), name, None) if name else None
        if packet is None or "default" not in packet.overloads():
            raise ValueError(
                f"operators: there is no operator {operator!r}; expected names as 'mylib::scale' of"
                f" operators that are registered (torch.library.custom_op)"
            )
        function = f"aoti_torch_{device}_{name}"
        if function in found or function in shim_list.load(device).declarations:
            raise ValueError(
                f"operators: the C function of {operator!r} would be {function}, which is that of"
                f" another operator; give it another name"
            )
        found[function] = packet.default
    return found


def declaration(function: str, op: torch._ops.OpOverload) -> str:
    """The C declaration of an operator's function, as AOTInductor calls it."""
    from torchgen.gen_aoti_c_shim import gen_arguments, gen_returns
    from torchgen.model import FunctionSchema

    schema = FunctionSchema.parse(str(op._schema).partition("::")[2])
    parameters = [*gen_arguments([*schema.arguments.flat_all], set())[0], *gen_returns(schema)[0]]
    return f"AOTITorchError {function}({', '.join(parameters)})"


def declared(model: str, device: str, operators: Sequence[str] = ()) -> str:
    """`model` with declarations of the functions it calls that no header of torch declares."""
    own = callers_functions(device, operators)
    declarations = {
        **shim_list.load(device).declarations,
        **{name: declaration(name, op) for name, op in own.items()},
    }
    known = _torch_header(device)
    lines = [
        f'extern "C" {declarations[function]};\n'
        for function in operator_functions(model)
        if function in declarations and f" {function}(" not in known
    ]
    return after_includes(model, "".join(lines))
