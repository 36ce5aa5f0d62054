"""Graphs of programs: their operators, tensors, lowered partitions and shapes."""
