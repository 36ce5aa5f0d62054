"""How the constants of compiled code were made from a model's weights, recorded so that other
weights can take the same way.

    with Recorder(program) as recorder:
        ...  # passes, constant folding, packing
    recipe = recorder.recipe([constant.tensor for constant in constants])
    tensors = recipe_replay.replay(recipe, new_state_dict)

With `Recorder(program, for_reuse=True)`, `recipe_replay.reuse` does that in another lowering of
an equal program.

The recorder sees every operator on real tensors. A recipe has those that lead to the constants, in
order, and what lowering read of weights to decide something (whether a tensor is uniform, the value
of a small one that the code has as a literal): with other weights it must find the same.
"""

from __future__ import annotations

import contextlib
import functools
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from pteron.backends.aoti.inductor.memoized import load_inductor
from pteron.backends.aoti.inductor.patches import patched
from pteron.backends.aoti.recipe_replay import (
    RecipeError,
    bytes_of,
    digest_of,
    is_allowed,
    operator_of,
    storages_of,
    view_of,
)
from pteron.exir.graph.exported_program import CONSTANT_KINDS, constant_tensor

#: torch's enumerations among arguments, by class.
_NAMED = (torch.dtype, torch.layout, torch.memory_format)
#: Bytes of a tensor that no recorded operator made.
_LITERAL_NBYTES = 1 << 16
#: The same of `for_reuse`, where a value that was made unseen must not come from weights: scalars.
_SCALAR_NBYTES = 16


class Recorder(TorchDispatchMode):
    """Records, on the thread that enters it.

    Args:
        program: what is lowered.
        for_reuse: sources are all constants that the graph uses, not only those of a state dict;
            and only weights, never other constants, are kept from being literals in the code.
    """

    supports_higher_order_operators = True

    @classmethod
    def is_infra_mode(cls) -> bool:
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing traces Inductor, and the guard takes longer than the call

    def __init__(self, program: ExportedProgram, *, for_reuse: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._for_reuse = for_reuse
        self._trained: set[int] = set()  # storages that depend on weights
        self._storages: dict[int, tuple[int, StorageWeakRef]] = {}
        self._sources: dict[int, dict[str, Any]] = {}  # of storages that no step makes
        self._contents: dict[int, torch.Tensor] = {}
        self._steps: list[dict[str, Any]] = []
        self._thread = threading.get_ident()
        self._stack = contextlib.ExitStack()
        for spec in program.graph_signature.input_specs:
            if spec.kind not in CONSTANT_KINDS:
                continue
            tensor = constant_tensor(program, spec).detach()
            if not (for_reuse or is_weight(spec)):
                self._literal(tensor)
                continue
            index = self._index(tensor)
            index = self._add(tensor) if index is None else index
            if is_weight(spec):
                self._trained.add(index)
            nbytes = tensor.untyped_storage().nbytes()
            source = self._sources.setdefault(index, {"nbytes": nbytes, "weights": {}})
            if "weights" in source:
                source["weights"][str(spec.target)] = self._place(index, tensor)

    def __enter__(self) -> Recorder:
        load_inductor()
        from torch.utils import _python_dispatch

        disable = _python_dispatch._disable_current_modes

        @contextlib.contextmanager
        def disabled() -> Iterator[Any]:
            """Inductor computes with real tensors where no mode of a caller's sees it."""
            with disable() as modes:
                if threading.get_ident() != self._thread:
                    yield modes
                    return
                TorchDispatchMode.__enter__(self)
                try:
                    yield modes
                finally:
                    TorchDispatchMode.__exit__(self, None, None, None)

        users: list[Any] = [_python_dispatch, torch._inductor.ir]
        for user in users:
            self._stack.enter_context(patched(user, "_disable_current_modes", disabled))
        graph = torch._inductor.graph.GraphLowering  # has tensors of up to 8 elements as literals
        may_inline = graph.can_inline_constant

        def inlines(tensor: torch.Tensor) -> bool:
            is_plain = self._for_reuse and self._index(tensor) not in self._trained
            return is_plain and bool(may_inline(tensor))

        self._stack.enter_context(patched(graph, "can_inline_constant", staticmethod(inlines)))
        for name in ("item", "tolist", "numpy"):  # which read memory past dispatch
            method = self._reading(getattr(torch.Tensor, name))
            self._stack.enter_context(patched(torch.Tensor, name, method))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._stack.close()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if types:  # of subclasses: fake tensors, nearly all that Inductor computes with
            return func(*args, **kwargs)
        inputs = _tensors((args, kwargs))
        is_recorded = isinstance(func, torch._ops.OpOverload) and all(map(_is_plain, inputs))
        if is_recorded and func._schema.is_mutable:
            for tensor in inputs:
                self._encoded(tensor)  # before it changes
        result = func(*args, **kwargs)
        outputs = _tensors(result)
        if is_recorded and all(map(_is_plain, outputs)):
            self._record(func, args, kwargs, result, inputs, outputs)
        return result

    def _record(
        self,
        func: torch._ops.OpOverload,
        args: Any,
        kwargs: Any,
        result: Any,
        inputs: list[torch.Tensor],
        outputs: list[torch.Tensor],
    ) -> None:
        new = [tensor for tensor in outputs if self._index(tensor) is None]
        decides = bool(inputs) and isinstance(result, bool | int | float)
        decides = decides and func._schema.name != "aten::is_pinned"
        if not (new or func._schema.is_mutable or decides):
            return  # a view
        step: dict[str, Any] = {
            "op": func._schema.name,
            "overload": func._overloadname,
            "args": self._encoded(args),
            "kwargs": self._encoded(kwargs),
        }
        if decides:
            step["is"] = result
        made = []
        for tensor in outputs:
            index = self._index(tensor)
            made.append(self._add(tensor) if index is None else index)
        step["made"] = made
        if self._trained.intersection(map(self._index, inputs)):
            self._trained.update(made)
        self._steps.append(step)

    def _reading(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def read(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if (
                threading.get_ident() == self._thread
                and _is_plain(tensor)
                and self._index(tensor) is not None
            ):
                place = self._encoded(tensor)
                self._steps.append({"read": place, "sha256": digest_of(tensor), "made": []})
            return method(tensor, *args, **kwargs)

        return read

    def _index(self, tensor: torch.Tensor) -> int | None:
        found = self._storages.get(tensor.untyped_storage()._cdata)
        return None if found is None else found[0]

    def _add(self, tensor: torch.Tensor) -> int:
        # The reference keeps the storage's address from being another's.
        storage = tensor.untyped_storage()
        index = len(self._storages)
        self._storages[storage._cdata] = index, StorageWeakRef(storage)
        return index

    def _literal(self, tensor: torch.Tensor) -> int:
        index = self._add(tensor)
        with torch._C._DisableTorchDispatch():
            whole = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
        self._sources[index] = {"nbytes": whole.nbytes}
        self._contents[index] = whole.clone() if whole.nbytes <= _LITERAL_NBYTES else whole
        return index

    def _place(self, index: int, tensor: torch.Tensor) -> dict[str, Any]:
        return {
            "storage": index,
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "offset": tensor.storage_offset(),
            "sizes": list(tensor.shape),
            "strides": list(tensor.stride()),
        }

    def _encoded(self, value: Any) -> Any:
        """As JSON has it."""
        if isinstance(value, torch.Tensor):
            index = self._index(value)
            return self._place(self._literal(value) if index is None else index, value)
        if isinstance(value, list | tuple):
            return [self._encoded(item) for item in value]
        if isinstance(value, dict):
            return {name: self._encoded(item) for name, item in value.items()}
        if isinstance(value, _NAMED):
            return {"torch": str(value).removeprefix("torch.")}
        if isinstance(value, torch.device):
            return {"device": str(value)}
        if isinstance(value, bool | int | float | str | None):
            return value
        return {"unknown": type(value).__name__}

    def recipe(self, constants: Sequence[torch.Tensor]) -> bytes:
        """The recipe of these tensors. RecipeError if some were not made by what was recorded."""
        places, problems = [], []
        for tensor in constants:
            if self._index(tensor) is None and (self._for_reuse or tensor.nbytes > _LITERAL_NBYTES):
                problems.append(f"a constant of {list(tensor.shape)} is not made by operators")
            places.append(self._encoded(tensor.detach()))
        weights = {i for i, source in self._sources.items() if "weights" in source}
        # What depends on weights decides; of all other steps those are kept whose results are used.
        tainted, changing = set(weights), []
        for step in self._steps:
            reads = storages_of((step.get("args"), step.get("kwargs"), step.get("read")))
            changing.append(bool(reads & tainted))
            if changing[-1]:
                tainted.update(step["made"])
        needed, kept = storages_of(places), []
        for step, depends in zip(reversed(self._steps), reversed(changing), strict=True):
            if not ((depends and ("is" in step or "read" in step)) or needed & {*step["made"]}):
                continue
            kept.append(step)
            needed |= storages_of((step.get("args"), step.get("kwargs"), step.get("read")))
            if "op" in step and ("unknown" in json.dumps(step) or not is_allowed(step["op"])):
                problems.append(f"a call of {step['op']} is not recorded")
            if self._for_reuse and "op" in step and weights & _written(step):
                problems.append(f"{step['op']} writes a weight")
        if self._for_reuse:
            problems += [
                f"{content.nbytes} bytes were made by no operator"
                for index, content in self._contents.items()
                if index in needed and content.nbytes > _SCALAR_NBYTES
            ]
        if problems:
            raise RecipeError("; ".join(dict.fromkeys(problems)))
        sources, literals, offset = {}, [], 0
        for index, source in sorted(self._sources.items()):
            if index in self._contents and index in needed:
                content = bytes_of(self._contents[index])
                source = {**source, "bytes": [offset, len(content)]}
                literals.append(content)
                offset += len(content)
            if index in needed or index in weights:
                sources[index] = source
        # A weight that reaches no constant is in the code: it must stay as it is.
        fixed = {
            name: digest_of(view_of(place, {index: storage}))
            for index in sorted(weights - needed)
            if (storage := self._alive(index)) is not None
            for name, place in self._sources[index]["weights"].items()
        }
        made = [index for step in kept[::-1] for index in step["made"]]
        numbers = {index: i for i, index in enumerate(dict.fromkeys([*sources, *made]))}
        table = {
            "sources": [[numbers[index], source] for index, source in sources.items()],
            "fixed": fixed,
            "steps": kept[::-1],
            "constants": places,
        }
        text = json.dumps(_renumbered(table, numbers)).encode()
        return len(text).to_bytes(8, "little") + text + b"".join(literals)

    def _alive(self, index: int) -> Any:
        reference = next(ref for number, ref in self._storages.values() if number == index)
        return torch.UntypedStorage._new_with_weak_ptr(reference.cdata)


def is_weight(spec: InputSpec) -> bool:
    """Whether a constant of a program is in the model's state dict."""
    return spec.kind is InputKind.PARAMETER or (
        spec.kind is InputKind.BUFFER and spec.persistent is not False
    )


def _written(step: Mapping[str, Any]) -> set[int]:
    """The storages that a step writes to."""
    arguments = operator_of(step)._schema.arguments
    given = {**dict(zip((a.name for a in arguments), step["args"], strict=False)), **step["kwargs"]}
    return storages_of(
        [given.get(a.name) for a in arguments if a.alias_info is not None and a.alias_info.is_write]
    )


def _renumbered(value: Any, numbers: Mapping[int, int]) -> Any:
    if isinstance(value, list):
        return [_renumbered(item, numbers) for item in value]
    if not isinstance(value, dict):
        return value
    result = {name: _renumbered(item, numbers) for name, item in value.items()}
    if "storage" in value:
        result["storage"] = numbers[value["storage"]]
    if "made" in value:
        result["made"] = [numbers[index] for index in value["made"]]
    return result


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _is_plain(tensor: torch.Tensor) -> bool:
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout is torch.strided
        and tensor.device.type == "cpu"
    )
