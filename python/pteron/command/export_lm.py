"""Lowers a language model of a folder, as transformers saves one, to a program file.

pteron export-lm FOLDER -o model.pte
pteron export-lm FOLDER -o model.pte --quantize=int8 --max-length=4096 --batch=4

FOLDER has config.json, *.safetensors and tokenizer.json: what save_pretrained() of a causal model
and of its fast tokenizer writes. Needs the package transformers. `pteron generate` runs the file.
"""

from __future__ import annotations

from absl import flags

from pteron.command import checkpoint
from pteron.command.usage import command_flags

FLAGS = command_flags()
checkpoint.define_flags(FLAGS)
flags.DEFINE_integer(
    "max-length", None, "Tokens of prompt and answer; by default 2048.", flag_values=FLAGS
)
flags.DEFINE_integer(
    "chunk", 512, "The most tokens of a prompt that are read in one call.", flag_values=FLAGS
)
flags.DEFINE_integer("batch", 1, "Texts that are generated at the same time.", flag_values=FLAGS)


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
