"""Makes the constants of compiled code from weights, as a recipe of `weight_recipe` has it."""

import ctypes
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

#: Operators that read files or memory elsewhere.
_REFUSED = ("aten::from_file", "aten::set_")


class RecipeError(ValueError):
    """Weights do not fit a recipe, or none can be recorded; the message lists all reasons."""


def weights_of(recipe: bytes | memoryview) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
    """The weights that a recipe takes, with their dtypes and shapes."""
    table, _ = _parsed(recipe)
    return {
        name: (getattr(torch, place["dtype"]), tuple(place["sizes"]))
        for _, source in table["sources"]
        for name, place in source.get("weights", {}).items()
    }


def replay(recipe: bytes | memoryview, weights: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """The constants, of other weights, which have the dtypes and shapes of `weights_of`.

    RecipeError lists weights that must not differ from those of the lowering, because code was
    generated for them. The recipe is run: it must be of a file that is trusted as its code is.
    """
    table, literals = _parsed(recipe)
    storages: dict[int, torch.UntypedStorage] = {}
    problems: list[str] = []
    for index, source in table["sources"]:
        storages[index] = _literal_storage(source, literals)
        for name, place in source.get("weights", {}).items():
            view_of(place, storages).copy_(weights[name].detach())
        for name, place in source.get("weights", {}).items():
            if digest_of(view_of(place, storages)) != digest_of(weights[name].detach()):
                problems.append(f"{', '.join(sorted(source['weights']))} are one tensor")
    return _made(table, storages, weights, problems)


def reuse(
    recipe: bytes | memoryview, tensors: Mapping[str, torch.Tensor]
) -> list[torch.Tensor] | None:
    """The constants, of tensors that have the layouts and share storages as those of the lowering,
    which are used where they are. None: code was generated for other values."""
    table, literals = _parsed(recipe)
    storages = {
        index: tensors[next(iter(source["weights"]))].untyped_storage()
        if "weights" in source
        else _literal_storage(source, literals)
        for index, source in table["sources"]
    }
    try:
        return _made(table, storages, tensors, [])
    except RecipeError:
        return None


def _literal_storage(source: Mapping[str, Any], literals: memoryview) -> torch.UntypedStorage:
    whole = torch.zeros(source["nbytes"], dtype=torch.uint8)
    if "bytes" in source:
        start, nbytes = source["bytes"]
        whole.copy_(
            torch.frombuffer(bytearray(literals[start : start + nbytes]), dtype=torch.uint8)
        )
    return whole.untyped_storage()


def _made(
    table: Mapping[str, Any],
    storages: dict[int, torch.UntypedStorage],
    weights: Mapping[str, torch.Tensor],
    problems: list[str],
) -> list[torch.Tensor]:
    """Runs the steps on the sources' storages. RecipeError also for `problems`."""
    names = {index: set(source.get("weights", ())) for index, source in table["sources"]}
    for name, digest in table["fixed"].items():
        if digest_of(weights[name].detach()) != digest:
            problems.append(f"{name} is in the code as a literal")
    if problems:
        raise RecipeError("; ".join(dict.fromkeys(problems)))
    with torch.no_grad():
        for step, ended in zip(table["steps"], _ended(table), strict=True):
            read = storages_of((step.get("args"), step.get("kwargs"), step.get("read")))
            used = set[str]().union(*(names.get(index, ()) for index in read))
            for index in (*step["made"], *(read if "args" in step else ())):
                names.setdefault(index, set()).update(used if index in step["made"] else ())
            if "read" in step:
                same = digest_of(view_of(step["read"], storages)) == step["sha256"]
            else:
                # Their names, such as "device", are no tags of values.
                kwargs = {name: _decoded(x, storages) for name, x in step["kwargs"].items()}
                result = operator_of(step)(*_decoded(step["args"], storages), **kwargs)
                leaves = [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]
                for index, tensor in zip(step["made"], leaves, strict=True):
                    storages.setdefault(index, tensor.untyped_storage())
                same = "is" not in step or result == step["is"]
            if not same:
                problems.append(f"the code is for special values of {', '.join(sorted(used))}")
            for index in ended:
                del storages[index]
    if problems:
        raise RecipeError("; ".join(dict.fromkeys(problems)))
    return [view_of(place, storages) for place in table["constants"]]


def _ended(table: Mapping[str, Any]) -> list[set[int]]:
    """The storages that no step after each step uses: all at once are many times the weights."""
    used = storages_of(table["constants"])
    ended: list[set[int]] = []
    for step in reversed(table["steps"]):
        here = storages_of((step.get("args"), step.get("kwargs"), step.get("read")))
        here |= set(step["made"])
        ended.append(here - used)
        used |= here
    return ended[::-1]


def _parsed(recipe: bytes | memoryview) -> tuple[dict[str, Any], memoryview]:
    view = memoryview(recipe)
    length = int.from_bytes(view[:8], "little")
    table: dict[str, Any] = json.loads(bytes(view[8 : 8 + length]))
    return table, view[8 + length :]


def operator_of(step: Mapping[str, Any]) -> Any:
    if not is_allowed(step["op"]):
        raise RecipeError(f"the recipe calls {step['op']}, which is not allowed")
    namespace, _, base = step["op"].partition("::")
    return getattr(getattr(getattr(torch.ops, namespace), base), step["overload"] or "default")


def is_allowed(operator: str) -> bool:
    return operator.startswith(("aten::", "prims::")) and operator not in _REFUSED


def _decoded(value: Any, storages: Mapping[int, torch.UntypedStorage]) -> Any:
    if isinstance(value, list):
        return [_decoded(item, storages) for item in value]
    if not isinstance(value, dict):
        return value
    if "storage" in value:
        return view_of(value, storages)
    if "torch" in value:
        return getattr(torch, value["torch"])
    if "device" in value:
        return torch.device(value["device"])
    return {name: _decoded(item, storages) for name, item in value.items()}


def view_of(place: Mapping[str, Any], storages: Mapping[int, Any]) -> torch.Tensor:
    empty = torch.empty(0, dtype=getattr(torch, place["dtype"]))
    storage = storages[place["storage"]]
    return empty.set_(storage, place["offset"], place["sizes"], place["strides"])


def storages_of(value: Any) -> set[int]:
    """The storages that encoded values are in."""
    if isinstance(value, list | tuple):
        return set[int]().union(*map(storages_of, value))
    if not isinstance(value, dict):
        return set()
    if "storage" in value:
        return {value["storage"]}
    return storages_of(list(value.values()))


def bytes_of(tensor: torch.Tensor) -> bytes:
    """The elements, in order."""
    with torch._C._DisableTorchDispatch():
        dense = tensor.detach().contiguous()
    return ctypes.string_at(dense.data_ptr(), dense.nbytes) if dense.nbytes else b""


def digest_of(tensor: torch.Tensor) -> str:
    """SHA-256 of the elements of a tensor on the host."""
    return hashlib.sha256(bytes_of(tensor)).hexdigest()
