"""Rewrites of a partition's graph before Inductor gets it."""
