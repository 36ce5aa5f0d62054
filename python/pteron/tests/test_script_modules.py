"""Modules of TorchScript, as they are loaded from a file or are part of others."""

import io
from pathlib import Path
from typing import Any

import torch
from torch import nn

import pteron
from pteron.exporter import export_methods


class Part(nn.Module):
    """As detectors of voice: loops and conditions that TorchScript has compiled."""

    def __init__(self, steps: int = 2) -> None:
        super().__init__()
        self.linear, self.layer, self.norm = nn.Linear(3, 3), nn.LSTM(3, 4), nn.BatchNorm1d(3)
        self.steps = steps

    def forward(self, x: torch.Tensor, scale: float = 0.5) -> tuple[torch.Tensor, torch.Tensor]:
        for i in range(self.steps):
            if i % 2 == 0:
                x = self.norm(self.linear(x)) * scale
        out, _ = self.layer(x[None])
        x += 1
        return out.view(x.size(0), -1), x


class Whole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.parts = nn.ModuleList([torch.jit.script(Part().eval()), nn.ReLU()])

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.parts[0](self.first(x))

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.forward(x)[0] + 1


X = torch.randn(2, 3)


def test_one_from_a_file(tmp_path: Path) -> None:
    saved, model = io.BytesIO(), torch.jit.script(Part())
    torch.jit.save(model, saved)
    saved.seek(0)
    loaded, path = torch.jit.load(saved), tmp_path / "model.pte"
    pteron.export(loaded, {"x": X}, path)
    assert loaded.training
    method = pteron.Runtime.get().load_program(path).load_method("forward")
    x = torch.randn(2, 3)
    found = [torch.as_tensor(each) for each in method(x=x)]
    torch.testing.assert_close(found, [*loaded.eval()(x)])


def test_parts_and_methods() -> None:
    model = Whole().eval()
    methods = {"forward": (model, (X,)), "encode": (model.encode, (X,))}
    programs = export_methods(methods)[0]
    assert "first.weight" in programs["encode"].state_dict
    x = torch.randn(2, 3)
    torch.testing.assert_close(programs["forward"].module()(x), model(x))
    torch.testing.assert_close(programs["encode"].module()(x), model.encode(x))
    assert isinstance(model.parts[0], torch.jit.ScriptModule)


def test_a_dynamic_size() -> None:
    traced: Any = torch.jit.trace(nn.Sequential(nn.Conv1d(3, 4, 1), nn.ReLU()).eval(), X[..., None])
    shapes = ({0: torch.export.Dim("n", max=8)},)
    program = export_methods(traced, (X[..., None],), None, shapes)[0]["forward"]
    x = torch.randn(5, 3, 1)
    torch.testing.assert_close(program.module()(x), traced(x))
