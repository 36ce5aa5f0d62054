"""Compares lowered programs with exported ones, on the example inputs and others.

    reports = verify(program, references, edge_programs, write)   # {"forward": MethodVerification}

`reference` runs the exported program, `execution` the lowered one, `other_inputs` creates further
inputs, `comparison` compares outputs, and `bisection` finds the first operator that differs.
`to_executorch()` does all of this by default.
"""
