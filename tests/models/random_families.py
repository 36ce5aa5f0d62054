"""Families of steps that draw on the runtime: products, windows, order, state, branches, loops.

See `random_steps` for what a family is.
"""

import random
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn
from torch.torch_version import TorchVersion

from tests.models.random_steps import UNARY, Shape, Step


def product(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
    source = rng.randrange(len(shapes))
    rank = len(shapes[source])
    ops: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: torch.matmul(x, x.transpose(-1, -2)) / 4,
        lambda x: torch.matmul(x.transpose(-1, -2), x) / 4,
        lambda x: F.scaled_dot_product_attention(x, x, x),
        lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True)[0],
        lambda x: torch.einsum("...i,...j->...ij", x, x).flatten(-2) / 4,
    ]
    if rank == 2:
        ops.append(lambda x: torch.addmm(x[:, :1], x, x.t(), beta=0.5, alpha=0.25))
    else:
        ops.append(lambda x: torch.baddbmm(x[..., :1], x, x.mT, beta=0.5, alpha=0.25))
    op = rng.choice(ops)
    return lambda m, pool: op(pool[source])


def _images(shapes: list[Shape]) -> list[int]:
    return [j for j, shape in enumerate(shapes) if len(shape) == 3 and min(shape[1:]) >= 3]


def convolution(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step | None:
    """Over the last one or two dimensions; dense, grouped, dilated, transposed."""
    flat = rng.random() < 0.5
    fitting = [j for j, s in enumerate(shapes) if len(s) == 3 and s[-1] >= 5] if flat else []
    fitting = fitting or _images(shapes)
    if not fitting:
        return None
    source = rng.choice(fitting)
    flat = flat and shapes[source][-1] >= 5
    channels = shapes[source][1 if flat else 0]
    kinds = (nn.Conv1d, nn.ConvTranspose1d) if flat else (nn.Conv2d, nn.ConvTranspose2d)
    transposed = rng.random() < 0.2
    conv = kinds[transposed](
        channels,
        channels if rng.random() < 0.7 else 2 * channels,
        3,
        padding=1,
        stride=rng.choice([1, 2]),
        groups=channels if rng.random() < 0.3 else 1,
        dilation=1 if transposed else rng.choice([1, 1, 2]),
        bias=rng.random() < 0.7,
    )
    if not flat and not transposed and conv.dilation != (1, 1) and min(shapes[source][1:]) < 5:
        return None
    module.add_module(f"conv{i}", conv)
    if flat:
        return lambda m, pool: getattr(m, f"conv{i}")(pool[source])
    return lambda m, pool: getattr(m, f"conv{i}")(pool[source][None])[0]


def window(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step | None:
    """Pooling and resizing of the last two dimensions."""
    fitting = _images(shapes)
    if not fitting:
        return None
    source = rng.choice(fitting)
    ops: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.max_pool2d(x, 3, 1, 1),
        lambda x: F.avg_pool2d(x, 2),
        lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
        lambda x: F.adaptive_max_pool2d(x, 2),
        lambda x: F.interpolate(x, scale_factor=2, mode="nearest"),
        lambda x: F.interpolate(x, size=(5, 4), mode="bilinear", align_corners=False),
        lambda x: F.pixel_shuffle(torch.cat([x] * 4, 1), 2),
        lambda x: F.unfold(x, 2).mean(1, keepdim=True),
    ]
    op = rng.choice(ops)
    return lambda m, pool: op(pool[source][None])[0]


def selection(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
    """Order, scans, and elements chosen by indices or by their values."""
    source = rng.randrange(len(shapes))
    width = shapes[source][-1]
    k = rng.randint(1, min(3, width))
    index = torch.tensor([rng.randrange(width) for _ in range(4)])
    module.register_buffer(f"index{i}", index)
    ops: list[Callable[[nn.Module, torch.Tensor], torch.Tensor]] = [
        lambda m, x: torch.topk(x, k, dim=-1)[0],
        lambda m, x: torch.sort(x, dim=-1)[0],
        lambda m, x: torch.cumsum(x, -1) / 4,
        lambda m, x: torch.cumprod(x.tanh(), -1),
        lambda m, x: x.index_select(-1, getattr(m, f"index{i}")),
        lambda m, x: x[..., getattr(m, f"index{i}")],
        lambda m, x: torch.gather(x, -1, x.argsort(dim=-1, stable=True)),
        lambda m, x: x.index_add(-1, getattr(m, f"index{i}"), x[..., :1].expand(*x.shape[:-1], 4)),
        lambda m, x: torch.scatter(x, -1, torch.zeros_like(x[..., :1], dtype=torch.int64), 0.5),
        lambda m, x: torch.scatter_reduce(x, -1, x.argsort(dim=-1, stable=True), x, "amax"),
        lambda m, x: x.masked_fill(x > 0.5, 0.25),
        lambda m, x: F.one_hot((x > 0).long(), 2).float()[..., 1],
        lambda m, x: torch.bucketize(x, x.new_tensor([-0.5, 0.0, 0.5])).float(),
        lambda m, x: torch.masked_select(x, x > 0).sum().reshape(1, 1),
        lambda m, x: (x > 0).nonzero().sum(0, keepdim=True).float() / 100,
    ]
    op = rng.choice(ops)
    return lambda m, pool: op(m, pool[source])


def lookup(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
    """Rows of a table, one by one or in bags."""
    source, rows = rng.randrange(len(shapes)), 11
    if rng.random() < 0.5:
        module.add_module(f"table{i}", nn.Embedding(rows, rng.choice([3, 8])))
        return lambda m, pool: getattr(m, f"table{i}")(
            (pool[source][..., 0].abs() * 7).long() % rows
        ).flatten(0, -2)
    module.add_module(f"table{i}", nn.EmbeddingBag(rows, 5, mode=rng.choice(["sum", "mean"])))
    return lambda m, pool: getattr(m, f"table{i}")(
        (pool[source].flatten(0, -2).abs() * 7).long() % rows
    )


def recurrence(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step | None:
    fitting = [j for j, shape in enumerate(shapes) if len(shape) == 3 and shape[1] <= 5]
    if not fitting:
        return None
    source = rng.choice(fitting)
    kind = rng.choice([nn.GRU, nn.LSTM])
    module.add_module(f"cell{i}", kind(shapes[source][-1], 4, batch_first=True))
    return lambda m, pool: getattr(m, f"cell{i}")(pool[source])[0]


def spectrum(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
    """Fourier transforms and complex numbers."""
    source = rng.randrange(len(shapes))
    ops: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: torch.fft.rfft(x, norm="ortho").abs(),
        # Away from the zeros of the imaginary part, whose signs are rounding.
        lambda x: torch.view_as_real(torch.fft.fft(x, norm="ortho")).flatten(-2) + 0.125,
        lambda x: torch.view_as_real(torch.complex(x, x + 1) * torch.complex(x, -x)).flatten(-2),
    ]
    op = rng.choice(ops)
    return lambda m, pool: op(pool[source])


def mutation(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
    """State that outlives the call, and writes to memory of the call's own."""
    source = rng.randrange(len(shapes))
    shape = shapes[source]
    module.register_buffer(f"state{i}", torch.zeros(shape))
    row = rng.randrange(shape[0])
    module.register_buffer(f"row{i}", torch.tensor([row]))

    def accumulate(m: nn.Module, pool: list[torch.Tensor]) -> torch.Tensor:
        state = getattr(m, f"state{i}")
        state.mul_(0.5).add_(pool[source])
        return state + 1

    def write_slice(m: nn.Module, pool: list[torch.Tensor]) -> torch.Tensor:
        state = getattr(m, f"state{i}")
        state[..., :1] = pool[source][..., :1]
        return state * 2

    def write_row(m: nn.Module, pool: list[torch.Tensor]) -> torch.Tensor:
        state = getattr(m, f"state{i}")
        old = state.sum(0, keepdim=True)
        state.index_copy_(0, getattr(m, f"row{i}"), pool[source][row : row + 1])
        return state + old

    def on_copy(m: nn.Module, pool: list[torch.Tensor]) -> torch.Tensor:
        local = pool[source].clone()
        local[..., 0].fill_(0.25)
        local.view(-1)[:1].mul_(2)
        return local

    return rng.choice([accumulate, write_slice, write_row, on_copy])


def control(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
    """Branches (one in another, too) and loops."""
    source = rng.randrange(len(shapes))
    op, other = rng.choice(UNARY[:8]), rng.choice(UNARY[:8])

    def branch(x: torch.Tensor) -> torch.Tensor:
        return cond(x.sum() > 0, lambda x: op(x) + 1, lambda x: other(x) * 2, x)

    def nested(x: torch.Tensor) -> torch.Tensor:
        return cond(x.amax() > 1, branch, lambda x: x * 0.5 + 1, x)

    def loop(x: torch.Tensor) -> torch.Tensor:
        count, x = _while_loop(
            lambda count, x: count < 3,
            lambda count, x: (count + 1, op(x) * 0.5 + x),
            (torch.zeros((), dtype=torch.int64, device=x.device), x),
        )
        return x + count

    def over_rows(x: torch.Tensor) -> torch.Tensor:
        return _map_rows(lambda row, bias: op(row) + bias, x, x[0] * 0.5)

    # Inductor of torch 2.11 has no code for a map, so that lowering refuses it.
    mapped = over_rows if TorchVersion(torch.__version__) >= (2, 12) else branch
    chosen = rng.choice([branch, branch, nested, loop, mapped])
    return lambda m, pool: chosen(pool[source])


# torch's operators while a module is exported, otherwise Python: what they are compared with.


def cond(
    predicate: torch.Tensor,
    then: Callable[[torch.Tensor], torch.Tensor],
    otherwise: Callable[[torch.Tensor], torch.Tensor],
    x: torch.Tensor,
) -> torch.Tensor:
    if torch.compiler.is_exporting():
        return torch.cond(predicate, then, otherwise, (x,))
    return then(x) if predicate else otherwise(x)


def _while_loop(
    goes_on: Callable[..., torch.Tensor],
    body: Callable[..., tuple[torch.Tensor, ...]],
    carried: tuple[torch.Tensor, ...],
) -> tuple[torch.Tensor, ...]:
    if torch.compiler.is_exporting():
        return torch.while_loop(goes_on, body, carried)
    while goes_on(*carried):
        carried = body(*carried)
    return carried


def _map_rows(
    op: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], x: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    if torch.compiler.is_exporting():
        from torch._higher_order_ops.map import map as map_rows

        return map_rows(op, x, bias)
    return torch.stack([op(row, bias) for row in x])
