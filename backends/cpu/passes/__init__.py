"""Passes over what a CPU is compiled for."""
