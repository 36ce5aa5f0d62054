"""The decoder of examples/decoder, larger, as the two methods of one program: prefill and decode.

    gpt = make_gpt()
    programs = {"prefill": export(Prefill(gpt), ...), "decode": export(Decode(gpt), ...)}

Both wrappers hold the decoder under the same name, so that weights and caches have the same names
in both methods: weights are stored once, and a session lets the methods share the cache.
"""

import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from examples.decoder.gpt import Gpt


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


def make_gpt(layers: int = 12) -> Gpt:
    """The decoder with seeded weights, in eval mode."""
    torch.manual_seed(7)
    return Gpt(layers=layers, width=256, heads=8, length=128, vocabulary=2000).eval()


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
