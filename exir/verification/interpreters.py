"""Runs graphs in higher precision, or with more rounding than there is."""

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node
from torch.utils import _pytree as pytree

from pteron.exir.delegate import executorch_call_delegate
from pteron.exir.lowered_backend_module import LoweredBackendModule
from pteron.exir.verification.call import call

_PRECISE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


# Vectors of the error function are computed by a formula (Abramowitz and Stegun, 7.1.26) with this
# absolute error, so that nothing is certain of those near zero.
_ERF = 1.5e-7
_ABSOLUTE_ERRORS: dict[object, Callable[[torch.Tensor], torch.Tensor | float]] = {
    torch.ops.aten.erf.default: lambda x: _ERF,
    torch.ops.aten.erfc.default: lambda x: _ERF,
    torch.ops.aten.gelu.default: lambda x: _ERF / 2 * x.abs(),
}
"""What an operator's result may be off by, given its input, beside its last place."""


class _NestedInterpreter(Interpreter):
    """Branches and delegates are run by the same kind of interpreter."""

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().get_attr(target, args, kwargs)
        return self._callable(value) if isinstance(value, GraphModule) else value

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is executorch_call_delegate and isinstance(args[0], LoweredBackendModule):
            module, *inputs = args
            return tuple(call(module.original_module, inputs, {}, type(self)))
        return super().call_function(target, args, kwargs)

    def _callable(self, module: GraphModule) -> Callable[..., Any]:
        return lambda *args: type(self)(module).run(*args)


class PreciseInterpreter(_NestedInterpreter):
    """Computes with double-precision numbers what the graph does with narrower ones.

    Tensors are widened where they are read, one by one: weights are not all copied at once.
    """

    def run_node(self, n: Node) -> Any:
        if n.target is torch.ops.aten._assert_tensor_metadata.default:
            return None  # it would find the wrong dtype
        return super().run_node(n)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        args, kwargs = pytree.tree_map(_widened, (args, kwargs))
        return pytree.tree_map(_widened, super().call_function(target, args, kwargs))


def _widened(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(_PRECISE.get(value.dtype, value.dtype))
    return _PRECISE.get(value, value) if isinstance(value, torch.dtype) else value


class RoundingInterpreter(_NestedInterpreter):
    """Changes each result by up to one unit in the last place, at random, always in the same way.

    Those of operators that are computed by a formula change by its error.

    What this does to the outputs is what rounding may do: also where a comparison, a sort or a
    choice among experts turns a tiny difference into a large one.
    """

    def __init__(self, module: GraphModule, **options: Any) -> None:
        super().__init__(module, **options)
        self._generators: dict[torch.device, torch.Generator] = {}

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        result = super().call_function(target, args, kwargs)
        if target in _ABSOLUTE_ERRORS:
            return self._rounded(result, _ABSOLUTE_ERRORS[target](args[0]))
        return pytree.tree_map(self._rounded, result)

    def _rounded(self, value: Any, absolute: torch.Tensor | float = 0.0) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        device = value.device
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(0)
        noise = torch.rand(
            value.shape, generator=self._generators[device], device=device, dtype=torch.float32
        )
        exact, noise = value.double(), 2 * noise.double() - 1
        error = self._last_place(value.dtype) * exact + absolute
        return (exact + error * noise).to(value.dtype)

    def _last_place(self, dtype: torch.dtype) -> float:
        return torch.finfo(dtype).eps


class Tf32RoundingInterpreter(RoundingInterpreter):
    """The same with the digits of TF32 for float32."""

    def _last_place(self, dtype: torch.dtype) -> float:
        return super()._last_place(torch.float16 if dtype == torch.float32 else dtype)
