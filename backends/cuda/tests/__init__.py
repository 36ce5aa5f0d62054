"""Tests of the CUDA backend in Python."""
