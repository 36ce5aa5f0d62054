"""Runs programs of `pteron.asr.export`; needs no torch.

transcriber = Transcriber("model.pte")
for segment in transcriber("speech.wav", language="en"):
    print(segment.start, segment.end, segment.text)
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pteron.asr.audio import Samples, read_file
from pteron.llm.generator import import_package, load_beside

if TYPE_CHECKING:
    from pteron.runtime import Method

_LARGEST = 1e15  # of samples, whose power in a window is finite in float32
_METHODS = ("features", "encode", "prefill", "decode")
_TEXT, _TIMES, _LANGUAGES = range(3)  # rules of decode


@dataclasses.dataclass(frozen=True, kw_only=True)
class Segment:
    """A part of the text.

    Attributes:
      start, end: seconds from the beginning of the audio, from timestamps if the model wrote some,
        otherwise of the window.
      text: what is said, mostly with a space before it.
      tokens: ids, with timestamps.
      language: a code as "en"; None for a model of one language.
    """

    start: float
    end: float
    text: str
    tokens: tuple[int, ...]
    language: str | None


class Transcriber:
    """Transcribes speech. May be used from several threads; each audio has caches of its own.

    Args:
      path: a program of `pteron.asr.export`, or its bytes.
      data_path, backend_options: as of `Runtime.load_program` and `Program.load_method`; by default
        the `.ptd` file that was exported beside the program.

    Attributes:
      sampling_rate: samples a second that the model takes.
      languages, tasks: what it knows; both are empty for a model of one language.
      tokenizer: a `tokenizers.Tokenizer`.

    Raises:
      ValueError: the program is not of speech.
      ImportError: the package tokenizers is not installed.
    """

    def __init__(
        self,
        path: Any,
        *,
        data_path: Any = None,
        backend_options: Mapping[str, Mapping[str, bool | int | str]] | None = None,
    ) -> None:
        self._program = load_beside(path, data_path)
        if missing := sorted({*_METHODS, "get_window_frames"} - self._program.method_names):
            name = repr(os.fspath(path)) if isinstance(path, str | os.PathLike) else "the program"
            raise ValueError(
                f"{name} is not of speech: it has no method {', '.join(missing)}.\n"
                "try:  pteron export-asr FOLDER -o model.pte"
            )
        self.sampling_rate: int = self._constant("get_sampling_rate")
        self._fft: int = self._constant("get_fft_size")
        self._hop: int = self._constant("get_hop_length")
        self._frames: int = self._constant("get_window_frames")
        self._length: int = self._constant("get_max_context_len")
        self._eos: list[int] = self._constant("get_eos_ids")
        self._first_time: int = self._constant("get_timestamp_begin")
        self._prompt: list[int] = self._constant("prompt")
        self.languages: dict[str, int] = self._constant("languages")
        self.tasks: dict[str, int] = self._constant("tasks")
        self._has_times = self._first_time < self._constant("get_vocab_size")
        self._backend_options = backend_options
        self._idle: list[dict[str, Method]] = []
        with self._methods():
            pass  # errors of loading are raised here
        tokenizers = import_package("tokenizers", "speech")
        self.tokenizer = tokenizers.Tokenizer.from_str(self._constant("tokenizer"))

    def _constant(self, name: str) -> Any:
        return self._program.load_method(name)()

    @contextlib.contextmanager
    def _methods(self) -> Iterator[dict[str, Method]]:
        """Methods of a session that no other audio uses."""
        try:
            methods = self._idle.pop()  # atomic
        except IndexError:
            session = self._program.session()
            methods = {
                name: self._program.load_method(
                    name, session=session, backend_options=self._backend_options
                )
                for name in _METHODS
            }
        try:
            yield methods
        finally:
            self._idle.append(methods)

    def __call__(
        self,
        audio: str | os.PathLike[str] | Samples | Iterable[Samples],
        *,
        language: str | None = None,
        task: str | None = None,
        timestamps: bool = False,
    ) -> Iterator[Segment]:
        """Segments of the text, as soon as they are known. Close the iterator to cancel.

        Windows of 30 s follow each other as in `transformers`: each begins where the last segment
        of the one before it ended. Audio of more than one window always has timestamps.

        Args:
          audio: a file (wav, flac, ogg or mp3); or float samples [time] from -1 to 1, at
            `sampling_rate`; or such pieces of a stream, of which windows are transcribed as soon as
            they are complete. The loudest sound, to which the model's features are relative, is
            that of the whole audio, but of a stream that of what was read.
          language: one of `languages`; by default what the model hears in the first window.
          task: one of `tasks`; by default the model's, mostly "transcribe".
          timestamps: let the model write them also if the audio fits into one window.

        Raises:
          ValueError: the model does not know language or task, or writes no timestamps; or the
            audio is empty, has other than finite samples, or as of `read_file`.
          OSError: the file cannot be read.
        """
        for name, value, known in (
            ("language", language, self.languages),
            ("task", task, self.tasks),
        ):
            if value is not None and value not in known:
                expected = f"one of {', '.join(known)}" if known else "none: it has one language"
                raise ValueError(f"{name}: found {value!r}; the model expects {expected}")
        if timestamps and not self._has_times:
            raise ValueError("timestamps: the model writes none; expected False")
        is_stream = False
        if isinstance(audio, str | os.PathLike):
            pieces: Iterable[Samples] = read_file(audio, self.sampling_rate)
        elif isinstance(audio, np.ndarray):
            pieces = [audio]
        else:
            pieces, is_stream = audio, True
        return self._segments(pieces, is_stream, language, task, timestamps)

    def _segments(
        self,
        pieces: Iterable[Samples],
        is_stream: bool,
        language: str | None,
        task: str | None,
        timestamps: bool,
    ) -> Iterator[Segment]:
        with self._methods() as methods:
            audio = Audio(methods["features"], pieces, self._frames, self._hop, self._fft)
            audio.read(self._frames if is_stream else None)
            prompt: list[int] = []
            seek = 0
            while not audio.ends_before(seek):
                features, count = audio.window(seek)
                methods["encode"](
                    features, np.array([audio.maximum], np.float32), np.array([count])
                )
                if not prompt:
                    timestamps = self._has_times and (timestamps or not audio.is_short)
                    prompt = self._prompt_of(methods["decode"], language, task, timestamps)
                tokens = self._tokens(methods, prompt, _TIMES if timestamps else _TEXT)
                parts, step = split(tokens, self._first_time, count)
                for start, end, part in parts:
                    if part:
                        yield self._segment(audio, seek, (start, end), part, prompt)
                seek += step
                audio.read(seek + self._frames)

    def _segment(
        self,
        audio: Audio,
        seek: int,
        times: tuple[int, int],
        tokens: Sequence[int],
        prompt: Sequence[int],
    ) -> Segment:
        start, end = (
            min(
                (seek + 2 * time) * self._hop / self.sampling_rate,
                audio.samples / self.sampling_rate,
            )
            for time in times
        )
        names = sorted(self.languages.items(), key=lambda item: -len(item[0]))
        codes = {token: name for name, token in names}  # the shortest
        words = [token for token in tokens if token < self._first_time]
        return Segment(
            start=start,
            end=end,
            text=self.tokenizer.decode(words, skip_special_tokens=True),
            tokens=tuple(tokens),
            language=next((codes[token] for token in prompt if token in codes), None),
        )

    def _prompt_of(
        self, decode: Method, language: str | None, task: str | None, timestamps: bool
    ) -> list[int]:
        """Tokens before the text; after the first window was read."""
        prompt = list(self._prompt)
        if task is not None or (language is not None and len(prompt) < 3):
            prompt[2:] = [self.tasks[task or "transcribe"]]
        if language is not None:
            prompt[1] = self.languages[language]
        elif -1 in prompt:
            start, zero, one = np.array([prompt[:1]]), np.array([0]), np.array([1])
            heard = decode(start, zero, one, np.array([_LANGUAGES]))["tokens"]
            prompt[1] = int(np.asarray(heard)[0, 0])
        if not timestamps and self._has_times:
            prompt.append(self._first_time - 1)
        return prompt

    def _tokens(self, methods: dict[str, Method], prompt: list[int], rules: int) -> list[int]:
        """The text of the window that was read."""
        begin, rule = np.array([len(prompt)]), np.array([rules])
        last: Any = np.array([prompt])
        position: Any = np.array([0])
        tokens: list[int] = []
        for _ in range(self._length - len(prompt)):
            method = methods["prefill" if last.shape[1] > 1 else "decode"]
            outputs = method(last, position, begin, rule)
            last, position = outputs["tokens"], outputs["position"]
            token = int(np.asarray(last)[0, 0])
            if token in self._eos:
                break
            tokens.append(token)
        return tokens


class Audio:
    """Features of audio that comes in pieces.

    Args:
      method: `features` of the program.
      pieces: the audio's samples.
      frames, hop, fft: of a window.

    Attributes:
      samples: how many were read.
      maximum: the largest feature so far.
      is_short: whether the audio has ended and fits into one window.

    Raises:
      ValueError: the audio is empty or has samples that are not finite numbers.
    """

    def __init__(
        self, method: Method, pieces: Iterable[Samples], frames: int, hop: int, fft: int
    ) -> None:
        self._frames, self._hop, self._fft = frames, hop, fft
        self.samples, self.maximum, self.is_short = 0, -np.inf, False
        self._ended = False
        self._chunks = self._computed(method, iter(pieces))
        self._read: list[Samples] = []  # chunks [1, bands, some] from frame `_dropped` on
        self._dropped = 0

    def read(self, frames: int | None) -> None:
        """Up to this frame, or to the audio's end."""
        while frames is None or self._known < frames:
            chunk = next(self._chunks, None)
            if chunk is None:
                self._ended = True
                return
            self._read.append(chunk)
            self.maximum = max(self.maximum, float(chunk.max()))

    @property
    def _known(self) -> int:
        return self._dropped + sum(chunk.shape[-1] for chunk in self._read)

    def ends_before(self, frame: int) -> bool:
        return self._ended and (
            frame >= self._known or (self.is_short and frame * self._hop >= self.samples)
        )

    def window(self, frame: int) -> tuple[Samples, int]:
        """Features [1, bands, frames] from a frame on, and how many of them there are."""
        while self._dropped + self._read[0].shape[-1] <= frame:
            self._dropped += self._read.pop(0).shape[-1]
        begin = frame - self._dropped
        found = np.concatenate(self._read[:2], -1)[:, :, begin : begin + self._frames]
        count = found.shape[-1]
        return np.pad(found, ((0, 0), (0, 0), (0, self._frames - count))), count

    def _computed(self, method: Method, pieces: Iterator[Samples]) -> Iterator[Samples]:
        half, window = self._fft // 2, self._frames * self._hop
        held = np.zeros(0, np.float32)
        has_begun = False  # the mirrored samples before the first are there
        done = 0
        for piece in pieces:
            held = np.concatenate([held, self._checked(piece)])
            if not has_begun and len(held) > window:
                held, has_begun = np.pad(held, (half, 0), mode="reflect"), True
            while has_begun and len(held) >= window + self._fft:
                yield self._call(method, held)
                held, done = held[window:], done + self._frames
        if self.samples == 0:
            raise ValueError("the audio is empty; expected at least one sample")
        if not has_begun:
            self.is_short = True
            held = np.pad(np.pad(held, (0, window - len(held))), half, mode="reflect")
            yield self._call(method, held)
            return
        held = np.pad(held, (0, half), mode="reflect")
        left = self.samples // self._hop - done
        while left > 0:
            yield self._call(method, held)[:, :, :left]
            held, left = held[window:], left - self._frames

    def _call(self, method: Method, samples: Samples) -> Samples:
        """Frames from the first of the samples on; missing samples are 0."""
        count = (self._frames - 1) * self._hop + self._fft
        samples = samples[:count]
        padded = np.pad(samples, (0, count - len(samples)))[None]
        return np.array(method(padded)["features"])

    def _checked(self, piece: Samples) -> Samples:
        piece = np.asarray(piece)
        if piece.ndim != 1 or piece.dtype.kind != "f":
            raise ValueError(
                f"the audio has the shape {list(piece.shape)} and type {piece.dtype}; expected"
                " samples [time] of a float type, from -1 to 1"
            )
        if not (np.abs(piece) <= _LARGEST).all():
            raise ValueError("the audio has samples that are NaN or too large; expected -1 to 1")
        self.samples += len(piece)
        return piece.astype(np.float32, copy=False)


def split(
    tokens: Sequence[int], first_time: int, frames: int
) -> tuple[list[tuple[int, int, Sequence[int]]], int]:
    """Segments of a window's tokens, and by how many frames the next window is later.

    Two timestamps in a row end a segment. Text after the last such pair is left to the next window.

    Args:
      first_time: the token of the timestamp 0; the following ones are two frames apart.
      frames: how many the window has.

    Returns:
      Each segment's start and end, in pairs of frames, and its tokens.
    """
    is_time = [token >= first_time for token in tokens]
    cuts = [i for i in range(1, len(tokens)) if is_time[i - 1] and is_time[i]]
    if not cuts:
        times = [token - first_time for token in tokens if token >= first_time]
        end = times[-1] if times and times[-1] > 0 else frames // 2
        return [(0, end, tokens)], frames
    is_whole = is_time[-2:] == [False, True]  # after the last timestamp nobody speaks
    if is_whole:
        cuts.append(len(tokens))
    else:
        cuts[-1] += 1
    parts = []
    for begin, cut in itertools.pairwise([0, *cuts]):
        part = tokens[begin:cut]
        end = part[-1 if is_whole or cut != cuts[-1] else -2]
        parts.append((part[0] - first_time, end - first_time, part))
    step = 2 * (tokens[cuts[-1] - 2] - first_time)
    return parts, frames if is_whole or step <= 0 else step
