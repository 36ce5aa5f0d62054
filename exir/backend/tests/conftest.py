"""The fixtures that the tests of exir share."""

from pteron.exir.tests.conftest import _leftovers, _seed

__all__ = ["_leftovers", "_seed"]
