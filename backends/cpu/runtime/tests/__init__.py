"""Tests of the CPU's shims."""
