"""Lowers a Whisper model of a folder, as transformers saves one, to a program file.

pteron export-asr FOLDER -o model.pte
pteron export-asr FOLDER -o model.pte --quantize=int8

FOLDER has config.json, generation_config.json, preprocessor_config.json, *.safetensors and
tokenizer.json: what save_pretrained() of model and processor writes. Needs the package
transformers. `pteron transcribe` runs the file.
"""

from pteron.command import checkpoint
from pteron.command.usage import command_flags

FLAGS = command_flags()
checkpoint.define_flags(FLAGS)


def run(positional: list[str]) -> bool:
    folder = checkpoint.folder_of(positional, FLAGS)
    from pteron.asr.export_speech import export

    checkpoint.lower(export, folder, FLAGS)
    return True
