"""A byte-level GPT with a KV cache: `prefill` reads a prompt, `decode` continues it.

Both are methods of one module, so that they share its weights and cache, also in the program.
"""

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn
from torch.export import Dim


class CachedAttention(nn.Module):
    """Self-attention over a cache of `length` steps; writes the new keys and values into it."""

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        shape = (1, heads, length, width // heads)
        self.register_buffer("keys", torch.zeros(shape), persistent=False)
        self.register_buffer("values", torch.zeros(shape), persistent=False)

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """`x` is [batch, time, width]; `positions`, int64 [time], are the positions of its steps.

        Training uses no cache, since all steps are given.
        """
        qkv = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        if self.training:
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            self.keys.index_copy_(2, positions, k)
            self.values.index_copy_(2, positions, v)
            visible = torch.arange(self.keys.shape[2], device=x.device)[None] <= positions[:, None]
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
    """Token ids [batch, time] at `positions` to logits [batch, vocabulary] of the last step."""

    def __init__(
        self,
        layers: int = 2,
        width: int = 64,
        heads: int = 4,
        length: int = 256,
        vocabulary: int = 128,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, length) for _ in range(layers))
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return self.logits(ids, positions)

    def logits(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """In training, those of all steps."""
        x = self.tokens(ids) + self.places(positions)
        for block in self.blocks:
            x = block(x, positions)
        return self.head(self.norm(x if self.training else x[:, -1]))

    def prefill(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        """The token after the prompt ids [1, time]."""
        return _next(self.logits(ids, torch.arange(ids.shape[1], device=ids.device)))

    def decode(self, token: torch.Tensor, position: torch.Tensor) -> dict[str, torch.Tensor]:
        """The token after `token` [1, 1] at `position` [1]."""
        return _next(self.logits(token, position))


def _next(logits: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"token": logits.argmax(-1, keepdim=True), "logits": logits}


def build() -> dict[str, Any]:
    """Its methods with example inputs, for pteron_program."""
    gpt = Gpt().eval()
    gpt.load_state_dict(load_file(Path(__file__).with_name("gpt.safetensors")))
    ids, position = torch.full((1, 8), ord("e")), torch.tensor([8])
    return {
        "prefill": (gpt.prefill, (ids,), ({1: Dim("time", min=2, max=128)},)),
        "decode": (gpt.decode, (ids[:, :1], position)),
    }
