"""The same extension module under absltest."""

import numpy
from absl.testing import absltest, parameterized

import tests.proofs._vector_math as _vector_math


class NanobindTest(parameterized.TestCase):
    @parameterized.parameters(([3.0, 4.0], 5.0), ([-2.0], 2.0))
    def test_norm(self, values: list[float], expected: float) -> None:
        self.assertEqual(_vector_math.norm(numpy.array(values)), expected)


if __name__ == "__main__":
    absltest.main()
