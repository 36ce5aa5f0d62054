"""Sequences of several lengths, as torch.nn.utils.rnn packs them for LSTM, GRU and RNN.

    with padded_sequences():
        program = torch.export.export(model, (x, lengths))

torch.export does not take packed ones, since all their sizes depend on the lengths. Inside, they
stay padded until forward() reads their parts. Recurrent layers also run the steps after the end of
a sequence, whose results nothing reads; its last state is that at its end.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch.nn import functional
from torch.nn.utils import rnn

_LAYERS = (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN)
#: A gate's input at which it is exactly open, also in float16.
_OPEN = 1e4


class _Lengths:
    """Lengths of sequences that are padded to a number of steps; `order` sorts them."""

    def __init__(
        self, lengths: torch.Tensor, steps: Any, order: torch.Tensor | None, all_steps: bool
    ) -> None:
        self.lengths, self.steps, self.order, self._all_steps = lengths, steps, order, all_steps
        self.all = torch.arange(steps, device=lengths.device)[:, None]
        self.mask = self.all < lengths  # by step and sequence

    @functools.cached_property
    def longest(self) -> Any:
        longest: Any = self.lengths.max().item()
        torch._check(longest >= 1)
        torch._check(longest <= self.steps)
        if self._all_steps:
            torch._check(longest == self.steps)
            return self.steps
        return longest

    @functools.cached_property
    def inverse(self) -> torch.Tensor | None:
        return None if self.order is None else self.order.argsort()

    @functools.cached_property
    def batch_sizes(self) -> torch.Tensor:
        return self.mask.sum(1)[: self.longest].cpu()

    @functools.cached_property
    def _rows(self) -> torch.Tensor:
        mask = self.mask if self.order is None else self.mask[:, self.order]
        return mask.flatten().nonzero()[:, 0]

    def packed(self, padded: torch.Tensor) -> torch.Tensor:
        ordered = padded if self.order is None else padded.index_select(1, self.order)
        return ordered.flatten(0, 1).index_select(0, self._rows)

    def padded(self, data: torch.Tensor) -> torch.Tensor:
        rows = data.new_zeros(self.mask.numel(), *data.shape[1:])
        rows = rows.index_copy(0, self._rows, data).unflatten(0, self.mask.shape)
        return rows if self.inverse is None else rows.index_select(1, self.inverse)

    def by_sequence(self, padded: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        """The step of each sequence."""
        index = steps[(..., *[None] * (padded.dim() - 2))]
        return padded.gather(0, index.expand(*steps.shape, *padded.shape[2:]))


class _Packed(rnn.PackedSequence):
    """Has no items: a padded tensor, of which its parts are made when they are read."""

    of: _Lengths
    padded: torch.Tensor

    def __new__(cls, *parts: Any) -> Any:
        return rnn.PackedSequence(*parts)

    _make: Any = rnn.PackedSequence._make

    @classmethod
    def made(cls, of: _Lengths, padded: torch.Tensor) -> _Packed:
        packed: _Packed = tuple.__new__(cls)
        packed.of, packed.padded = of, padded
        return packed

    def __iter__(self) -> Iterator[Any]:
        return iter((self.data, self.batch_sizes, self.sorted_indices, self.unsorted_indices))

    def __getitem__(self, key: Any) -> Any:
        return tuple(self)[key]

    def __len__(self) -> int:
        return 4

    @functools.cached_property
    def data(self) -> torch.Tensor:
        return self.of.packed(self.padded)

    @property
    def batch_sizes(self) -> torch.Tensor:
        return self.of.batch_sizes

    @property
    def sorted_indices(self) -> torch.Tensor | None:
        return self.of.order

    @property
    def unsorted_indices(self) -> torch.Tensor | None:
        return self.of.inverse


@contextlib.contextmanager
def padded_sequences(all_steps: bool = False) -> Iterator[list[_Lengths]]:
    """Inside, sequences that are packed stay padded; yields their lengths.

    `all_steps`: whether one of them has as many steps as there are, which the program checks.
    """
    made: list[_Lengths] = []

    def pack(
        input: torch.Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
    ) -> rnn.PackedSequence:
        if not isinstance(lengths, torch.Tensor):
            lengths = torch.stack([torch.scalar_tensor(n, dtype=torch.int64) for n in lengths])
        lengths = lengths.to(input.device, torch.int64, copy=True)
        padded = (input.transpose(0, 1) if batch_first else input).clone()
        order = None if enforce_sorted else lengths.sort(descending=True).indices
        made.append(_Lengths(lengths, padded.shape[0], order, all_steps))
        return _Packed.made(made[-1], padded)

    def known(sequence: rnn.PackedSequence) -> _Packed:
        """The same, also if the model has put it together from parts of another, or has read its
        data, to which it may write."""
        if isinstance(sequence, _Packed) and "data" not in vars(sequence):
            return sequence
        sizes = sequence.batch_sizes
        parts = (each for each in made if vars(each).get("batch_sizes") is sizes)
        if (of := next(parts, None)) is None:
            raise ValueError(
                "this PackedSequence was not packed in forward(): its sizes depend on values"
            )
        if of.order is not None and sequence.sorted_indices is None:  # stays sorted
            ordered = _Lengths(of.lengths[of.order], of.steps, None, all_steps)
            vars(ordered)["batch_sizes"] = of.batch_sizes
            made.append(of := ordered)
        return _Packed.made(of, of.padded(sequence.data))

    def pad(
        sequence: rnn.PackedSequence,
        batch_first: bool = False,
        padding_value: float = 0.0,
        total_length: int | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        packed = known(sequence)
        of, padded = packed.of, packed.padded
        mask = of.mask[(..., *[None] * (padded.dim() - 2))]
        padded = padded.where(mask, padding_value)
        if total_length is None:
            padded = padded[: of.longest]
        elif total_length is not of.steps:
            more = [0, 0] * (padded.dim() - 1) + [0, total_length - of.steps]
            padded = functional.pad(padded, more, value=padding_value)
        return padded.transpose(0, 1) if batch_first else padded, of.lengths.cpu()

    def forward(original: Any, layer: torch.nn.RNNBase, input: Any, hx: Any = None) -> Any:
        if not isinstance(input, rnn.PackedSequence):
            return original(layer, input, hx)
        packed = known(input)
        return _run(layer, packed.of, packed.padded, hx)

    with contextlib.ExitStack() as stack:
        for function, calls, stand_in in (
            (rnn.pack_padded_sequence, _calls_pack, pack),
            (rnn.pad_packed_sequence, _calls_pad, pad),
        ):
            # Not the function itself, since models have imported it by its name.
            stack.callback(setattr, function, "__code__", function.__code__)
            function.__code__ = calls.__code__
            name = calls.__code__.co_names[0]
            stack.enter_context(mock.patch.object(rnn, name, stand_in, create=True))
        for kind in _LAYERS:
            entered = _method(functools.partial(forward, kind.forward))
            stack.enter_context(mock.patch.object(kind, "forward", entered))
        yield made


def _calls_pack(*args: Any, **kwargs: Any) -> Any:
    return _pteron_pack(*args, **kwargs)  # type: ignore[name-defined] # noqa: F821


def _calls_pad(*args: Any, **kwargs: Any) -> Any:
    return _pteron_pad(*args, **kwargs)  # type: ignore[name-defined] # noqa: F821


def _method(function: Any) -> Any:
    return lambda *args, **kwargs: function(*args, **kwargs)


def _run(layer: torch.nn.RNNBase, of: _Lengths, x: torch.Tensor, hx: Any) -> tuple[Any, Any]:
    """What a layer returns for packed sequences."""
    is_lstm = layer.mode == "LSTM"
    directions = 2 if layer.bidirectional else 1
    parts = layer.num_layers * directions
    if hx is None:
        sizes = [layer.proj_size or layer.hidden_size, layer.hidden_size][: 1 + is_lstm]
        states = [x.new_zeros(parts, x.shape[1], size) for size in sizes]
    else:
        states = [*hx] if is_lstm else [hx]
    run = getattr(torch._VF, layer.mode.lower())
    options = (layer.bias, 1, 0.0, False, False, False)
    weights: list[Any] = layer._flat_weights
    count = len(weights) // parts
    last = of.lengths[None] - 1
    reverse = (last - of.all).where(of.mask, of.all)
    ends: list[list[torch.Tensor]] = []
    for first in range(0, parts, directions):
        outputs = []
        for i in range(first, first + directions):
            own = weights[i * count : (i + 1) * count]
            initial = [state[i : i + 1] for state in states]
            steps = x if i == first else of.by_sequence(x, reverse)
            out = run(steps, initial if is_lstm else initial[0], own, *options)[0]
            ends.append([of.by_sequence(out, last)])
            if is_lstm:
                # Dead code unless the cell's state is read: with another input that is 1 after the
                # end, which closes the input gate and opens the forget gate.
                after = ~of.mask[..., None]
                steps = torch.cat([steps.masked_fill(after, 0), after.to(x.dtype)], 2)
                gates = own[0].new_tensor([-_OPEN, _OPEN, 0, 0])
                gates = gates.repeat_interleave(layer.hidden_size)[:, None]
                own = [torch.cat([own[0], gates], 1), *own[1:]]
                ends[-1].append(run(steps, initial, own, *options)[2])
            outputs.append(out if i == first else of.by_sequence(out, reverse))
        x = torch.cat(outputs, 2)
    final = [torch.cat(each) for each in zip(*ends, strict=True)]
    return _Packed.made(of, x), tuple(final) if is_lstm else final[0]
