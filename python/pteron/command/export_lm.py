"""Lowers a language model of a folder, as transformers saves one, to a program file.

pteron export-lm FOLDER -o model.pte
pteron export-lm FOLDER -o model.pte --quantize=int8 --max-length=4096 --batch=4

FOLDER has config.json, *.safetensors and tokenizer.json: what save_pretrained() of a causal model
and of its fast tokenizer writes. Needs the package transformers. `pteron generate` runs the file.
"""

from __future__ import annotations

from absl import flags

from pteron.command.usage import Stages, UsageError, command_flags, only, pairs, show

FLAGS = command_flags()
flags.DEFINE_string("output", None, "The program file, *.pte.", short_name="o", flag_values=FLAGS)
flags.DEFINE_string("backend", "cpu", "cpu, cuda or metal.", flag_values=FLAGS)
flags.DEFINE_multi_string(
    "option", [], "BACKEND.OPTION=VALUE, as of pteron export. May be repeated.", flag_values=FLAGS
)
flags.DEFINE_string(
    "quantize", "none", "Weights: none, int8 or int4 (needs torchao).", flag_values=FLAGS
)
flags.DEFINE_string(
    "dtype", "auto", "float32, bfloat16 or float16; auto is the checkpoint's.", flag_values=FLAGS
)
flags.DEFINE_integer(
    "max-length", None, "Tokens of prompt and answer; by default 2048.", flag_values=FLAGS
)
flags.DEFINE_integer(
    "chunk", 512, "The most tokens of a prompt that are read in one call.", flag_values=FLAGS
)
flags.DEFINE_integer("batch", 1, "Texts that are generated at the same time.", flag_values=FLAGS)
flags.DEFINE_boolean("verify", True, "Compare the program with eager.", flag_values=FLAGS)


def run(positional: list[str]) -> bool:
    (folder,) = only(positional, "FOLDER", flag="-o")
    if FLAGS.output is None:
        raise UsageError("no output file; add -o model.pte")
    from pteron.llm.export_checkpoint import export

    stages = Stages()
    with stages.shown():
        report = export(
            folder,
            FLAGS.output,
            backend=FLAGS.backend,
            quantize=FLAGS.quantize,
            dtype=FLAGS.dtype,
            max_length=FLAGS["max-length"].value,
            chunk=FLAGS.chunk,
            batch=FLAGS.batch,
            options=pairs("option", FLAGS.option),
            verify=FLAGS.verify,
            on_stage=stages,
        )
    show(report, FLAGS.json)
    return True
