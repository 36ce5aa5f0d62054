"""Decompositions of operators, one family per file."""
