"""An extension module under pytest."""

import numpy
import pytest

import tests.proofs._vector_math as _vector_math


def test_reads_an_array() -> None:
    assert _vector_math.norm(numpy.array([3.0, 4.0], dtype=numpy.float32)) == 5.0


def test_exception_becomes_a_python_one() -> None:
    with pytest.raises(ValueError, match="found no values"):
        _vector_math.norm(numpy.zeros(0))
