"""A GPT-like decoder with a KV cache, as the two methods of one program: prefill and decode.

    gpt = Gpt()
    programs = {"prefill": export(Prefill(gpt), ...), "decode": export(Decode(gpt), ...)}

Both wrappers hold the decoder under the same name, so that weights and caches have the same names
in both methods: weights are stored once, and a session lets the methods share the cache.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim, ExportedProgram


class CachedAttention(nn.Module):
    """Self-attention over a cache of `length` steps; writes the new keys and values into it."""

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.register_buffer("keys", torch.zeros(1, heads, length, width // heads))
        self.register_buffer("values", torch.zeros(1, heads, length, width // heads))

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """`x` is [1, time, width]; `positions`, int64 [time], says where its steps stand."""
        qkv = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        self.keys.index_copy_(2, positions, k)
        self.values.index_copy_(2, positions, v)
        length = self.keys.shape[2]
        visible = torch.arange(length, device=x.device)[None, :] <= positions[:, None]
        attended = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=visible)
        return self.out(attended.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Pre-norm attention and a gated MLP."""

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.attention = CachedAttention(width, heads, length)
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x), positions)
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Gpt(nn.Module):
    """Token ids [1, time] at `positions` to logits [1, vocabulary] of the last step."""

    def __init__(
        self,
        layers: int = 12,
        width: int = 256,
        heads: int = 8,
        length: int = 128,
        vocabulary: int = 2000,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, length) for _ in range(layers))
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.places(positions)
        for block in self.blocks:
            x = block(x, positions)
        return self.head(self.norm(x[:, -1]))


class Prefill(nn.Module):
    """ids [1, time], time dynamic: fills the cache from position 0 on."""

    def __init__(self, gpt: Gpt) -> None:
        super().__init__()
        self.gpt = gpt

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.gpt(ids, torch.arange(ids.shape[1], device=ids.device))


class Decode(nn.Module):
    """One id [1, 1] at one position [1]."""

    def __init__(self, gpt: Gpt) -> None:
        super().__init__()
        self.gpt = gpt

    def forward(self, ids: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        return self.gpt(ids, position)


def make_gpt() -> Gpt:
    """The decoder with seeded weights, in eval mode."""
    torch.manual_seed(7)
    return Gpt().eval()


def export_methods(gpt: Gpt, device: str = "cpu") -> dict[str, ExportedProgram]:
    """The programs of both methods; prefill takes 2 to 64 tokens."""
    ids = torch.zeros(1, 8, dtype=torch.int64, device=device)
    position = torch.zeros(1, dtype=torch.int64, device=device)
    time = Dim("time", min=2, max=64)
    with torch.no_grad():
        return {
            "prefill": torch.export.export(Prefill(gpt), (ids,), dynamic_shapes=({1: time},)),
            "decode": torch.export.export(Decode(gpt), (ids[:, :1], position)),
        }
