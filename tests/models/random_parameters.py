"""Families of steps that do with parameters what models do: products with weights of every origin.

A weight is seldom a parameter as it is. Models slice one for query, key and value, stack those of
experts, tie one table to two layers, keep all in one flat tensor. `draw_weight` draws such an
origin for a shape; it may build on another that it draws, so that origins are nested::

    get = draw_weight(rng, module, "weight3", (8, 16))
    get(module)      # float32 [8, 16], maybe a transposed slice of a parameter [40, 3, 8]

Elements of parameters are random numbers, all different, so that a wrong offset in one shows.
See `random_steps` for what a family is.
"""

import random
from collections.abc import Callable
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import nn

from tests.models.random_steps import Shape, Step

Getter: TypeAlias = Callable[[nn.Module], torch.Tensor]

SIZES = (1, 2, 3, 7, 8, 16, 31, 32, 33, 48, 64, 65, 96, 128)
"""Rows and columns of products: about the edges of the tiles that templates cut them into."""

_LARGEST = 1 << 15  # elements of one parameter
_NESTED = 2  # origins that build on another


def draw_size(rng: random.Random) -> int:
    return rng.choice(SIZES)


def draw_weight(
    rng: random.Random,
    module: nn.Module,
    name: str,
    shape: Shape,
    dtype: torch.dtype = torch.float32,
) -> Getter:
    """A getter of a tensor of `shape`; what it needs goes into `module` under `name...`."""
    # As large as keeps a product with it as large as the other operand.
    scale = max(shape[-1] if len(shape) > 1 else 1, 1) ** -0.5
    return _draw(rng, module, name, shape, _NESTED, (dtype, scale))


def _draw(
    rng: random.Random,
    module: nn.Module,
    name: str,
    shape: Shape,
    nested: int,
    kind: tuple[torch.dtype, float],
) -> Getter:
    numel = torch.Size(shape).numel()
    if nested == 0 or not shape or 4 * numel > _LARGEST or rng.random() < 0.2:
        return _plain(rng, module, name, shape, kind)
    existing = [
        key
        for key, parameter in module.named_parameters(recurse=False)
        if parameter.is_contiguous() and parameter.numel() >= numel and parameter.dtype == kind[0]
    ]
    if existing and rng.random() < 0.2:  # of an earlier step, seen in another shape
        key = rng.choice(existing)
        first = rng.randrange(getattr(module, key).numel() - numel + 1)
        return lambda m: getattr(m, key).flatten()[first : first + numel].view(shape)

    def base(of: Shape) -> Getter:
        return _draw(rng, module, name, of, nested - 1, kind)

    return rng.choice(_ORIGINS)(rng, shape, base)


def _plain(
    rng: random.Random, module: nn.Module, name: str, shape: Shape, kind: tuple[torch.dtype, float]
) -> Getter:
    """A parameter or a buffer, with a storage of its own or in the middle of a larger one."""
    while hasattr(module, name):
        name += "x"
    dtype, scale = kind
    numel = torch.Size(shape).numel()
    before = rng.choice([0, 0, 5, 64])
    values = (torch.randn(before + numel + rng.choice([0, 3])) * scale).to(dtype)
    tensor = values[before : before + numel].view(shape)
    if rng.random() < 0.75:
        module.register_parameter(name, nn.Parameter(tensor, requires_grad=False))
    else:
        module.register_buffer(name, tensor)
    return lambda m: getattr(m, name)


# --- origins: each draws a getter of `shape` from one of another shape ---------------------------

_Base: TypeAlias = Callable[[Shape], Getter]


def _resized(shape: Shape, dim: int, size: int) -> Shape:
    return (*shape[:dim], size, *shape[dim + 1 :])


def _sliced(rng: random.Random, shape: Shape, base: _Base) -> Getter:
    dim, size = (k := rng.randrange(len(shape))), shape[k]
    first = rng.choice([0, 1, size, 16])
    get = base(_resized(shape, dim, first + size + rng.choice([0, 1, 7])))
    return lambda m: get(m).narrow(dim, first, size)


def _strided(rng: random.Random, shape: Shape, base: _Base) -> Getter:
    dim, first = rng.randrange(len(shape)), rng.randrange(2)
    get = base(_resized(shape, dim, 2 * shape[dim]))
    index = (*[slice(None)] * dim, slice(first, None, 2))
    return lambda m: get(m)[index]


def _chunked(rng: random.Random, shape: Shape, base: _Base) -> Getter:
    dim, part = rng.randrange(len(shape)), rng.randrange(3)
    get = base(_resized(shape, dim, 3 * shape[dim]))
    if rng.random() < 0.5:
        return lambda m: get(m).chunk(3, dim)[part]
    return lambda m: get(m).split(shape[dim], dim)[part]


def _transposed(rng: random.Random, shape: Shape, base: _Base) -> Getter:
    order = rng.sample(range(len(shape)), len(shape))
    get = base(tuple(shape[order.index(dim)] for dim in range(len(shape))))
    back = [order[dim] for dim in range(len(shape))]
    if len(shape) == 2 and order == [1, 0]:
        return lambda m: get(m).t()
    return lambda m: get(m).permute(back)


def _stacked(rng: random.Random, shape: Shape, base: _Base) -> Getter:
    get, index = base((3, *shape)), rng.randrange(3)
    if rng.random() < 0.5:
        return lambda m: get(m)[index]
    return lambda m: get(m).unbind(0)[index]


def _of_flat(rng: random.Random, shape: Shape, base: _Base) -> Getter:
    numel, first = torch.Size(shape).numel(), rng.choice([0, 1, 16, 100])
    get = base((first + numel + rng.choice([0, 9]),))
    return lambda m: get(m)[first : first + numel].reshape(shape)


def _expanded(rng: random.Random, shape: Shape, base: _Base) -> Getter:
    get = base(_resized(shape, rng.randrange(len(shape)), 1))
    return lambda m: get(m).expand(shape)


def _joined(rng: random.Random, shape: Shape, base: _Base) -> Getter:
    dim = rng.randrange(len(shape))
    half = shape[dim] // 2
    if half == 0:
        return base(shape)
    left, right = base(_resized(shape, dim, half)), base(_resized(shape, dim, shape[dim] - half))
    return lambda m: torch.cat([left(m), right(m)], dim)


def _piled(rng: random.Random, shape: Shape, base: _Base) -> Getter:
    if shape[0] > 4:
        return base(shape)
    rows = [base(shape[1:]) for _ in range(shape[0])]
    return lambda m: torch.stack([row(m) for row in rows])


def _computed(rng: random.Random, shape: Shape, base: _Base) -> Getter:
    get = base(shape)
    ops: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda w: w * 0.5,
        lambda w: w.flip(0),
        lambda w: w + 0.125,
        lambda w: w.contiguous(),
        lambda w: w.tril() if w.dim() > 1 else -w,
        lambda w: w / (1 + w.norm(dim=-1, keepdim=True)),
    ]
    op = rng.choice(ops)
    return lambda m: op(get(m))


def _as_strided(rng: random.Random, shape: Shape, base: _Base) -> Getter:
    """A tensor of the size that all elements need with an odd row stride, seen through it."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size + 1
    first = rng.choice([0, 3])
    get = base((first + 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)),))
    # Of a result: `as_strided` counts from where a storage begins, which may be before a parameter.
    return lambda m: (get(m) * 1.5).as_strided(shape, strides, first)


_ORIGINS = (
    _sliced,
    _sliced,
    _strided,
    _chunked,
    _chunked,
    _transposed,
    _transposed,
    _stacked,
    _of_flat,
    _expanded,
    _joined,
    _piled,
    _computed,
    _as_strided,
)


# --- families -------------------------------------------------------------------------------------


def weighted(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
    """A product of the last dimension, which may follow batches of any size."""
    source = rng.randrange(len(shapes))
    width, out = shapes[source][-1], draw_size(rng)
    heads = rng.choice([1, 2, 4])
    weight = draw_weight(rng, module, f"weight{i}", (out, width))
    by_head = draw_weight(rng, module, f"heads{i}", (heads, width, out))
    bias = _draw_bias(rng, module, f"bias{i}", out, weight)
    ops: list[Callable[[nn.Module, torch.Tensor], torch.Tensor]] = [
        lambda m, x: F.linear(x, weight(m)),
        lambda m, x: F.linear(x, weight(m), bias(m)),
        lambda m, x: F.linear(x, weight(m), bias(m)).relu() + 1,
        lambda m, x: torch.matmul(x, weight(m).t()),
        lambda m, x: x @ weight(m).t() + bias(m),
        lambda m, x: torch.einsum("...k,nk->...n", x, weight(m)),
        lambda m, x: torch.tensordot(x, weight(m), ([x.dim() - 1], [1])),
        lambda m, x: torch.einsum("...k,hkn->...hn", x, by_head(m)).flatten(-2),
        lambda m, x: torch.matmul(x, weight(m)[0]).unsqueeze(-1),
        lambda m, x: F.linear(x, weight(m).to(torch.float64).to(x.dtype)),
        lambda m, x: F.linear(F.linear(x, weight(m)), weight(m).t()),
        lambda m, x: torch.cat([F.linear(x, weight(m)), x @ weight(m)[:3].t()], -1),
        lambda m, x: F.conv1d(x.reshape(-1, width, 1), weight(m)[..., None], bias(m)).reshape(
            *x.shape[:-1], out
        ),
    ]
    op = rng.choice(ops)
    return lambda m, pool: op(m, pool[source])


def _draw_bias(
    rng: random.Random, module: nn.Module, name: str, size: int, weight: Getter
) -> Getter:
    """A weight of one dimension, or a column of the matrix that it goes with."""
    if rng.random() < 0.2:
        return lambda m: weight(m)[:, 0]
    return draw_weight(rng, module, name, (size,))


def batched(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
    """Products of matrices, one by one or in batches, with the weight on either side."""
    source = rng.randrange(len(shapes))
    *batch, rows, width = shapes[source]
    out = draw_size(rng)
    left = draw_weight(rng, module, f"left{i}", (out, rows))
    right = draw_weight(rng, module, f"right{i}", (width, out))
    bias = draw_weight(rng, module, f"bias{i}", (rows, out))
    ops: list[Callable[[nn.Module, torch.Tensor], torch.Tensor]] = [
        lambda m, x: left(m) @ x,
        lambda m, x: left(m) @ x @ right(m),
        lambda m, x: torch.einsum("or,...rw->...ow", left(m), x),
        lambda m, x: x.transpose(-1, -2) @ left(m).t(),
        lambda m, x: torch.einsum("...rw,wo->...or", x, right(m)),
    ]
    if len(shapes[source]) == 2:
        ops += [
            lambda m, x: torch.addmm(bias(m), x, right(m), beta=0.5, alpha=2),
            lambda m, x: torch.addmm(bias(m)[0], x, right(m)),
            lambda m, x: torch.mm(x, right(m)) + bias(m),
            lambda m, x: torch.mv(x, right(m)[:, 0])[None],
            lambda m, x: torch.mm(left(m), x),
        ]
    elif len(shapes[source]) == 3:
        lefts = draw_weight(rng, module, f"lefts{i}", (*batch, out, rows))
        rights = draw_weight(rng, module, f"rights{i}", (*batch, width, out))
        biases = draw_weight(rng, module, f"biases{i}", (*batch, 1, out))
        ops += [
            lambda m, x: torch.bmm(x, rights(m)),
            lambda m, x: torch.bmm(lefts(m), x),
            lambda m, x: torch.baddbmm(biases(m), x, rights(m)),
            lambda m, x: torch.baddbmm(biases(m), x, rights(m), beta=0.5, alpha=2),
            lambda m, x: torch.einsum("brw,bwo->bro", x, rights(m)),
            lambda m, x: torch.bmm(x, right(m).expand(*batch, width, out)),
            lambda m, x: torch.matmul(x[:, None], rights(m)[:1]).flatten(0, 1),
        ] * 2
    op = rng.choice(ops)
    return lambda m, pool: op(m, pool[source])


def of_inputs(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
    """Products whose operands are both views of what the module was given or has computed."""
    source = rng.randrange(2) if rng.random() < 0.6 else rng.randrange(len(shapes))
    rows, width = shapes[source][-2:]
    half_rows, half = (rows + 1) // 2, (width + 1) // 2
    ops: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: x[..., :half] @ x[..., width - half :].transpose(-1, -2),
        lambda x: x[..., ::2] @ x[..., ::2].transpose(-1, -2),
        lambda x: x[..., :half_rows, :] @ x[..., rows - half_rows :, :].transpose(-1, -2),
        lambda x: x.transpose(-1, -2)[..., ::2, :] @ x,
        lambda x: F.linear(x, x.flatten(0, -2)[rows - half_rows :]),
        lambda x: F.linear(x, x[..., -1:, :].flatten(0, -2)[0].expand(7, width)),
        lambda x: torch.einsum("...ik,...jk->...ij", x[..., :half], x[..., -half:]),
        lambda x: x @ x.flatten()[-width:].view(width, 1),
    ]
    op = rng.choice(ops)
    return lambda m, pool: op(pool[source]) / width**0.5


def convolved(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step | None:
    """Convolutions with weights of every origin: 1x1, grouped, depthwise, transposed.

    What follows may be numbers for each channel, such as those of a norm.
    """
    fitting = [j for j, shape in enumerate(shapes) if len(shape) == 3 and min(shape[1:]) >= 3]
    if not fitting:
        return None
    source = rng.choice(fitting)
    images = rng.random() < 0.5  # [channels, rows, columns], else [batch, channels, length]
    channels = shapes[source][0 if images else 1]
    groups = rng.choice([1, 1, channels, 2 if channels % 2 == 0 else 1])
    out = groups * rng.choice([1, 2, 3, 8]) if groups > 1 else rng.choice([1, 7, 16, 33, channels])
    size = rng.choice([1, 1, 2, 3])
    sizes = (size, size) if images else (size,)
    weight = draw_weight(rng, module, f"kernel{i}", (out, channels // groups, *sizes))
    turned = draw_weight(rng, module, f"turned{i}", (channels, out // groups, *sizes))
    bias = draw_weight(rng, module, f"bias{i}", (out,))
    factors = draw_weight(rng, module, f"factors{i}", (out, *[1] * len(sizes)))
    scale = (channels // groups * size ** len(sizes)) ** -0.5
    followers: list[Callable[[nn.Module, torch.Tensor], torch.Tensor]] = [
        lambda m, y: y,
        lambda m, y: y * 0.25,
        lambda m, y: y * factors(m) - bias(m).view(-1, *[1] * len(sizes)),
        lambda m, y: F.batch_norm(y, bias(m), bias(m).square() + 1, bias(m), bias(m)),
    ]
    stride = rng.choice([1, 1, 2])
    conv = F.conv2d if images else F.conv1d
    back = F.conv_transpose2d if images else F.conv_transpose1d
    ops: list[Callable[[nn.Module, torch.Tensor], torch.Tensor]] = [
        lambda m, x: conv(x, weight(m), bias(m), stride, groups=groups),
        lambda m, x: conv(x, weight(m), None, stride, size // 2, groups=groups),
        lambda m, x: conv(x, weight(m), bias(m), stride, size // 2, groups=groups).relu(),
        lambda m, x: back(x, turned(m), bias(m), stride, groups=groups),
    ]
    op, then = rng.choice(ops), rng.choice(followers)
    if images:
        return lambda m, pool: then(m, op(m, pool[source][None]))[0] * scale
    return lambda m, pool: then(m, op(m, pool[source])) * scale


def attention(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step | None:
    """`nn.MultiheadAttention`: of a tensor with itself, of two, of three."""
    fitting = [j for j, shape in enumerate(shapes) if len(shape) == 3]
    if not fitting:
        return None
    source = rng.choice(fitting)
    width = shapes[source][-1]
    heads = rng.choice([1, 2, 4])
    how = rng.choice(["self", "keys are values", "apart", "other widths"])
    embedding = heads * rng.choice([4, 8, 16])
    module.add_module(
        f"attention{i}",
        nn.MultiheadAttention(
            embedding,
            heads,
            bias=rng.random() < 0.7,
            add_bias_kv=rng.random() < 0.2,
            batch_first=True,
            **({"kdim": width, "vdim": width} if how == "other widths" else {}),
        ),
    )
    inside = draw_weight(rng, module, f"inside{i}", (embedding, width))

    def attend(m: nn.Module, pool: list[torch.Tensor]) -> torch.Tensor:
        query = F.linear(pool[source], inside(m))
        key, value = {
            "self": lambda: (query, query),
            "keys are values": lambda: (query * 0.5, None),
            "apart": lambda: (query.sin(), query + 1),
            "other widths": lambda: (pool[source], pool[source] + 1),
        }[how]()
        value = key if value is None else value
        return getattr(m, f"attention{i}")(query, key, value, need_weights=False)[0]

    return attend


def experts(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
    """A sum over experts, whose weights are stacked in one parameter, by a gate."""
    source, out, count = rng.randrange(len(shapes)), draw_size(rng), rng.choice([2, 3])
    width = shapes[source][-1]
    gate = draw_weight(rng, module, f"gate{i}", (count, width))
    stack = draw_weight(rng, module, f"experts{i}", (count, out, width))
    biases = draw_weight(rng, module, f"biases{i}", (count, out))

    def mixed(m: nn.Module, pool: list[torch.Tensor]) -> torch.Tensor:
        x = pool[source]
        share = torch.softmax(F.linear(x, gate(m)), -1)
        return sum(
            share[..., e : e + 1] * F.linear(x, stack(m)[e], biases(m)[e]) for e in range(count)
        )

    return mixed


def tied(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
    """One table for embedding and output, or one weight in products of several shapes."""
    source, rows = rng.randrange(len(shapes)), rng.choice([11, 32, 65])
    width = shapes[source][-1]
    table = draw_weight(rng, module, f"table{i}", (rows, width))
    half = (width + 1) // 2
    ops: list[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = [
        lambda w, x: F.linear(F.embedding((x[..., 0].abs() * 7).long() % rows, w) + x, w),
        lambda w, x: (
            F.linear(F.linear(x, w), w.t()) + F.linear(x[..., :half], w[:width, :half])
            if width <= rows
            else F.linear(x, w) @ w
        ),
        lambda w, x: torch.cat([F.linear(x, w[5:]), F.linear(x, w[:5])], -1),
        lambda w, x: torch.cat([F.linear(x[..., half:], w[:, half:]), F.linear(x, w)], -1),
        lambda w, x: F.linear(F.layer_norm(x, (width,), w[1] + 1, w[2]), w),
    ]
    if width == 1:
        ops.pop(3)  # half of it is nothing
    op = rng.choice(ops)
    return lambda m, pool: op(table(m), pool[source])


def affine(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
    """Weights outside products: norms, tables, element by element."""
    source = rng.randrange(len(shapes))
    width = shapes[source][-1]
    weight = draw_weight(rng, module, f"scale{i}", (width,))
    bias = draw_weight(rng, module, f"shift{i}", (width,))
    table = draw_weight(rng, module, f"table{i}", (9, width))
    ops: list[Callable[[nn.Module, torch.Tensor], torch.Tensor]] = [
        lambda m, x: x * weight(m) + bias(m),
        lambda m, x: F.rms_norm(x, (width,), weight(m) + 1, eps=1e-2),
        lambda m, x: F.batch_norm(x.flatten(0, -2), bias(m), weight(m).square() + 1, weight(m)),
        lambda m, x: F.embedding((x.abs() * 7).long() % 9, table(m)).mean(-2),
        lambda m, x: F.embedding_bag((x.flatten(0, -2).abs() * 7).long() % 9, table(m)),
        lambda m, x: F.prelu(x.flatten(0, -2), weight(m)),
        lambda m, x: x + torch.index_select(table(m), 0, (x[..., 0].flatten() * 0 + 3).long())[0],
        lambda m, x: torch.outer(weight(m), bias(m)) * x.flatten()[:1],
    ]
    op = rng.choice(ops)
    return lambda m, pool: op(m, pool[source])


def half_precision(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
    """Products in float16 and bfloat16, or in double precision."""
    source, out = rng.randrange(len(shapes)), draw_size(rng)
    width = shapes[source][-1]
    dtype = rng.choice([torch.float16, torch.bfloat16, torch.float64])
    weight = draw_weight(rng, module, f"weight{i}", (out, width), dtype)
    bias = draw_weight(rng, module, f"bias{i}", (out,), dtype)
    ops: list[Callable[[nn.Module, torch.Tensor], torch.Tensor]] = [
        lambda m, x: F.linear(x, weight(m), bias(m)),
        lambda m, x: F.linear(x, weight(m)),
        lambda m, x: torch.matmul(x, weight(m).t()).relu(),
        lambda m, x: torch.matmul(x, x.transpose(-1, -2)) / width**0.5,
    ]
    op = rng.choice(ops)

    def rounded(m: nn.Module, pool: list[torch.Tensor]) -> torch.Tensor:
        x = pool[source]
        return op(m, x.to(weight(m).dtype)).to(x.dtype)

    return rounded
