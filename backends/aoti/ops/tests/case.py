"""Cases of operators, and what torch makes of them.

`cases.py` of a family has a function of this kind::

    def cases() -> Iterator[Json]:
        for name, x in layouts(numbers(4, 6)):
            yield case(f"rows/{name}", "topk", x, 2, 1, True, True)
        yield error("k", "topk", numbers(3), 4, 0, True, True, parts=["found k 4"])

Arguments are those of the shim, in the order of the C function, without the results: tensors,
numbers, lists, None; a dtype by its torch.dtype. Tensors that share memory share it in the case,
too. `call.h` says how they are stored.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import torch

import pteron.backends.aoti.ops.convolution.convolution  # noqa: F401  defines its operators
import pteron.backends.aoti.ops.detection.detection  # noqa: F401  defines its operator
import pteron.backends.aoti.ops.quantized_mma.quantized_mma  # noqa: F401  defines its operator
import pteron.backends.aoti.ops.recurrent.recurrent  # noqa: F401  defines its operator

Json: TypeAlias = dict[str, Any]

FLOATING = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
REAL = (*FLOATING, *INTEGERS)
#: One of three dimensions for each of the layouts.
DIMENSION = {"row_major": 0, "swapped": 1, "gaps": -1, "offset": 2}
#: What one rounding to the dtype costs, and sums in float32; relative to the largest element.
TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float32: 4e-6, torch.float64: 1e-14}


def short(dtype: torch.dtype) -> str:
    """ "float32"."""
    return str(dtype).removeprefix("torch.")


def numbers(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Multiples of 1/16 between -4 and 4, or integers between -7 and 7, with repetitions."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).to(dtype)
    if dtype.is_complex:
        parts = torch.randint(-64, 65, (*shape, 2), generator=generator).double() / 16
        return torch.view_as_complex(parts).to(dtype)
    if dtype.is_floating_point:
        return (torch.randint(-64, 65, shape, generator=generator).double() / 16).to(dtype)
    low = 0 if dtype == torch.uint8 else -7
    return torch.randint(low, 8, shape, generator=generator).to(dtype)


def layouts(tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """The same contents row-major, with dimensions swapped in memory, with gaps, at an offset."""
    yield "row_major", tensor.contiguous()
    if tensor.dim() >= 2:
        yield "swapped", tensor.transpose(0, -1).contiguous().transpose(0, -1)
        wide = torch.zeros(*tensor.shape[:-1], tensor.shape[-1] * 2, dtype=tensor.dtype)
        wide[..., ::2] = tensor
        yield "gaps", wide[..., ::2]
    padded = torch.zeros(tensor.numel() + 5, dtype=tensor.dtype)
    padded[5:] = tensor.flatten()
    yield "offset", padded[5:].view(tensor.shape)


def variants(
    dtypes: Iterable[torch.dtype], *shape: int, make: Callable[..., torch.Tensor] = numbers
) -> Iterator[tuple[str, torch.Tensor]]:
    """Of each dtype what `make` gives, in each layout: ("float32/gaps", tensor), ..."""
    for dtype in dtypes:
        for layout, tensor in layouts(make(*shape, dtype=dtype)):
            yield f"{short(dtype)}/{layout}", tensor


class Formula:
    """A large tensor: element i is ((a i + b) mod m + offset) scale."""

    def __init__(
        self, *sizes: int, of: tuple[int, int, int, float, float], dtype: torch.dtype
    ) -> None:
        a, b, m, offset, scale = of
        self.of = of
        i = torch.arange(math.prod(sizes))
        self.tensor = (((a * i + b) % m + offset).double() * scale).to(dtype).view(sizes)


def overload(shim: str) -> torch._ops.OpOverload:
    """aten.sort.stable for "sort_stable", or an operator of ours or of torchvision."""
    parts = shim.split("_")
    for namespace in (torch.ops.aten, torch.ops.pteron, torch.ops.torchvision):
        for cut in range(len(parts), 0, -1):
            packet = getattr(namespace, "_".join(parts[:cut]), None)
            name = "_".join(parts[cut:]) or "default"
            if packet is not None and name in packet.overloads():
                found: torch._ops.OpOverload = getattr(packet, name)
                return found
    raise ValueError(f"no operator of aten or of ours for {shim}")


def case(
    name: str,
    shim: str,
    *arguments: Any,
    wide: bool = False,
    tolerance: float | None = None,
    unchecked: Sequence[int] = (),
    row_major: bool = False,
    ignored: Sequence[int] = (),
    written: int | None = None,
    reference: Callable[..., torch.Tensor] | None = None,
) -> Json:
    """A call that succeeds, with torch's results; where an argument is a Formula, parts of them.

    Args:
        name: of the case; letters, digits, slashes.
        shim: without "aoti_torch_" and the device.
        arguments: see above.
        wide: the values are those that torch computes in double precision.
        tolerance: of the values, relative to the largest; by the dtype if `wide`, else exact.
        unchecked: results whose values are not torch's (those of random numbers, of ties).
        ignored: results of which not even the sizes are torch's.
        row_major: results are, as compiled code expects, where torch itself chooses otherwise.
        written: the argument that the call writes; 0 for operators that end in "_out".
        reference: computes the result where torch has nothing that does on a CPU, or a release has
            no such operator.
    """
    if written is None and shim.endswith("_out"):
        written = 0
    if reference:
        computed = reference(*(_value(argument) for argument in arguments))
        like = computed if written is None else _value(arguments[written])
        results = [_like(computed, like.dtype, like)]
    else:
        results = _run(overload(shim), arguments)
    if row_major:
        results = [result.contiguous() for result in results]
    if wide:
        exact = _run(overload(shim), [_widened(argument) for argument in arguments])
        results = [
            result if i in ignored else _like(value, result.dtype, result)
            for i, (value, result) in enumerate(zip(exact, results, strict=True))
        ]
        if tolerance is None:
            tolerance = max(TOLERANCE.get(result.dtype, 0.0) for result in results)
    made: Json = {"case": f"{shim}/{name}", "shim": shim, "arguments": _arguments(arguments)}
    if tolerance:
        made["tolerance"] = tolerance
    if unchecked:
        made["unchecked"] = list(unchecked)
    is_large = any(isinstance(argument, Formula) for argument in arguments)
    stored = [_tensor(result, _step(result.numel()) if is_large else 1) for result in results]
    if written is None:
        made["results"] = [None if i in ignored else tensor for i, tensor in enumerate(stored)]
    else:
        made["written"] = {"argument": written, "tensor": stored[0]}
    return made


def _step(numel: int) -> int:
    """A prime, so that no row is stepped over, with which about 60 elements are met."""
    candidates = range(numel // 60 | 1, 2 * numel + 3, 2)
    return next(n for n in candidates if all(n % d for d in range(3, math.isqrt(n) + 1, 2)))


def error(name: str, shim: str, *arguments: Any, parts: Sequence[str], host: bool = False) -> Json:
    """A call that fails with a message that has all of `parts`; if `host`, only on the CPU."""
    stored = _arguments(arguments)
    made = {"case": f"{shim}/{name}", "shim": shim, "arguments": stored, "error": list(parts)}
    return made | {"host": True} if host else made


def _run(op: torch._ops.OpOverload, arguments: Sequence[Any]) -> list[torch.Tensor]:
    values = [_value(argument) for argument in arguments]
    schema = op._schema.arguments
    positional, named = [], {}
    if any(argument.is_out for argument in schema):
        named["out"] = _like(values[0], values[0].dtype, values.pop(0))
    for argument, value in zip(schema, values, strict=False):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = _like(value, value.dtype, value)
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            positional.append(value)
    found = op(*positional, **named)
    return [found] if isinstance(found, torch.Tensor) else list(found)


def _value(argument: Any) -> Any:
    if isinstance(argument, list):
        return [_value(item) for item in argument]
    return argument.tensor if isinstance(argument, Formula) else argument


def _widened(argument: Any) -> Any:
    argument = _value(argument)
    if isinstance(argument, torch.Tensor):
        if argument.is_complex():
            return argument.to(torch.complex128)
        return argument.double() if argument.is_floating_point() else argument
    if isinstance(argument, torch.dtype) and argument.is_floating_point:
        return torch.float64
    return argument


def _like(value: torch.Tensor, dtype: torch.dtype, like: torch.Tensor) -> torch.Tensor:
    made = torch.empty_strided(like.shape, like.stride(), dtype=dtype)
    return made.copy_(value.to(dtype))


def _arguments(arguments: Sequence[Any]) -> list[Any]:
    storages: dict[int, int] = {}

    def stored(position: int, argument: Any) -> Any:
        if isinstance(argument, Formula):
            made = _tensor(argument.tensor, 0)
            return made | {"formula": list(argument.of)}
        if isinstance(argument, torch.Tensor):
            memory = argument.untyped_storage().data_ptr()
            made = _tensor(argument, 1)
            if memory and memory in storages:
                del made["data"]
                return made | {"of": storages[memory]}
            storages[memory] = position
            if len(set(map(str, made["data"]))) == 1:  # one number says it all
                made["data"] = made["data"][:1]
            return made
        if isinstance(argument, torch.dtype):
            return short(argument)
        if isinstance(argument, list | tuple):
            return [stored(position, item) for item in argument]
        return _number(argument) if isinstance(argument, float) else argument

    return [stored(position, argument) for position, argument in enumerate(arguments)]


def _tensor(tensor: torch.Tensor, every: int) -> Json:
    made: Json = {"dtype": short(tensor.dtype), "sizes": list(tensor.shape)}
    if not tensor.is_contiguous():
        made["strides"] = list(tensor.stride())
    if tensor.storage_offset():
        made["offset"] = tensor.storage_offset()
    if every > 1:
        made["every"] = every
    if every:
        values = tensor.resolve_conj().reshape(-1)[::every]
        made["data"] = [_number(item) for item in values.tolist()]
    return made


def _number(value: complex) -> Any:
    if isinstance(value, complex):
        return [_number(value.real), _number(value.imag)]
    return value if math.isfinite(value) else str(value)
