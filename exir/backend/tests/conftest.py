"""The fixtures that the tests of exir share."""

from pteron.exir.tests.conftest import _seed, only_kernels

__all__ = ["_seed", "only_kernels"]
