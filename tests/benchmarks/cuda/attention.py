"""Attention: torch's ways, flex_attention compiled, plain products, and ours, on the GPU.

bfloat16, keys and values of the module; the query is its input, as a projection leaves it (heads
next to items), and so is the output. Ours is the program of default options, exported on the GPU,
launched from C++; all others from Python, with a head start of the host, so that what is compared
is the GPU's time.
"""

import dataclasses
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from pteron.command.contender import text_table
from tests.benchmarks.cuda.models import Launcher, lower
from tests.benchmarks.cuda.timing import Launch, interleaved, relative_error, timed


@dataclasses.dataclass(frozen=True)
class Row:
    """Sizes of one case.

    `mask` is none, causal, bool (causal, as a tensor) or padding (of the last quarter of the keys);
    it is a buffer, or an input of each call if it is `given`.
    """

    batch: int
    heads: int
    shared: int
    queries: int
    keys: int
    items: int
    mask: str = "causal"
    given: bool = False


SIZES = (
    (1, 16, 16, 512, 512, 64),
    (4, 16, 16, 512, 512, 64),
    (1, 32, 8, 2048, 2048, 128),
    (1, 32, 8, 8192, 8192, 128),
)
ROWS = (
    *(Row(*sizes) for sizes in SIZES),
    Row(1, 32, 8, 1, 4096, 128, "none"),
    *(
        row
        for given in (False, True)
        for row in (
            *(Row(*sizes, mask, given) for sizes in SIZES[:3] for mask in ("bool", "padding")),
            Row(1, 32, 8, 1, 4096, 128, "padding", given),
        )
    ),
)
_TORCH = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "products": SDPBackend.MATH,
}


class Attention(nn.Module):
    """Keys and values are buffers, and so is a mask that is not given with each call."""

    def __init__(self, row: Row) -> None:
        super().__init__()
        self.causal = row.mask == "causal"
        self.grouped = row.heads != row.shared
        sizes = (row.batch, row.shared, row.keys, row.items)
        for name in ("k", "v"):
            self.register_buffer(name, torch.randn(sizes, device="cuda", dtype=torch.bfloat16))
        mask = None
        if row.mask == "bool":
            every = torch.ones(1, 1, row.queries, row.keys, dtype=torch.bool, device="cuda")
            mask = every.tril()
        elif row.mask == "padding":
            kept = torch.arange(row.keys, device="cuda") < row.keys - row.keys // 4
            mask = kept.expand(row.batch, 1, row.queries, row.keys).contiguous()
        self.register_buffer("mask", mask)
        self.given = row.given

    def inputs(self, q: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Of one call."""
        return (q, self.mask) if self.given else (q,)

    def forward(self, q: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        y = F.scaled_dot_product_attention(
            q.transpose(1, 2),
            self.k,
            self.v,
            mask if self.given else self.mask,
            is_causal=self.causal,
            enable_gqa=self.grouped,
        )
        return y.transpose(1, 2)


def _flex(module: Attention, row: Row) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def blocks_of(mask: torch.Tensor | None) -> Any:
        def allowed(b: Any, h: Any, m: Any, n: Any) -> Any:
            return m >= n if mask is None else mask[0, 0, m, n]

        return create_block_mask(allowed, None, None, row.queries, row.keys, device="cuda")

    blocks = None if row.mask == "none" or row.given else blocks_of(module.mask)

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any, blocks: Any) -> Any:
        blocks = blocks_of(mask) if row.given else blocks
        return flex_attention(q, k, v, block_mask=blocks, enable_gqa=module.grouped)

    compiled = torch.compile(attend)

    def call(q: torch.Tensor) -> torch.Tensor:
        out = compiled(q.transpose(1, 2), module.k, module.v, module.mask, blocks)
        return out.transpose(1, 2)

    return call


def _measure(row: Row, rounds: int, launcher: Launcher, folder: Path) -> dict[str, Any]:
    torch.manual_seed(0)
    module = Attention(row).eval()
    q = torch.randn(row.batch, row.queries, row.heads, row.items, device="cuda").bfloat16()
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        exact = module.float()(*module.inputs(q.float()))
    module = module.to(torch.bfloat16)
    ways: dict[str, Launch] = {}
    errors: dict[str, float] = {}
    failed: dict[str, str] = {}

    def add(name: str, launch: Launch, result: torch.Tensor) -> None:
        errors[name] = relative_error(result, exact)
        ways[name] = launch

    # Torch's fused forms want as many heads of keys; those are made beforehand.
    wide = Attention(dataclasses.replace(row, shared=1)).eval()
    wide.k, wide.v = (t.repeat_interleave(row.heads // row.shared, 1) for t in (module.k, module.v))
    wide.mask, wide.grouped = module.mask, False
    for name, kind in _TORCH.items():

        def call(kind: SDPBackend = kind) -> torch.Tensor:
            with sdpa_kernel(kind):
                return wide(*wide.inputs(q))

        try:
            add(name, timed(call), call())
        except RuntimeError as error:
            failed[name] = str(error).partition("\n")[0]
    flex = _flex(module, row)
    try:
        add("flex", timed(lambda: flex(q)), flex(q))
    except Exception as error:
        failed["flex"] = str(error).partition("\n")[0]
    path, data = lower(module, module.inputs(q), folder)
    out = torch.empty_like(q)
    launch, result = launcher.open(path, data, module.inputs(q), out)
    launch(3)
    torch.cuda.synchronize()
    add("ours", launch, result())
    times = interleaved(ways, rounds, batch=20)
    return {
        "times": {way: dataclasses.asdict(taken) for way, taken in times.items()},
        "relative_error": errors,
        "failed": failed,
    }


def measure(rounds: int) -> list[dict[str, Any]]:
    """Times and errors of each row."""
    warnings.simplefilter("ignore")
    launcher = Launcher()
    report = []
    for row in ROWS:
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            torch._dynamo.reset()
            measured = _measure(row, rounds, launcher, Path(folder))
        report.append({"row": dataclasses.asdict(row), **measured})
    return report


def table(report: list[dict[str, Any]]) -> str:
    """One line a row; microseconds on the GPU, and ours by the best of torch's."""
    names = [*_TORCH, "flex", "ours"]
    title = "batch, heads, kv, queries, keys, items"
    rows: list[list[str | float | None]] = [[title, *names, "ours/best", "error", "host"]]
    for item in report:
        *values, given = item["row"].values()
        gpu = {name: taken["gpu_us"] for name, taken in item["times"].items()}
        best = min(gpu[name] for name in (*_TORCH, "flex") if name in gpu)
        about = item["relative_error"]["ours"], item["times"]["ours"]["host_us"]
        sizes = ", ".join(map(str, values)) + (", given" if given else "")
        rows.append([sizes, *map(gpu.get, names), gpu["ours"] / best, *about])
    return f"us\n{text_table(rows)}"
