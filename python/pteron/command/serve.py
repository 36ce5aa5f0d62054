"""Answers OpenAI's HTTP requests with a program of `pteron export-lm`; needs no torch.

    pteron serve model.pte --port=8000
    curl localhost:8000/v1/completions -H 'Content-Type: application/json' \\
        -d '{"prompt": "Once upon a time", "max_tokens": 20}'

Paths: /v1/chat/completions, /v1/completions, /v1/models, /health. It generates as many texts at the
same time as the program was exported for (--batch). After SIGTERM or Ctrl-C it takes no more
connections, and ends when the running answers are complete.
"""

from __future__ import annotations

from pathlib import Path

from absl import flags

from pteron.command import program_file
from pteron.command.usage import UsageError, command_flags, only

FLAGS = command_flags()
program_file.define_flags(FLAGS)
flags.DEFINE_string("host", "127.0.0.1", "0.0.0.0 is all interfaces.", flag_values=FLAGS)
flags.DEFINE_integer("port", 8000, "0 takes a free one.", flag_values=FLAGS)
flags.DEFINE_string("name", None, "Of the model; by default the file's.", flag_values=FLAGS)
flags.DEFINE_integer("max-queue", 64, "Texts that may wait for their turn.", flag_values=FLAGS)
flags.DEFINE_integer("max-prompt", None, "Tokens of a prompt.", flag_values=FLAGS)
flags.DEFINE_integer("max-body", 1 << 20, "Bytes of a request.", flag_values=FLAGS)
flags.DEFINE_integer(
    "drain-seconds", 60, "For running answers, after SIGTERM or Ctrl-C.", flag_values=FLAGS
)


def run(positional: list[str]) -> bool:
    (name,) = only(positional, "model.pte")
    values: dict[str, int] = {}
    for flag, least in (("max-queue", 1), ("max-body", 1), ("drain-seconds", 0)):
        values[flag] = FLAGS[flag].value or 0
        if values[flag] < least:
            raise UsageError(f"--{flag} is {values[flag]}; expected {least} or more")
    path, *beside = program_file.files_of(name, FLAGS.data)
    from pteron.llm.generator import Generator, import_package

    uvicorn = import_package("uvicorn", "serve")
    import_package("starlette", "serve")
    from pteron.llm.server import Limits, application

    generator = Generator(path, data_path=beside)
    limits = Limits(
        queue=values["max-queue"],
        prompt=FLAGS["max-prompt"].value,
        body=values["max-body"],
    )
    uvicorn.run(
        application(generator, FLAGS.name or Path(path).stem, limits),
        host=FLAGS.host,
        port=FLAGS.port,
        timeout_graceful_shutdown=values["drain-seconds"],
    )
    return True
