"""Graph interpreters with higher precision, or with additional rounding."""

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node
from torch.utils import _pytree as pytree

from pteron.exir.graph.delegate import executorch_call_delegate
from pteron.exir.graph.lowered_backend_module import LoweredBackendModule
from pteron.exir.verification.call import call

_aten = torch.ops.aten

_PRECISE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


# Vectorized erf uses a formula (Abramowitz and Stegun, 7.1.26) with this absolute error, so results
# near zero have no accurate digits.
_ERF = 1.5e-7
_ABSOLUTE_ERRORS: dict[object, Callable[[torch.Tensor], torch.Tensor | float]] = {
    _aten.erf.default: lambda x: _ERF,
    _aten.erfc.default: lambda x: _ERF,
    _aten.gelu.default: lambda x: _ERF / 2 * x.abs(),
}
"""Errors of operators beyond an ULP, given their input."""


_OF_ROWS = {_aten.embedding, _aten.embedding_bag, _aten._embedding_bag}
_OF_ROWS |= {_aten._embedding_bag_forward_only}
_OF_DIMENSION = {_aten.gather, _aten.scatter, _aten.scatter_add, _aten.scatter_reduce}
_OF_DIMENSION |= {_aten.index_select, _aten.index_add, _aten.index_copy, _aten.index_fill}
_OF_DIMENSIONS = {_aten.index, _aten.index_put, _aten._unsafe_index, _aten._unsafe_index_put}


def _indices(target: Any, args: Any) -> Iterator[tuple[torch.Tensor, int]]:
    """The index tensors of an operator call, and the sizes they index."""
    packet = getattr(target, "overloadpacket", None)
    if packet in _OF_ROWS:
        yield args[1], args[0].shape[0]
    elif packet in _OF_DIMENSION and args[0].dim():
        yield args[2], args[0].shape[args[1]]
    elif packet in _OF_DIMENSIONS:
        dim = 0
        for index in args[1]:
            is_mask = index is not None and index.dtype in (torch.bool, torch.uint8)
            if index is not None and not is_mask:
                yield index, args[0].shape[dim]
            dim += index.dim() if is_mask else 1


_DIVISIONS = {_aten.div, _aten.floor_divide, _aten.remainder, _aten.fmod}


def _divides_by_zero(target: Any, args: Any, result: Any) -> bool:
    """Whether it ran on a GPU, which reports nothing."""
    is_division = getattr(target, "overloadpacket", None) in _DIVISIONS
    if not is_division or not result.is_cuda or result.is_floating_point():
        return False
    return not bool(torch.as_tensor(args[1]).all())


class CheckingInterpreter(Interpreter):
    """Raises IndexError for indices out of range also on a GPU, where they would destroy the CUDA
    context. Likewise ZeroDivisionError, which a GPU does not report.

    Branches and delegates run with the same interpreter class.
    """

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().get_attr(target, args, kwargs)
        return self._callable(value) if isinstance(value, GraphModule) else value

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is executorch_call_delegate and isinstance(args[0], LoweredBackendModule):
            module, *inputs = args
            return tuple(call(module.original_module, inputs, {}, self._nested))
        for index, size in _indices(target, args):
            if index.is_cuda and not bool(((-size <= index) & (index < size)).all()):
                raise IndexError(f"{target}: an index is not within {size} elements")
        if target is _aten._assert_async.msg and not bool(args[0]):
            raise RuntimeError(args[1])
        result = super().call_function(target, args, kwargs)
        if _divides_by_zero(target, args, result):
            raise ZeroDivisionError(f"{target}: an integer is divided by 0")
        return result

    def _nested(self, module: GraphModule) -> Interpreter:
        return type(self)(module)

    def _callable(self, module: GraphModule) -> Callable[..., Any]:
        return lambda *args: self._nested(module).run(*args)


class PreciseInterpreter(CheckingInterpreter):
    """Runs a graph in float64 instead of narrower dtypes.

    Tensors are converted when they are read, one by one, so that weights are not all copied at
        once.
    """

    def run_node(self, n: Node) -> Any:
        if n.target is _aten._assert_tensor_metadata.default:
            return None  # it would have the wrong dtype
        return super().run_node(n)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        args, kwargs = pytree.tree_map(_widened, (args, kwargs))
        return pytree.tree_map(_widened, super().call_function(target, args, kwargs))


_ATTENTION = {
    _aten.scaled_dot_product_attention.default,
    _aten._scaled_dot_product_flash_attention.default,
    _aten._scaled_dot_product_flash_attention_for_cpu.default,
    _aten._scaled_dot_product_efficient_attention.default,
    _aten._scaled_dot_product_cudnn_attention.default,
}


class AttentionInterpreter(CheckingInterpreter):
    """Attention as matmuls and a softmax, in float32 or float64.

    torch's own kernels, and ours, differ in what NaN and infinity of a key or a value that the mask
    excludes do: a weight of 0 times NaN is NaN, but most kernels skip blocks that are masked whole.

    Args:
        skip: whether what is masked has no effect at all.
    """

    def __init__(self, module: GraphModule, *, skip: bool) -> None:
        super().__init__(module)
        self._skip = skip

    def _nested(self, module: GraphModule) -> Interpreter:
        return AttentionInterpreter(module, skip=self._skip)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        result = super().call_function(target, args, kwargs)
        if target not in _ATTENTION:
            return result
        given = {a.name: a.default_value for a in target._schema.arguments} | kwargs
        given |= dict(zip((a.name for a in target._schema.arguments), args, strict=False))
        mask = given.get("attn_mask", given.get("attn_bias"))
        first = result if isinstance(result, torch.Tensor) else result[0]
        weighted = _attention(
            *(
                given[name].to(torch.promote_types(given[name].dtype, torch.float32))
                for name in ("query", "key", "value")
            ),
            mask=mask,
            is_causal=given["is_causal"],
            scale=given.get("scale"),
            skip=self._skip,
        )
        # With the strides of the kernel's, which views that follow need.
        found = torch.empty_like(first).copy_(weighted)
        return found if first is result else (found, *result[1:])


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    mask: torch.Tensor | None,
    is_causal: bool,
    scale: float | None,
    skip: bool,
) -> torch.Tensor:
    if key.dim() > 2 and key.shape[-3] != query.shape[-3]:
        repeats = query.shape[-3] // key.shape[-3]
        key, value = (x.repeat_interleave(repeats, -3) for x in (key, value))
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    excluded = torch.zeros_like(scores, dtype=torch.bool)
    if is_causal:
        excluded |= torch.ones_like(excluded).triu(1)
    if mask is not None and mask.dtype == torch.bool:
        excluded |= ~mask
    elif mask is not None:
        scores = scores + mask
        excluded |= mask == -math.inf
    weights = scores.masked_fill(excluded, -math.inf).softmax(-1)
    if not skip:
        return weights @ value
    not_finite = (~excluded).to(value.dtype) @ (~value.isfinite()).to(value.dtype) > 0
    return (weights @ value.nan_to_num(0, 0, 0)).masked_fill(not_finite, math.nan)


def _widened(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(_PRECISE.get(value.dtype, value.dtype))
    return _PRECISE.get(value, value) if isinstance(value, torch.dtype) else value


_PRODUCTS: dict[object, int] = {
    **dict.fromkeys((_aten.mm, _aten.bmm, _aten.matmul, _aten.linear), 0),
    **dict.fromkeys((_aten.addmm, _aten.baddbmm, _aten.addmv), 1),
    **dict.fromkeys((_aten.sum, _aten.mean, _aten.cumsum, _aten.var, _aten.var_mean), 0),
}
"""Operators that sum, and which of their arguments is summed over."""


def typical_magnitude(values: torch.Tensor) -> torch.Tensor:
    """The typical magnitude around each element of a non-negative tensor, or the element if larger.

    Uses the slice along one dimension (row, column, ...) with the smallest values, so that errors
    are not hidden by large values elsewhere. The typical magnitude is the squared mean of square
    roots, which a few large values do not dominate.
    """
    if values.dim() < 2 or values.numel() == 0:
        return values
    roots = torch.where(values.isfinite(), values, 0).sqrt_()
    dims = range(values.dim())
    means = (roots.mean([d for d in dims if d != kept], keepdim=True).square() for kept in dims)
    return torch.maximum(values, functools.reduce(torch.minimum, means))


_CONVOLUTIONS = {_aten.convolution, _aten.conv1d, _aten.conv2d, _aten.conv3d}


def _terms(target: Any, args: Any, result: Any) -> float:
    """The number of terms per element of a reduction; 1 for other operators."""
    packet = getattr(target, "overloadpacket", None)
    if packet in _CONVOLUTIONS:
        return max(1, args[1][:1].numel())
    if packet not in _PRODUCTS:
        return 1
    summed = args[_PRODUCTS[packet]]
    if packet in (_aten.sum, _aten.mean, _aten.var, _aten.var_mean):
        first = result[0] if isinstance(result, tuple) else result
        return max(1, summed.numel() / max(1, first.numel()))
    return summed.shape[-1] if summed.dim() else 1


def _size_of_terms(target: Any, args: Any, kwargs: Any) -> torch.Tensor | None:
    """The root of the sum of the squares of an element's terms, of which the result may be a small
    difference; None if it is not known."""
    packet = getattr(target, "overloadpacket", None)
    tensors = [value for value in args if isinstance(value, torch.Tensor)]
    if packet in (_aten.var, _aten.var_mean) or not all(x.is_floating_point() for x in tensors):
        return None
    squares = [x.float().square() if isinstance(x, torch.Tensor) else x for x in args]
    factors = {k: v * v if k in ("alpha", "beta") else v for k, v in kwargs.items()}
    total: torch.Tensor = target(*squares, **factors)
    if packet is _aten.mean:
        total = total * (total.numel() / max(1, tensors[0].numel()))
    return total.sqrt()


_CONVERSIONS = {_aten._to_copy, _aten.to}


def _flattened(tensor: torch.Tensor) -> torch.Tensor:
    """The elements of a dense tensor, flattened."""
    return tensor.as_strided((tensor.numel(),), (1,))


def _is_integer(value: torch.Tensor) -> bool:
    return value.dtype != torch.bool and not (value.is_floating_point() or value.is_complex())


_WINDOWS = {_aten.hann_window, _aten.hamming_window, _aten.blackman_window, _aten.kaiser_window}
_VECTORS = {_aten.linalg_eigh, _aten._linalg_eigh, _aten.linalg_svd, _aten._linalg_svd}


def _of_other_signs(vectors: Any, seed: int) -> tuple[torch.Tensor, ...]:
    """Eigenvectors or singular vectors with other signs, which the library chooses: all of them for
    seed 0, others at random. The sign of a pair of singular vectors is the same."""
    first, second, *last = vectors
    left, right = (first, last[0]) if last else (second, None)
    if left.dim() < 2:
        return tuple(vectors)  # only values were asked for
    count = max(left.shape[-1], right.shape[-2] if right is not None else 0)
    is_kept = torch.randint(2, (count,), generator=torch.Generator().manual_seed(seed)) * (seed > 0)
    signs = (2 * is_kept - 1).to(left)
    left = left * signs[: left.shape[-1]]
    if right is None:
        return first, left
    return left, second, right * signs[: right.shape[-2], None]


#: Block size of perturbation, to stay in cache.
_PART = 1 << 15


class RoundingInterpreter(CheckingInterpreter):
    """Perturbs user inputs and each result by up to `scale` ULP at random, deterministic by seed.
    Results of approximated operators are perturbed by the approximation's error, and sums by the
    error of sequential summation, relative to the magnitude around or that of their terms.
    Multiples of one half are not perturbed: zeros, counts and ties are exact. Eigenvectors and
    singular vectors get other signs.

    The change of the outputs is the effect of rounding, also where a comparison, a sort or a
    choice among experts turns a tiny difference into a large one.
    """

    def __init__(
        self,
        module: GraphModule,
        *,
        seed: int = 0,
        scale: float = 1.0,
        products: torch.dtype | None = None,
    ) -> None:
        super().__init__(module)
        self._seed, self._scale, self._products = seed, scale, products
        self._generators: dict[torch.device, torch.Generator] = {}
        self._numbers: dict[torch.dtype, torch.Tensor] = {}

    def _nested(self, module: GraphModule) -> Interpreter:
        nested = RoundingInterpreter(
            module, seed=self._seed, scale=self._scale, products=self._products
        )
        nested._generators, nested._numbers = self._generators, self._numbers
        return nested

    def user_input(self, value: Any) -> Any:
        return self._rounded(value)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        result = super().call_function(target, args, kwargs)
        packet = getattr(target, "overloadpacket", None)
        if packet in _WINDOWS:  # differences of numbers around 1
            return self._rounded(result, torch.finfo(result.dtype).eps)
        if packet in _VECTORS:
            result = _of_other_signs(result, self._seed)
        if target in _ABSOLUTE_ERRORS:
            return self._rounded(result, _ABSOLUTE_ERRORS[target](args[0]))
        is_quantization = str(packet).startswith("quantized_decomposed.quantize_per_")
        is_conversion = packet in _CONVERSIONS or is_quantization
        if not is_conversion and (target is operator.getitem or getattr(target, "is_view", False)):
            return result  # which may be a weight
        if is_conversion and _is_integer(result) and args[0].is_floating_point():
            # In C++ converting NaN or out-of-range values to an integer is undefined.
            bounds = torch.iinfo(result.dtype)
            is_defined = (args[0] >= bounds.min) & (args[0] <= bounds.max)
            if is_quantization:  # which clamps
                is_defined = ~args[0].isnan()
            if bool(is_defined.all()):
                return result
            # Two values that are valid indices; then the ends of the range, at random.
            choices = (self._seed % 2,) * 2 if self._scale <= 1 else (bounds.min, bounds.max)
            first, second = (torch.full_like(result, choice) for choice in choices)
            generator = torch.Generator().manual_seed(self._seed)
            is_first = torch.randint(2, result.shape, generator=generator).bool().to(result.device)
            # torch 2.11 has no `where` for unsigned integers except uint8.
            bits = getattr(torch, f"int{8 * result.itemsize}")
            other = torch.where(is_first, first.view(bits), second.view(bits))
            return torch.where(is_defined, result.view(bits), other).view(result.dtype)
        terms = _terms(target, args, result)
        if terms > 1 and isinstance(result, torch.Tensor) and result.is_floating_point():
            each = torch.finfo(torch.float32).eps * self._scale * math.sqrt(terms) / 4
            if self._products and result.dtype == torch.float32:
                each += torch.finfo(self._products).eps * self._scale
            if result.dtype == torch.float64:
                each *= torch.finfo(torch.float64).eps / torch.finfo(torch.float32).eps
            around = typical_magnitude(result.abs().float())
            if (size := _size_of_terms(target, args, kwargs)) is not None:
                around = torch.maximum(around, size.to(around).nan_to_num_(0, 0, 0))
            return self._rounded(result, each * around)
        return pytree.tree_map(self._rounded, result)

    def _rounded(self, value: Any, absolute: torch.Tensor | float = 0.0) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        device, dtype = value.device, value.dtype
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(self._seed)
        of_operands = self._products if dtype == torch.float32 else None
        ulp = torch.finfo(of_operands or dtype).eps
        result = value.to(torch.float64 if dtype == torch.float64 else torch.float32, copy=True)
        bounds = None
        if isinstance(absolute, torch.Tensor):
            bounds = _flattened(torch.empty_like(result).copy_(absolute))
        most = 1 / (16 * ulp) + 0.25  # every larger value is a multiple of one half
        part = _PART if device.type == "cpu" else max(1, result.numel())
        for index, exact in enumerate(_flattened(result).split(part)):
            bound = absolute if bounds is None else bounds[index * part :][: len(exact)]
            change = torch.mul(exact, ulp * self._scale).add_(bound)
            change.mul_(self._noise(exact)).nan_to_num_(0, 0, 0)
            exact.add_(change.mul_(exact.clamp(-most, most).mul_(2).frac_().ne_(0)))
        return result.to(dtype)

    def _noise(self, like: torch.Tensor) -> torch.Tensor:
        """Random values from -1 to 1. On the CPU, where generation is slow, slices of one cached
        tensor."""
        generator = self._generators[like.device]
        if like.device.type != "cpu":
            return torch.empty_like(like).uniform_(-1, 1, generator=generator)
        if like.dtype not in self._numbers:
            numbers = torch.empty(4 * _PART, dtype=like.dtype)
            self._numbers[like.dtype] = numbers.uniform_(-1, 1, generator=generator)
        first = int(torch.randint(3 * _PART, (), generator=generator))
        return self._numbers[like.dtype][first : first + len(like)]


#: At least so many operators are perturbed by `LastInterpreter`, and this fraction.
_LAST, _FRACTION = 16, 1 / 6


class LastInterpreter(CheckingInterpreter):
    """Perturbs the results of the last operators only, as `RoundingInterpreter` does, once for each
    seed, and returns of each element what differs most from the unperturbed results.

    So it finds less than the full effect of rounding, for less than the time of one full sample.
    """

    def __init__(
        self, module: GraphModule, *, seeds: int, products: torch.dtype | None = None
    ) -> None:
        super().__init__(module)
        self._whole, self._seeds, self._products = module, seeds, products
        operators = [node for node in module.graph.nodes if node.op == "call_function"]
        least = max(_LAST, round(len(operators) * _FRACTION))
        self._first = operators[-least:][0] if operators else module.graph.output_node()
        self._before: dict[Node, Any] = {}

    def _nested(self, module: GraphModule) -> Interpreter:
        return CheckingInterpreter(module)

    def run_node(self, n: Node) -> Any:
        if n is self._first:
            before = itertools.takewhile(lambda node: node is not n, self.graph.nodes)
            self._before = dict.fromkeys(before) | self.env
        return super().run_node(n)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        usual = most = super().run(*args, **kwargs)
        for seed in range(self._seeds):
            last = RoundingInterpreter(self._whole, seed=seed, products=self._products)
            most = pytree.tree_map(_farther, usual, most, last.run(initial_env={**self._before}))
        return most


def _farther(usual: Any, first: Any, second: Any) -> Any:
    """Of each element the value that is farther from the usual one."""
    if not isinstance(usual, torch.Tensor):
        return first if first != usual else second
    if not usual.is_floating_point():
        return torch.where(first == usual, second, first)
    return torch.where((second - usual).abs() > (first - usual).abs(), second, first)
