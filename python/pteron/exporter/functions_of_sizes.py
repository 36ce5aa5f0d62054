"""torch's functions that count with sizes in Python or C++, for sizes that are dynamic."""

import math
from typing import Any

import sympy
import torch
import torch.nn.functional as F
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.overrides import TorchFunctionMode

_SPLITS = frozenset({torch.split, torch.Tensor.split})
_CHUNKS = frozenset({torch.chunk, torch.Tensor.chunk})
_SQUEEZES = frozenset({torch.squeeze, torch.Tensor.squeeze})
_TAKES = frozenset({torch.take_along_dim, torch.Tensor.take_along_dim})
_UNIQUES = frozenset(
    getattr(of, name) for of in (torch, torch.Tensor) for name in ("unique", "unique_consecutive")
)
_NAMES = dict.fromkeys(("split_size", "split_size_or_sections", "chunks"), "number")
_NAMES |= {"tensor": "input", "self": "input"}
_MAX_POOLS = frozenset({torch.max_pool1d, F.max_pool1d})
_INVERSE_STFTS = frozenset({torch.istft, torch.Tensor.istft})

#: Rows up to which torch.cdist computes distances one by one, and not by a matmul.
_ROWS = 25


class DynamicSizes(TorchFunctionMode):
    """Inside, functions that count with sizes in Python do not make dynamic ones constant, and take
    none to be 1."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _SPLITS or func in _CHUNKS:
            named = _named(args, kwargs)
            x, dim = named["input"], named.get("dim", 0)
            if parts := _parts(x.shape[dim], named["number"], func in _CHUNKS):
                return torch.split_with_sizes(x, parts, dim)
        elif func in _SQUEEZES:
            named = _named(args, kwargs)
            x = named["input"]
            dims = named.get("dim", named.get("number", range(x.dim())))
            dims = (dims,) if isinstance(dims, int) else dims
            if not all(type(x.shape[i]) is int for i in dims):
                return torch.squeeze(x, tuple(i for i in dims if type(x.shape[i]) is int))
        elif func is torch.cdist and str(kwargs.get("compute_mode")).endswith("_if_necessary"):
            if not all(statically_known_true(each.shape[-2] <= _ROWS) for each in args):
                kwargs = {**kwargs, "compute_mode": "donot_use_mm_for_euclid_dist"}
        elif func in _TAKES:
            named = dict(zip(("input", "indices", "dim"), args, strict=False)) | kwargs
            if (dim := named.get("dim")) is not None:
                return _take_along(named.get("input", named.get("self")), named["indices"], dim)
        elif func in _UNIQUES:
            found = func(*args, **kwargs)
            _bound_unique(args[0] if args else kwargs["input"], found)
            return found
        elif func in _OF_SIZES and any(
            type(size) is torch.SymInt
            for each in (*args, *kwargs.values())
            for size in (each.shape if isinstance(each, torch.Tensor) else (each,))
        ):
            if (found := _OF_SIZES[func](*args, **kwargs)) is not NotImplemented:
                return found
        elif func is torch.arange or func is torch.linspace:
            if (found := _evenly_spaced(func is torch.linspace, args, kwargs)) is not None:
                return found
        elif func in _MAX_POOLS or func in _INVERSE_STFTS:
            x = args[0] if args else kwargs["input"]
            if type(x.shape[-1]) is not int:
                if func in _INVERSE_STFTS:
                    return _inverse_stft(*args, **kwargs)
                return F.max_pool1d_with_indices(*args, **kwargs)[0]
        return func(*args, **kwargs)


def _named(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    named = {_NAMES.get(key, key): value for key, value in kwargs.items()}
    return {**dict(zip(("input", "number", "dim"), args, strict=False)), **named}


def _bound_unique(x: torch.Tensor, found: Any) -> None:
    """There are no more unique values than values, which torch notes for static sizes alone."""
    values = found[0] if isinstance(found, tuple) else found
    most = x.shape if values.dim() == x.dim() else (x.numel(),)
    for size, limit in zip(values.shape, most, strict=True):
        if isinstance(size, torch.SymInt) and isinstance(limit, torch.SymInt):
            upper = limit.node.shape_env.bound_sympy(limit.node.expr).upper
            if upper.is_integer and upper.is_finite:
                torch._check(size <= int(upper))


def _take_along(x: torch.Tensor, indices: torch.Tensor, dim: int) -> torch.Tensor:
    """torch.take_along_dim(), which makes sizes constant."""
    dim %= x.dim()
    sizes = torch.broadcast_shapes(
        *((*t.shape[:dim], 1, *t.shape[dim + 1 :]) for t in (x, indices))
    )
    whole = [t.expand(*sizes[:dim], t.shape[dim], *sizes[dim + 1 :]) for t in (x, indices)]
    return torch.gather(whole[0], dim, whole[1])


def _evenly_spaced(
    is_linspace: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> torch.Tensor | None:
    """linspace() of a dynamic number of floats, for which torch takes no SymInt; or arange() from a
    float to a dynamic end, whose elements torch counts in floats, and so never knows."""
    names = ("start", "end", "steps" if is_linspace else "step")
    named = {**dict(zip(names, args, strict=False)), **kwargs}
    start, end, step = (named.pop(name, None) for name in names)
    dtype = named.pop("dtype", None) or torch.get_default_dtype()
    is_float = dtype.is_floating_point
    if type(step if is_linspace else end) is not torch.SymInt or not (is_float or is_linspace):
        return None
    named["dtype"] = torch.promote_types(dtype, torch.float32) if is_float else torch.float64
    if is_linspace:  # as torch, from both ends
        n, last = torch.arange(step, **named), step - 1
        slope = (end - start) / torch.sym_max(last, 1)
        first_half = n < (step + 1) // 2
        return torch.where(first_half, start + slope * n, end - slope * (last - n)).to(dtype)
    step = 1 if step is None else step
    if type(start) is not float or int(step) != step or step < 1:
        return None
    whole = math.floor(start)
    return (torch.arange(whole, end, int(step), **named) + (start - whole)).to(dtype)


def _window(first: float, second: float, third: float = 0.0) -> Any:
    """A window that is a sum of cosines, as torch's functions compute it."""

    def window(
        window_length: Any,
        periodic: bool = True,
        alpha: float = first,
        beta: float = second,
        **options: Any,
    ) -> torch.Tensor:
        n = torch.arange(window_length, **{"dtype": torch.get_default_dtype(), **options})
        angle = n * (2 * math.pi / torch.sym_max(window_length - (not periodic), 1))
        found = alpha - beta * angle.cos() + third * (2 * angle).cos()
        return torch.where(torch.full_like(n, window_length) == 1, 1.0, found)

    return window


def _logspace(start: Any, end: Any, steps: Any, base: float = 10.0, **options: Any) -> Any:
    dtype = options.get("dtype") or torch.get_default_dtype()
    exponents = _evenly_spaced(True, (start, end, steps), options)
    return NotImplemented if exponents is None else torch.pow(base, exponents).to(dtype)


def _kron(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    dims = max(input.dim(), other.dim())
    a, b = (t.reshape((*[1] * (dims - t.dim()), *t.shape)) for t in (input, other))
    sizes = [m * n for m, n in zip(a.shape, b.shape, strict=True)]
    pairs = [i + j * dims for i in range(dims) for j in range(2)]
    outer = a.reshape(*a.shape, *[1] * dims) * b
    return outer.permute(pairs).reshape(sizes)


def _triangle(keep: Any) -> Any:
    def indices(row: Any, col: Any, offset: int = 0, **options: Any) -> torch.Tensor:
        places = keep(torch.ones(row, col, device=options.pop("device", None)), offset).nonzero()
        return places.t().to(options.get("dtype", torch.int64))

    return indices


def _combinations(input: torch.Tensor, r: int = 2, with_replacement: bool = False) -> torch.Tensor:
    if r < 2:
        return NotImplemented
    n = torch.arange(input.shape[0], device=input.device)
    places = torch.meshgrid(*[n] * r, indexing="ij")
    pairs = zip(places[:-1], places[1:], strict=True)
    kept = [a <= b if with_replacement else a < b for a, b in pairs]
    return input[torch.stack(kept).all(0).nonzero()]


def _tensor_split(input: torch.Tensor, number: Any, dim: int = 0) -> Any:
    size = input.shape[dim]
    if type(size) is int or isinstance(number, torch.Tensor):
        return NotImplemented
    if isinstance(number, int):
        starts = [size // number * i + torch.sym_min(i, size % number) for i in range(number)]
        sizes = [(size + number - 1 - i) // number for i in range(number)]
    else:
        ends = [torch.sym_min(i, size) if i >= 0 else torch.sym_max(size + i, 0) for i in number]
        starts = [0, *ends]
        sizes = [torch.sym_max(e - s, 0) for s, e in zip(starts, [*ends, size], strict=True)]
    return tuple(input.narrow(dim, s, n) for s, n in zip(starts, sizes, strict=True))


_OF_SIZES: dict[Any, Any] = {
    torch.hann_window: _window(0.5, 0.5),
    torch.hamming_window: _window(0.54, 0.46),
    torch.blackman_window: _window(0.42, 0.5, 0.08),
    torch.logspace: _logspace,
    torch.kron: _kron,
    torch.Tensor.kron: _kron,
    torch.tril_indices: _triangle(torch.tril),
    torch.triu_indices: _triangle(torch.triu),
    torch.combinations: _combinations,
    torch.tensor_split: _tensor_split,
    torch.Tensor.tensor_split: _tensor_split,
}
"""What computes the same as a function that makes sizes constant."""


def _parts(size: Any, number: Any, is_chunk: bool) -> list[Any]:
    """The sizes that split() or chunk() makes of a dynamic one, if they are equal."""
    if type(size) is int or isinstance(number, list | tuple | torch.Tensor):
        return []
    if is_chunk:
        whole = statically_known_true(size % number == 0)
        return [size // number] * number if whole else []
    count = sympy.cancel(size.node.expr / getattr(getattr(number, "node", None), "expr", number))
    return [number] * int(count) if count.is_Integer else []


def _inverse_stft(
    input: torch.Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: torch.Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: Any = None,
    return_complex: bool = False,
) -> torch.Tensor:
    """torch.istft() of a dynamic number of frames, which it makes constant."""
    hop, width = hop_length or n_fft // 4, win_length or n_fft
    norm = "ortho" if normalized else "backward"
    spectra = input.transpose(-1, -2)
    is_real = spectra.shape[-1] != n_fft if onesided is None else onesided
    invert = torch.fft.irfft if is_real and not return_complex else torch.fft.ifft
    frames = invert(spectra, n=n_fft, norm=norm)
    frames = frames if return_complex else frames.real if frames.is_complex() else frames
    real = frames.real.dtype if frames.is_complex() else frames.dtype
    if window is None:
        window = torch.ones(width, dtype=real, device=input.device)
    before = (n_fft - width) // 2
    window = F.pad(window, (before, n_fft - width - before))
    count = frames.shape[-2]
    whole = n_fft + hop * (count - 1)

    def add_overlapping(frames: torch.Tensor) -> torch.Tensor:
        columns = frames.reshape(-1, count, n_fft).transpose(1, 2)
        added = F.fold(columns, (1, whole), (1, n_fft), stride=(1, hop))
        return added.reshape(*frames.shape[:-2], whole)

    parts = torch.view_as_real(frames).unbind(-1) if frames.is_complex() else (frames,)
    sums = [add_overlapping(part * window) for part in parts]
    weight = add_overlapping((window * window).expand(count, n_fft))
    first = n_fft // 2 if center else 0
    last = whole - first if length is None else first + length
    results = [(each / weight)[..., first:last] for each in sums]
    if length is not None:
        results = [F.pad(each, (0, length - each.shape[-1])) for each in results]
    return torch.complex(*results) if frames.is_complex() else results[0]
