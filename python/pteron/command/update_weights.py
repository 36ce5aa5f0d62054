"""Writes a program with the same code and other weights, without lowering.

pteron export FILE.py:function -o model.pte --option=cpu.updatable_weights=true
pteron update-weights model.pte trained.safetensors -o trained.pte

Weights are a state dict of the same module: a file .safetensors, or one that torch.load reads with
weights_only=True; several files are joined. The file must be trusted as its code is.
"""

import json

from pteron.command.usage import UsageError, command_flags, only

FLAGS = command_flags()
FLAGS.string("output", None, "The program file, *.pte.", short_name="o")
FLAGS.boolean("strict", True, "Names that are no weights of the program are an error.")


def run(positional: list[str]) -> bool:
    if len(positional) < 2:
        only(positional, "model.pte", "WEIGHTS...")
    if FLAGS.output is None:
        raise UsageError("no output file; add -o trained.pte")
    from pteron.exporter import update_weights

    files = update_weights(positional[0], positional[1:], FLAGS.output, strict=FLAGS.strict)
    if FLAGS.json:
        print(json.dumps({"files": files}, indent=2))
    else:
        print("\n".join(f"wrote     {path}, {nbytes:,} bytes" for path, nbytes in files.items()))
    return True
