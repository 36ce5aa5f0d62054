"""Bool tensors whose bytes are neither 0 nor 1, which other libraries make by a view."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from pteron.runtime import Runtime
from tests.e2e.lowering import lower_to_file


class _Ordered(nn.Module):
    """What compares elements; algorithms leave the array if no order is one."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ascending, first = torch.sort(x, dim=-1, stable=True)
        descending, last = torch.sort(x, dim=-1, descending=True, stable=True)
        return ascending, first, descending, last, torch.mode(x, dim=-1).values


def test_any_bytes_can_be_sorted(tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    shape = (64, 1500)
    generator = np.random.default_rng(0)
    lower_to_file(torch.export.export(_Ordered(), (torch.zeros(shape, dtype=torch.bool),)), path)
    method = Runtime.get().load_program(path).load_method("forward")
    for _ in range(20):
        raw = generator.integers(0, 256, shape, np.uint8)
        found = [np.asarray(value) for value in method.execute([raw.view(np.bool_)])]
        for indices in (found[1], found[3]):
            assert (np.sort(indices, axis=-1) == np.arange(shape[1])).all()
    # And those that are bools have torch's order.
    x = torch.from_numpy(generator.integers(0, 2, shape, np.uint8)).bool()
    found = [np.asarray(value) for value in method.execute([x.numpy()])]
    for mine, wanted in zip(found[:4:2], _Ordered()(x)[:4:2], strict=True):
        np.testing.assert_array_equal(mine, wanted.numpy())


class _Rows(nn.Module):
    """Rows of bools are compared, too."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.unique(x, dim=0, return_inverse=True, return_counts=True)


def test_any_bytes_can_be_compared_by_rows(tmp_path: Path) -> None:
    """A row is one of the unique rows, byte by byte; those of bools are torch's."""
    path = tmp_path / "model.pte"
    shape = (1500, 3)
    generator = np.random.default_rng(0)
    lower_to_file(torch.export.export(_Rows(), (torch.zeros(shape, dtype=torch.bool),)), path)
    method = Runtime.get().load_program(path).load_method("forward")
    for high in (3, 256):
        raw = generator.integers(0, high, shape, np.uint8)
        rows, inverse, counts = (np.asarray(v) for v in method.execute([raw.view(np.bool_)]))
        assert counts.sum() == len(raw)
        np.testing.assert_array_equal(rows.view(np.uint8)[inverse], raw)
        np.testing.assert_array_equal(np.bincount(inverse, minlength=len(rows)), counts)
        assert len(rows) == len(np.unique(raw, axis=0))
    x = torch.from_numpy(generator.integers(0, 2, shape, np.uint8)).bool()
    found = method.execute([x.numpy()])
    for mine, wanted in zip(found, _Rows()(x), strict=True):
        np.testing.assert_array_equal(np.asarray(mine), wanted.numpy())


class _Masked(nn.Module):
    def forward(
        self, x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        return x.masked_scatter(mask, source), x.masked_select(mask)


def test_any_bytes_can_be_a_mask(tmp_path: Path) -> None:
    """All but 0 hold, and as many elements of the source are there."""
    path = tmp_path / "model.pte"
    x, source = torch.zeros(64), torch.arange(1.0, 65.0)
    example = x, torch.zeros(64, dtype=torch.bool), source
    lower_to_file(torch.export.export(_Masked(), example), path)
    method = Runtime.get().load_program(path).load_method("forward")
    generator = np.random.default_rng(0)
    raw = generator.integers(0, 2, 64, np.uint8) * generator.integers(1, 256, 64, np.uint8)
    wanted = _Masked()(x, torch.from_numpy(raw != 0), source)
    found = method.execute([x.numpy(), raw.view(np.bool_), source.numpy()])
    for mine, reference in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(mine), reference.numpy())
    # One less than the mask takes.
    short = source.numpy()[: np.count_nonzero(raw) - 1]
    path = tmp_path / "short.pte"
    example = x, example[1], torch.from_numpy(short)
    lower_to_file(torch.export.export(_Masked(), example), path)
    method = Runtime.get().load_program(path).load_method("forward")
    with pytest.raises(RuntimeError, match="expected no fewer elements"):
        method.execute([x.numpy(), raw.view(np.bool_), short])
