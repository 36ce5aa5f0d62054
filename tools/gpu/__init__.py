"""Tests and benchmarks on a machine that has a GPU and no Bazel."""
