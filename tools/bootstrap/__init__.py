"""Finds or sets up a Bazel that can build this repository. See README.md."""
