"""Decompositions of random values, which Inductor would call as C functions that there are not."""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from pteron.exir.graph.exported_program import copy_graph, copy_modules, with_graph

_aten = torch.ops.aten

# Sizes of results, which torch.export has to know where they are dynamic.
_SIZES = torch.library.Library("aten", "IMPL", "Meta")
for _name in ("_sample_dirichlet", "binomial"):
    if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{_name}", "Meta"):
        _SIZES.impl(_name, lambda like, *others, **options: torch.empty_like(like))

#: Proposals of a rejection method for each value. That none is accepted, for which a loop would go
#: on, has a chance of 1e-10.
_GAMMA_PROPOSALS, _COUNT_PROPOSALS = 8, 20

#: Counts with a lower mean are found by adding up chances, of as many as matter (1e-15).
_FEW, _FEW_MOST = 10, 45


def random_values() -> dict[OpOverload, Callable[..., Any]]:
    """The decompositions. A torch.Generator is not asked: a program has one source of random
    values."""
    table: dict[OpOverload, Callable[..., torch.Tensor]] = {
        _aten.normal_functional.default: _normal_like,
        _aten.normal.Tensor_float: _normal,
        _aten.normal.float_Tensor: _normal,
        _aten.normal.Tensor_Tensor: _normal,
        _aten.uniform.default: _uniform,
        _aten.bernoulli.default: lambda p: _bernoulli(p, p),
        _aten.bernoulli.p: _bernoulli,
        _aten.bernoulli.Tensor: _bernoulli,
        _aten.multinomial.default: _multinomial,
        _aten._standard_gamma.default: _standard_gamma,
        _aten._sample_dirichlet.default: _dirichlet,
        _aten.poisson.default: _poisson,
        _aten.binomial.default: _binomial,
    }
    for name in ("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like"):
        packet = getattr(_aten, name)
        for overload in packet.overloads():
            if "generator" in overload and "out" not in overload:
                table[getattr(packet, overload)] = packet
    for op, (holds, text) in _VALID.items():
        table[op] = _checked(table[op], holds, text)
    return {op: _without_generator(function) for op, function in table.items()}


#: What torch's kernels check of arguments, and how errors say it.
_VALID: dict[OpOverload, tuple[Callable[..., torch.Tensor], str]] = {
    _aten.multinomial.default: (
        lambda weights, *_: (
            ((weights >= 0) & (weights < math.inf)).all() & (weights.sum(-1) > 0).all()
        ),
        "multinomial: expected finite weights of 0 or more, in no row all 0",
    ),
    **dict.fromkeys(
        (_aten.bernoulli.default, _aten.bernoulli.Tensor),
        (lambda *given: _within(given[-1], 0, 1), "bernoulli: expected chances of 0 to 1"),
    ),
    **dict.fromkeys(
        (_aten.normal.float_Tensor, _aten.normal.Tensor_Tensor),
        (lambda _, std: _within(std, 0, math.inf), "normal: expected deviations of 0 or more"),
    ),
    _aten.poisson.default: (
        lambda rate: _within(rate, 0, math.inf),
        "poisson: expected rates of 0 or more",
    ),
}


def _within(values: torch.Tensor, low: float, high: float) -> torch.Tensor:
    return ((values >= low) & (values <= high)).all()


def _checked(
    function: Callable[..., torch.Tensor], holds: Callable[..., torch.Tensor], text: str
) -> Callable[..., torch.Tensor]:
    @functools.wraps(function)
    def check(*args: Any, **kwargs: Any) -> torch.Tensor:
        _aten._assert_async.msg(holds(*args), text)
        return function(*args, **kwargs)

    return check


def _without_generator(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    def run(*args: Any, **options: Any) -> Any:
        args = tuple(arg for arg in args if not isinstance(arg, torch.Generator))
        options.pop("generator", None)
        return function(*args, **options)

    return run


def without_generators(program: ExportedProgram) -> ExportedProgram:
    """The program without inputs for generators that no operator asks any more."""
    generators = {
        spec.arg.name
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.CUSTOM_OBJ
        and isinstance(program.constants.get(str(spec.target)), torch.Generator)
    }
    if not generators:
        return program
    graph, copies = copy_graph(program.graph)
    for node in program.graph.find_nodes(op="placeholder"):
        if node.name in generators and not node.users:
            graph.erase_node(copies.pop(node))
    return with_graph(program, copy_modules(program.graph_module), graph, copies)


def _normal_like(like: torch.Tensor, mean: float = 0, std: float = 1) -> torch.Tensor:
    return torch.randn_like(like) * std + mean


def _normal(mean: Any = 0, std: Any = 1) -> torch.Tensor:
    return torch.randn_like(mean + std) * std + mean


def _uniform(like: torch.Tensor, low: float = 0, high: float = 1) -> torch.Tensor:
    return torch.rand_like(like) * (high - low) + low


def _bernoulli(like: torch.Tensor, p: Any = 0.5) -> torch.Tensor:
    return (torch.rand_like(like, dtype=torch.float32) < p).to(like.dtype)


def _multinomial(weights: torch.Tensor, count: int, replacement: bool = False) -> torch.Tensor:
    """Where in the sums of the weights a uniform value is; without replacement, those with the
    highest ratio to an exponential value."""
    wide = weights.double()
    if replacement:
        ends = wide.cumsum(-1)
        places = torch.rand((*weights.shape[:-1], count), device=weights.device).double()
        return torch.searchsorted(ends, places * ends[..., -1:], right=True)
    ratios = wide / (-_positive(wide).log()).clamp(min=torch.finfo(torch.float32).tiny)
    return ratios.argmax(-1, keepdim=True) if count == 1 else ratios.topk(count).indices


def _standard_gamma(alpha: torch.Tensor) -> torch.Tensor:
    return _gamma(alpha).clamp(min=torch.finfo(alpha.dtype).tiny).to(alpha.dtype)


def _gamma(alpha: torch.Tensor) -> torch.Tensor:
    """In double, by G. Marsaglia and W. W. Tsang, A simple method for generating gamma variables;
    below 1 as that of alpha + 1, times a uniform value to the power of 1 / alpha."""
    alpha = alpha.double()
    d = alpha + (alpha < 1) - 1 / 3
    c = 1 / (9 * d).sqrt()
    value = d
    for _ in range(_GAMMA_PROPOSALS):
        x = torch.randn_like(alpha)
        v = (1 + c * x) ** 3
        limit = 0.5 * x * x + d * (1 - v + v.clamp(min=math.ulp(0)).log())
        value = torch.where((v > 0) & (_positive(alpha).log() < limit), d * v, value)
    return torch.where(alpha < 1, value * _positive(alpha) ** (1 / alpha), value)


def _positive(like: torch.Tensor) -> torch.Tensor:
    return 1 - torch.rand_like(like)


def _dirichlet(alpha: torch.Tensor) -> torch.Tensor:
    parts = _gamma(alpha).clamp(min=torch.finfo(torch.float64).tiny)
    limits = torch.finfo(alpha.dtype)
    shares = parts / parts.sum(-1, keepdim=True)
    return shares.clamp(limits.tiny, 1 - limits.eps / 2).to(alpha.dtype)


def _poisson(rate: torch.Tensor) -> torch.Tensor:
    mean = rate.double()
    few = _few((-mean).exp(), lambda k: mean / (k + 1))
    b = 0.931 + 2.53 * mean.sqrt()
    scale = (1.1239 + 1.1328 / (b - 3.4)).log()
    many = _many(
        b,
        -0.059 + 0.02483 * b,
        mean + 0.43,
        lambda k: mean.log() * k - mean - torch.lgamma(k + 1) - scale,
    )
    return torch.where(mean < _FEW, few, many).to(rate.dtype)


def _binomial(count: torch.Tensor, chance: torch.Tensor) -> torch.Tensor:
    n, given = torch.broadcast_tensors(count.double(), chance.double())
    p = torch.minimum(given, 1 - given)
    odds = p / (1 - p)
    few = _few((1 - p) ** n, lambda k: (n - k) / (k + 1) * odds)
    root = (n * p * (1 - p)).sqrt()
    b = 1.15 + 2.53 * root
    scale = ((2.83 + 5.1 / b) * root).log()

    def log_chance(k: torch.Tensor) -> torch.Tensor:
        return k * odds.log() - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)

    most = log_chance(((n + 1) * p).floor())
    a = -0.0873 + 0.0248 * b + 0.01 * p
    many = _many(b, a, n * p + 0.5, lambda k: log_chance(k) - most - scale)
    taken = torch.where(n * p < _FEW, few, many)
    return torch.where(given > 0.5, n - taken, taken).to(count.dtype)


def _few(chance: torch.Tensor, ratio: Callable[[int], torch.Tensor]) -> torch.Tensor:
    """A count whose chances are `chance` of 0, and of k + 1 `ratio(k)` times that of k."""
    place, end, count = torch.rand_like(chance), chance, torch.zeros_like(chance)
    for k in range(_FEW_MOST):
        count = count + (place >= end)
        chance = chance * ratio(k)
        end = end + chance
    return count


def _many(
    b: torch.Tensor,
    a: torch.Tensor,
    center: torch.Tensor,
    log_limit: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """A count by W. Hörmann's transformed rejection (PTRS and BTRS, 1993)."""
    count = center.floor()
    for _ in range(_COUNT_PROPOSALS):
        u = torch.rand_like(center) - 0.5
        s = 0.5 - u.abs()
        k = ((2 * a / s + b) * u + center).floor()
        is_taken = (_positive(center) / (a / (s * s) + b)).log() <= log_limit(k)
        count = torch.where((k >= 0) & is_taken, k, count)
    return count
