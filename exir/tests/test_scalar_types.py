"""The table of dtypes agrees with torch."""

from __future__ import annotations

import pytest
import torch

from pteron.exir.scalar_types import scalar_type, scalar_type_by_number, scalar_types, torch_dtype


def test_table_agrees_with_torch() -> None:
    assert len(scalar_types()) == 15
    for row in scalar_types():
        dtype = torch_dtype(row.number)
        assert scalar_type(dtype) is row
        assert dtype.itemsize == row.nbytes
        assert scalar_type_by_number(row.number) is row
        assert row.dlpack_bits == 8 * row.nbytes


def test_unknown_types() -> None:
    with pytest.raises(TypeError, match="complex64; it can hold: uint8, int8"):
        scalar_type(torch.complex64)
    with pytest.raises(ValueError, match="8 is no scalar type"):
        scalar_type_by_number(8)
