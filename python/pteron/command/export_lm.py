"""Lowers a language model of a folder, as transformers saves one, to a program file.

pteron export-lm FOLDER -o model.pte
pteron export-lm FOLDER -o model.pte --quantize=int8 --max-length=4096 --batch=4

FOLDER has config.json, *.safetensors and tokenizer.json: what save_pretrained() of a causal model
and of its fast tokenizer writes. Needs the package transformers. `pteron generate` runs the file.
"""

from pteron.command import checkpoint
from pteron.command.usage import command_flags

FLAGS = command_flags()
checkpoint.define_flags(FLAGS)
FLAGS.integer("max-length", None, "Tokens of prompt and answer; by default 2048.")
FLAGS.integer("chunk", 512, "The most tokens of a prompt that are read in one call.")
FLAGS.integer("batch", 1, "Texts that are generated at the same time.")


def run(positional: list[str]) -> bool:
    folder = checkpoint.folder_of(positional, FLAGS)
    from pteron.llm.export_checkpoint import export

    checkpoint.lower(
        export,
        folder,
        FLAGS,
        max_length=FLAGS["max-length"].value,
        chunk=FLAGS.chunk,
        batch=FLAGS.batch,
    )
    return True
