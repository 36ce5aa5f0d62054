"""Answers OpenAI's HTTP requests with a program of export-lm or export-asr; needs no torch.

    pteron serve model.pte --port=8000
    curl localhost:8000/v1/completions -H 'Content-Type: application/json' \\
        -d '{"prompt": "Once upon a time", "max_tokens": 20}'

Paths: /v1/chat/completions, /v1/completions, or of speech /v1/audio/transcriptions and
/v1/audio/translations; /v1/models, /health. It generates as many texts at the same time as the
program was exported for (--batch), and transcribes one audio at a time. After SIGTERM or Ctrl-C it
takes no more connections, and ends when the running answers are complete.
"""

from pathlib import Path

from pteron.command import program_file
from pteron.command.usage import command_flags, only

FLAGS = command_flags()
program_file.define_flags(FLAGS)
FLAGS.string("host", "127.0.0.1", "0.0.0.0 is all interfaces.")
FLAGS.integer("port", 8000, "0 takes a free one.", lower_bound=0, upper_bound=65535)
FLAGS.string("name", None, "Of the model; by default the file's.")
FLAGS.integer("max-queue", 64, "What may wait for its turn.", lower_bound=1)
FLAGS.integer("max-prompt", None, "Tokens of a prompt.", lower_bound=1)
FLAGS.integer(
    "max-body", None, "Bytes of a request; by default 1 MiB, of audio 25 MiB.", lower_bound=1
)
FLAGS.integer("max-seconds", 7200, "Seconds of audio.", lower_bound=1)
FLAGS.integer("drain-seconds", 60, "For running answers, after SIGTERM or Ctrl-C.", lower_bound=0)


def run(positional: list[str]) -> bool:
    (name,) = only(positional, "model.pte")
    path, *beside = program_file.files_of(name, FLAGS.data)
    from pteron.llm.generator import Generator, import_package, load_beside

    uvicorn = import_package("uvicorn", "serve")
    import_package("starlette", "serve")
    from pteron.llm.server import Limits

    is_speech = "encode" in load_beside(path, beside).method_names
    limits = Limits(
        queue=FLAGS.get_flag_value("max-queue", 64),
        prompt=FLAGS["max-prompt"].value,
        seconds=FLAGS.get_flag_value("max-seconds", 7200),
        body=FLAGS["max-body"].value or (25 << 20 if is_speech else 1 << 20),
    )
    name = FLAGS.name or Path(path).stem
    if is_speech:
        from pteron.asr import server as speech
        from pteron.asr.transcriber import Transcriber

        app = speech.application(Transcriber(path, data_path=beside), name, limits)
    else:
        from pteron.llm import server as text

        app = text.application(Generator(path, data_path=beside), name, limits)
    uvicorn.run(
        app,
        host=FLAGS.host,
        port=FLAGS.port,
        timeout_graceful_shutdown=FLAGS["drain-seconds"].value,
    )
    return True
