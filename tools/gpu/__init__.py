"""Tests and benchmarks on a GPU machine without Bazel."""
