"""State that models keep in buffers, in the ways that they write it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import pteron
from pteron.runtime import Runtime


class State(nn.Module):
    a: torch.Tensor
    b: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.arange(16.0).reshape(4, 4))
        self.register_buffer("b", torch.arange(16.0, 32.0).reshape(4, 4))


class Delays(nn.Module):
    """Returns what the call before gave it."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Module()
        self.part.register_buffer("last", torch.zeros(4))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> Any:
        last, self.part.last = self.part.last, x + 1
        self.count += 1
        return {"last": last, "part": last[:1], "count": self.count, "sum": last + x}


class Neurons(nn.Module):
    """A layer of spiking ones."""

    v: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("v", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.v = self.v * 0.5 + x
        spikes = (self.v > 1).float()
        self.v = self.v - spikes
        return spikes


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Neurons() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x) + 0.75
        return x


class Exchanges(State):
    def forward(self, x: torch.Tensor) -> Any:
        self.a, self.b = self.b, self.a
        return self.a + x, self.b


class ExchangesInPlace(State):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = self.a.clone(), self.b.clone()
        self.a.copy_(b)
        self.b.copy_(a)
        return self.a + x


class ExchangesTransposed(State):
    def forward(self, x: torch.Tensor) -> Any:
        a, b = self.a.t().clone(), self.b.t().clone()
        self.b.copy_(a)
        self.a.copy_(b)
        return self.a + x, self.b * 1


class Adds(State):
    def forward(self, x: torch.Tensor) -> Any:
        self.a, self.b = self.b, self.a + x
        return self.a * 1, self.b


class Shifts(State):
    """What `b` gets is what `a` was."""

    def forward(self, x: torch.Tensor) -> Any:
        a = self.a.clone()
        self.a.copy_(x.expand(4, 4))
        self.b.copy_(a)
        return self.a * 1, self.b


class Rolls(State):
    def forward(self, x: torch.Tensor) -> Any:
        first = self.a[0]
        self.a = torch.cat([self.a[1:], x[None]])
        return first, self.a


class Learns(State):
    """A state that depends on parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.a = self.cell(x.expand(4, 4), self.a)
        return self.a


class Normalizes(State):
    """Norms that train, without being in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.of_each = nn.InstanceNorm1d(1, track_running_stats=True)

    def forward(self, x: torch.Tensor) -> Any:
        self.norm.train()
        x = x + self.a
        means = self.norm.running_mean, self.norm.running_var
        y = F.batch_norm(x * 2, *means, training=True, momentum=0.3)
        z = F.instance_norm(x[:, None], self.of_each.running_mean, self.of_each.running_var)
        return self.norm(x), y, z, self.norm.running_var.clone(), self.of_each.running_mean * 1


class MakesBuffer(State):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not hasattr(self, "weights"):
            self.register_buffer("weights", torch.arange(4.0))
        return x * self.weights


@pytest.mark.parametrize(
    "kind",
    [
        Delays, Layers, Exchanges, ExchangesInPlace, ExchangesTransposed, Adds, Shifts, Rolls,
        Learns, Normalizes, MakesBuffer,
    ],
)  # fmt: skip
def test_calls_in_a_row(kind: type[nn.Module], tmp_path: Path) -> None:
    model = kind().eval()
    before = dict(model.named_buffers())
    values = {name: buffer.clone() for name, buffer in before.items()}
    report = pteron.export(model, (torch.ones(4),), tmp_path / "model.pte")
    assert "differs" not in str(report) and "sets" not in str(report)
    assert dict(model.named_buffers()).keys() == before.keys()
    for name, buffer in model.named_buffers():
        assert buffer is before[name] and torch.equal(buffer, values[name])
    method = Runtime.get().load_program(tmp_path / "model.pte").load_method("forward")
    for i in range(4):
        x = torch.tensor([0.25, 0.5, 1.0, 2.0]) * i
        with torch.no_grad():
            expected = model(x)
        torch.testing.assert_close(method(x), expected)


class Grows(nn.Module):
    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen = torch.cat([self.seen, x[None]])
        return self.seen.sum(0)


def test_buffers_that_grow_are_noted(tmp_path: Path) -> None:
    report = pteron.export(Grows(), (torch.ones(4),), tmp_path / "model.pte")
    assert "sets seen of the module in a call, and the program does not" in str(report)
