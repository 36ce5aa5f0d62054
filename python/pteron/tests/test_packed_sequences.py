"""Models that pack sequences of several lengths, in the ways that models do."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import (
    PackedSequence,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
)

import pteron
from pteron.exporter import export_methods


class Encoder(nn.Module):
    def __init__(self, kind: Any = nn.LSTM, batch_first: bool = True, **options: Any) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.sorts = options.pop("sorts", True)
        self.layer = kind(4, 5, batch_first=batch_first, **options)

    def pack(self, x: torch.Tensor, lengths: Any) -> PackedSequence:
        return pack_padded_sequence(x, lengths, self.batch_first, enforce_sorted=not self.sorts)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        out, states = self.layer(self.pack(x, lengths.cpu()))
        return pad_packed_sequence(out, batch_first=self.batch_first, padding_value=-1.0), states


class WithStates(Encoder):
    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        h = x[:, 0].mean(-1)[None, :, None] + torch.ones(2, 1, 5)
        states = (h, h * 2) if isinstance(self.layer, nn.LSTM) else h
        out, states = self.layer(self.pack(x, lengths), states)
        return pad_packed_sequence(out, True, total_length=x.shape[1] + 1)[0], states


class OnParts(Encoder):
    """Computes with what is in a packed sequence, and puts another together."""

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        packed = self.pack(x, lengths)
        again = PackedSequence(
            packed.data.relu(),
            packed.batch_sizes,
            packed.sorted_indices,
            packed.unsorted_indices,
        )
        out, h = self.layer(again)
        in_order, last = self.layer(PackedSequence(out.data[:, :4], out.batch_sizes))
        data, sizes, *_ = in_order
        return (
            pad_packed_sequence(out),
            h,
            data,
            data.mean(0),
            sizes,
            last,
            pad_packed_sequence(in_order),
        )


class Writes(Encoder):
    """To what was packed, which is a copy, and to the packed data."""

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        x, lengths = x.clone(), lengths.clone()
        packed = self.pack(x, lengths)
        x.mul_(2)
        lengths.fill_(1)
        packed.data.add_(1)
        return self.layer(packed)[1]


class OnNumbers(Encoder):
    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        return self.layer(self.pack(x, lengths.tolist()))[1]


class OfConstants(Encoder):
    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        packed = pack_sequence([x[0], x[1][:3], x[2][:1]])
        return pad_packed_sequence(self.layer(packed)[0])[0]


class Residual(Encoder):
    """Works if one sequence has no padding, as batches mostly are made."""

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        out, _ = pad_packed_sequence(self.layer(self.pack(x, lengths))[0], batch_first=True)
        if self.sorts == "once" and out.shape[1] < x.shape[1]:
            out = nn.functional.pad(out, (0, 0, 0, x.shape[1] - out.shape[1]))
        return out[..., :4] + x


X, LENGTHS = torch.randn(3, 6, 4), torch.tensor([2, 6, 3])
OTHERS = [torch.tensor(lengths) for lengths in ([5, 1, 5], [6, 4, 2], [1, 1, 1])]
MODELS = [
    Encoder(),
    Encoder(num_layers=2, bidirectional=True),
    Encoder(batch_first=False, proj_size=3, bias=False, num_layers=2),
    Encoder(nn.GRU, bidirectional=True, sorts=False),
    Encoder(nn.RNN, num_layers=2, nonlinearity="relu"),
    WithStates(bidirectional=True),
    WithStates(nn.GRU, num_layers=2),
    OnParts(nn.GRU),
    Writes(),
    OnNumbers(),
    OfConstants(),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{type(model).__name__}-{model.layer}")
def test_what_is_exported_does_what_the_model_does(model: Encoder) -> None:
    model.eval()
    x = X if model.batch_first else X.transpose(0, 1)

    def ordered(lengths: torch.Tensor) -> torch.Tensor:
        return lengths if model.sorts else lengths.sort(descending=True).values

    programs, notes = export_methods(model, (x, ordered(LENGTHS)))
    for lengths in map(ordered, [LENGTHS, *OTHERS]):
        found = programs["forward"].module()(x, lengths)
        torch.testing.assert_close(found, model(x, lengths))
    assert not notes


def test_of_dynamic_sizes_from_a_file(tmp_path: Path) -> None:
    model, path = Encoder(num_layers=2, bidirectional=True).eval(), tmp_path / "model.pte"
    batch, steps = torch.export.Dim("batch", max=8), torch.export.Dim("steps", max=16)
    pteron.export(model, (X, LENGTHS), path, dynamic_shapes=({0: batch, 1: steps}, {0: batch}))
    method = pteron.Runtime.get().load_program(path).load_method("forward")
    for shape, lengths in (((3, 6, 4), [5, 1, 3]), ((5, 9, 4), [2, 9, 9, 1, 4])):
        x, n = torch.randn(shape), torch.tensor(lengths)
        found = [torch.as_tensor(each) for each in method.execute([x, n])]
        (out, again), states = model(x, n)
        torch.testing.assert_close(found, [out, again, *states])


@pytest.mark.parametrize("sorts", [True, "once"])
def test_all_steps_where_the_model_needs_them(sorts: Any, tmp_path: Path) -> None:
    model, path = Residual(sorts=sorts).eval(), tmp_path / "model.pte"
    report = pteron.export(model, (X, LENGTHS), path)
    has_note = any("only lengths of which the largest is" in note for note in report.notes)
    assert has_note is (sorts == "once")
    method = pteron.Runtime.get().load_program(path).load_method("forward")
    n = torch.tensor([1, 5, 6])
    torch.testing.assert_close(torch.as_tensor(method(X, n)), model(X, n))
    with pytest.raises(RuntimeError, match=r"expected .*6, .* is 5"):
        method(X, n - 1)


def test_a_packed_input_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    class OfPacked(Encoder):
        def forward(self, packed: PackedSequence) -> Any:  # type: ignore[override]
            return self.layer(packed)[1]

    packed = pack_padded_sequence(X, LENGTHS, True, enforce_sorted=False)
    with pytest.raises(pteron.ExportError, match="the padded tensor and its lengths as inputs"):
        pteron.export(OfPacked(), (packed,), tmp_path / "model.pte")
