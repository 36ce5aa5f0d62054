"""Writes what is said in an audio file, with a program of `pteron export-asr`; needs no torch.

    pteron transcribe model.pte speech.wav --language=en --timestamps
    arecord -f S16_LE -r 16000 | pteron transcribe model.pte -
    ffmpeg -i talk.mp4 -f s16le -ac 1 -ar 16000 - | pteron transcribe model.pte - --raw=s16le

The file is wav, flac, ogg or mp3, whose channels are mixed; - is a pipe with wav or, with --raw,
samples of one channel at the model's rate. The text goes to stdout after each window of 30 s; the
time it took to stderr.
"""

import dataclasses
import json
import sys
import time

from pteron.command import program_file
from pteron.command.usage import UsageError, command_flags, only

FLAGS = command_flags()
program_file.define_flags(FLAGS)
FLAGS.string("language", None, "As en or english; by default what the model hears.")
FLAGS.string("task", None, "transcribe, or translate into English.")
FLAGS.boolean("timestamps", False, "A line for each segment.")
FLAGS.enum("raw", None, ["s16le", "f32le"], "Samples of a pipe without a header.")


def run(positional: list[str]) -> bool:
    name, source = only(positional, "model.pte", "FILE")
    if FLAGS.raw and source != "-":
        raise UsageError(f"--raw is of a pipe; found the file {source!r}, expected -")
    if source == "-" and sys.stdin is None:
        raise UsageError("stdin, which - is, was closed; expected a pipe")
    path, *beside = program_file.files_of(name, FLAGS.data)
    from pteron.asr.audio import read_file, read_raw
    from pteron.asr.transcriber import Transcriber

    transcriber = Transcriber(path, data_path=beside)
    rate = transcriber.sampling_rate
    begin = time.monotonic()
    try:
        segments = transcriber(
            source
            if source != "-"
            else read_raw(sys.stdin.buffer, FLAGS.raw, rate)
            if FLAGS.raw
            else read_file(sys.stdin.fileno(), rate),
            language=FLAGS.language,
            task=FLAGS.task,
            timestamps=FLAGS.timestamps,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    found = []
    for segment in segments:
        found.append(segment)
        if FLAGS.json or not segment.text.strip():
            continue
        if FLAGS.timestamps:
            print(f"[{segment.start:.2f} --> {segment.end:.2f}]{segment.text}", flush=True)
        else:
            print(segment.text, end="", flush=True)
    seconds = time.monotonic() - begin
    if FLAGS.json:
        parts = [dataclasses.asdict(segment) for segment in found]
        text = "".join(segment.text for segment in found)
        print(json.dumps({"text": text, "segments": parts, "seconds": seconds}, indent=2))
        return True
    if not FLAGS.timestamps:
        print()
    print(f"{len(found)} segments in {seconds:.2f} s", file=sys.stderr)
    return True
