"""Whether an exported program computes what its module does."""

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch._C import _functorch as functorch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from pteron.exir.graph.exported_program import constant_tensor
from pteron.exir.verification.call import call
from pteron.exir.verification.reference import Reference
from pteron.exporter.method_values import module_of
from pteron.exporter.modules import as_exported, run_module, storage_of, storages_of
from pteron.exporter.refusals import refusal

#: Tolerated difference between exported program and module, relative to the largest value; and
#: that in roundings of the model's dtype.
_SAME, _ROUNDINGS = 1e-3, 4


def is_right(
    program: ExportedProgram,
    module: torch.nn.Module,
    forward: Callable[..., Any],
    candidates: Iterable[inspect.BoundArguments],
) -> bool:
    """Whether a program computes what the module does on each of some inputs."""
    written = storages_of(module)
    for inputs in candidates:
        given = inputs.args, inputs.kwargs
        try:
            expected = run_module(module, forward, given, written)[0]
        except Exception:
            continue  # the model does not take such sizes
        with (
            as_exported(module, forward, written),
            torch.no_grad(),
            torch.random.fork_rng(devices=[]),
        ):
            # What torch asserts of sizes that are no 1 says nothing of what is computed.
            found = program.module(check_guards=False)(*inputs.args, **inputs.kwargs)
            # Some may be the buffers that are put back.
            found = pytree.tree_map_only(torch.Tensor, torch.clone, found)
        pairs = [*map(pytree.tree_leaves, (found, expected))]
        shapes = [[getattr(leaf, "shape", None) for leaf in leaves] for leaves in pairs]
        if shapes[0] != shapes[1] or _distance(*pairs) > _SAME:
            return False
    return True


def check_runs(name: str, value: Any, program: ExportedProgram) -> tuple[list[Any], set[int]]:
    """The flat outputs on the example inputs, and the storages of the buffers and attributes that
    the program writes; nothing if this machine cannot run it.

    Raises:
      ExportError: the model fails on these; torch.export does not check all dtypes.
    """
    reference = Reference(program, program)
    if reference.obstacle:
        return [], set()
    buffers: dict[int, list[torch.Tensor]] = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind in (InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            buffer = constant_tensor(program, spec).detach()
            buffers.setdefault(storage_of(buffer), []).append(buffer)
    kept: dict[int, list[torch.Tensor]] = {}
    try:
        with torch.random.fork_rng(devices=[]):
            keeping = functools.partial(_Keeping, buffers=buffers, kept=kept)
            outputs = call(program, reference.inputs(), {}, keeping)
            # Some may be the buffers that are put back.
            return pytree.tree_map_only(torch.Tensor, torch.clone, outputs), set(kept)
    except NotImplementedError:
        return [], set()  # an operator that exists only on the target GPU
    except Exception as error:
        what = "what torch.export made of the model fails on its example inputs"
        is_module = not isinstance(
            (value[0] if isinstance(value, tuple) else value), ExportedProgram
        )
        run = functools.partial(_eager, name, value, program) if is_module else None
        raise refusal(name, error, what, run) from error
    finally:
        for key, values in kept.items():
            for buffer, value in zip(buffers[key], values, strict=True):
                buffer.copy_(value)


class _Keeping(torch.fx.Interpreter):
    """Runs a graph and fills `kept` with copies of buffers before an operator may write them. Both
    are by storage."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        buffers: Mapping[int, list[torch.Tensor]],
        kept: dict[int, list[torch.Tensor]],
    ) -> None:
        super().__init__(module)
        self._buffers, self._kept = buffers, kept

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        schema = getattr(target, "_schema", None)
        # Some norms do not declare that they write statistics.
        writes = schema is not None and (schema.is_mutable or schema.name.endswith("_norm"))
        if writes or isinstance(target, torch._ops.HigherOrderOperator):
            for value in pytree.tree_leaves((args, kwargs)):
                if not isinstance(value, torch.Tensor):
                    continue
                while functorch.is_functorch_wrapped_tensor(value):  # inside a torch.vmap
                    value = functorch.get_unwrapped(value)
                key = storage_of(value)
                if key in self._buffers and key not in self._kept:
                    self._kept[key] = [buffer.clone() for buffer in self._buffers[key]]
        return super().call_function(target, args, kwargs)


def differences(
    name: str,
    value: Any,
    program: ExportedProgram,
    exported: Sequence[Any],
    written: set[int],
) -> list[str]:
    """Notes if the module's outputs differ from `exported` on the example inputs (some models
    compute something else under export), and if it changes attributes."""
    parts = value if isinstance(value, tuple) else (value,)
    if isinstance(parts[0], ExportedProgram):
        return []
    try:
        returned, changed = _eager(name, value, program, written)
    except Exception:
        return []  # as a module; it could be exported
    notes = []
    if changed:
        notes.append(
            f"method {name!r} sets {', '.join(changed)} of the module in a call, and the program"
            f" does not; state is a registered buffer that keeps its shape: where the first call"
            f" gives it that, call the module once before"
        )
    worst = _distance(exported, pytree.tree_leaves(returned))
    tensors = [*module_of(name, parts)[0].parameters(), *pytree.tree_leaves(returned)]
    dtypes = {leaf.dtype for leaf in tensors if isinstance(leaf, torch.Tensor)}
    eps = max(
        (torch.finfo(t).eps for t in dtypes if t.itemsize > 1 and t.is_floating_point), default=0
    )
    if worst <= max(_SAME, _ROUNDINGS * eps):
        return notes
    return [
        *notes,
        f"method {name!r}: what torch.export made of the model differs from the model itself, by"
        f" {worst:.1e} of the largest value on the example inputs, before anything is lowered;"
        f" models may ask whether they are being exported (torch.compiler.is_exporting())",
    ]


def _distance(found: Sequence[Any], expected: Sequence[Any]) -> float:
    """The largest difference, relative to the largest value of its tensor; of tensors of one
    shape."""
    worst = 0.0
    for of, to in zip(found, expected, strict=False):
        if isinstance(to, torch.Tensor) and to.numel():
            wide = torch.complex128 if to.is_complex() else torch.float64
            of, to = of.detach().cpu().to(wide), to.detach().cpu().to(wide)
            if of.shape == to.shape:
                error = (of - to).abs().nan_to_num(0, 0, 0).max()
                worst = max(worst, float(error / (to.abs().nan_to_num(0, 0, 0).max() or 1)))
    return worst


def _eager(
    name: str, value: Any, program: ExportedProgram, written: Collection[int] | None = None
) -> tuple[Any, list[str]]:
    """`run_module` of a method's module on the program's example inputs."""
    module, forward = module_of(name, value if isinstance(value, tuple) else (value,))
    written = storages_of(module) if written is None else written
    return run_module(module, forward, program.example_inputs, written)
