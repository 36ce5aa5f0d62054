"""The table of dtypes agrees with torch."""

import torch
from absl.testing import absltest

from pteron.exir.graph.scalar_types import (
    scalar_type,
    scalar_type_by_number,
    scalar_types,
    torch_dtype,
)


class ScalarTypesTest(absltest.TestCase):
    def test_table_agrees_with_torch(self) -> None:
        self.assertLen(scalar_types(), 17)
        for row in scalar_types():
            dtype = torch_dtype(row.number)
            self.assertIs(scalar_type(dtype), row)
            self.assertEqual(dtype.itemsize, row.nbytes)
            self.assertIs(scalar_type_by_number(row.number), row)

    def test_unknown_types(self) -> None:
        with self.assertRaisesRegex(TypeError, "complex32; it can hold: uint8, int8"):
            scalar_type(torch.complex32)
        with self.assertRaisesRegex(ValueError, "8 is no scalar type"):
            scalar_type_by_number(8)


if __name__ == "__main__":
    absltest.main()
