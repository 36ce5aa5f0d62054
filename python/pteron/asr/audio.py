"""Samples of audio files and pipes, by libsndfile (wav, flac, ogg, mp3) and soxr."""

import os
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from pteron.llm.generator import import_package

Samples = np.ndarray[Any, np.dtype[np.float32]]


def read_file(source: str | os.PathLike[str] | int | BinaryIO, rate: int) -> Iterator[Samples]:
    """Pieces of about a second each, float32 from -1 to 1; the mean of all channels.

    Args:
      source: a path, an open file, or a file descriptor, which may be of a pipe.
      rate: samples a second; audio of another rate is resampled.

    Raises:
      ValueError: it is no audio file.
      OSError: it cannot be read.
      ImportError: the packages soundfile or soxr are not installed.
    """
    soundfile = import_package("soundfile", "speech")
    is_path = isinstance(source, str | os.PathLike)
    name = repr(os.fspath(source)) if is_path else "what was given"  # type: ignore[arg-type]
    # A path is opened here for its errors; libsndfile reads pipes only by descriptor.
    stream: Any = open(source, "rb") if is_path else source  # type: ignore[arg-type]
    try:
        with soundfile.SoundFile(stream, closefd=False) as file:
            yield from _resampled(file, rate)
    except soundfile.LibsndfileError as error:
        raise ValueError(
            f"{name} is no audio that libsndfile reads: {error.error_string}\n"
            "expected a file of wav, flac, ogg or mp3, or wav in a pipe"
        ) from error
    finally:
        if is_path:
            stream.close()


def _resampled(file: Any, rate: int) -> Iterator[Samples]:
    resampler = None
    if file.samplerate != rate:
        soxr = import_package("soxr", "speech")
        resampler = soxr.ResampleStream(file.samplerate, rate, 1, dtype="float32")
    while len(channels := file.read(file.samplerate, dtype="float32", always_2d=True)):
        piece = channels.mean(1)
        yield resampler.resample_chunk(piece) if resampler else piece
    if resampler:
        yield resampler.resample_chunk(np.zeros(0, np.float32), last=True)


def read_raw(stream: BinaryIO, kind: str, rate: int) -> Iterator[Samples]:
    """Pieces of at most a second of samples without a header, as soon as they come.

    Args:
      kind: "s16le" or "f32le", as of ffmpeg.

    Raises:
      ValueError: the stream ends within a sample.
    """
    dtype = np.dtype({"s16le": "<i2", "f32le": "<f4"}[kind])
    scale = np.float32(1 / 32768 if kind == "s16le" else 1)
    rest = b""
    while data := stream.read1(rate * dtype.itemsize):  # type: ignore[attr-defined]
        data = rest + data
        whole = len(data) - len(data) % dtype.itemsize
        rest = data[whole:]
        yield np.frombuffer(data[:whole], dtype).astype(np.float32) * scale
    if rest:
        raise ValueError(f"the pipe ends within a sample; expected {kind}, {dtype.itemsize} bytes")
