"""Lowers a Whisper model of a folder, as transformers saves one, to a program file.

pteron export-asr FOLDER -o model.pte
pteron export-asr FOLDER -o model.pte --quantize=int8

FOLDER has config.json, generation_config.json, preprocessor_config.json, *.safetensors and
tokenizer.json: what save_pretrained() of model and processor writes. Needs the package
transformers. `pteron transcribe` runs the file.
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
flags.DEFINE_boolean("verify", True, "Compare the program with eager.", flag_values=FLAGS)


def run(positional: list[str]) -> bool:
    (folder,) = only(positional, "FOLDER", flag="-o")
    if FLAGS.output is None:
        raise UsageError("no output file; add -o model.pte")
    from pteron.asr.export_speech import export

    stages = Stages()
    with stages.shown():
        report = export(
            folder,
            FLAGS.output,
            backend=FLAGS.backend,
            quantize=FLAGS.quantize,
            dtype=FLAGS.dtype,
            options=pairs("option", FLAGS.option),
            verify=FLAGS.verify,
            on_stage=stages,
        )
    show(report, FLAGS.json)
    return True
