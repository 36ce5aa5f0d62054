"""Runs what was lowered beside what was exported, on the inputs of the export and others, and
compares.

    reports = verify(program, references, edge_programs, write)   # {"forward": MethodVerification}

`reference` runs the exported program, `execution` the lowered one, on inputs that `other_inputs`
makes, too; `comparison` compares, and `bisection` finds the first operator that differs.
`to_executorch()` does all of it by default.
"""
