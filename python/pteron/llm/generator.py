"""Runs programs of `pteron.llm.export`; needs no torch.

generator = Generator("model.pte")
for text in generator("Once upon a time", max_new_tokens=50, temperature=0.8):
    print(text, end="", flush=True)
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import glob
import json
import numbers
import operator
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Generator as Generator_
from pathlib import Path
from typing import Any

import numpy as np

from pteron.llm.batch import Batch, Text
from pteron.runtime import Runtime

Messages = Sequence[Mapping[str, Any]]
"""A chat, as [{"role": "user", "content": "Hello"}]."""

#: Constant methods that a program of a language model has.
_CONSTANTS = ("get_max_seq_len", "get_max_context_len", "get_max_batch_size", "get_eos_ids")


#: The least and largest value of each setting, with which logits stay finite; how errors say it.
_RULES: Mapping[str, tuple[float, float, str]] = {
    "temperature": (0, 1e30, "a number from 0 to 1e30"),
    "top_k": (0, (1 << 31) - 1, f"an integer from 0 to {(1 << 31) - 1}"),
    "top_p": (1e-30, 1, "a number more than 0, at most 1"),
    "min_p": (0, 1, "a number from 0 to 1"),
    "repetition_penalty": (1e-6, 1e6, "a number from 1e-6 to 1e6"),
    "seed": (0, (1 << 63) - 1, f"an integer from 0 to {(1 << 63) - 1}"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How tokens are chosen.

    Attributes:
      temperature: of the softmax; 0 takes the likeliest token.
      top_k: how many of the likeliest tokens are considered; 0 is all.
      top_p: the share of probability that the considered tokens have together at least.
      min_p: the least probability of considered tokens, relative to the likeliest one's.
      repetition_penalty: divides positive logits of tokens that occurred, and multiplies negative
        ones; 1 is none.
      seed: the same seed gives the same text.

    Raises:
      ValueError: lists the settings that are out of range.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        wrong = []
        for field in dataclasses.fields(self):
            value: Any = getattr(self, field.name)
            least, most, expected = _RULES[field.name]
            kind = numbers.Real if field.type == "float" else numbers.Integral
            if not isinstance(value, kind) or not least <= value <= most:  # type: ignore[operator]
                wrong.append(f"{field.name} is {value!r}; expected {expected}")
        if wrong:
            raise ValueError("; ".join(wrong))

    def inputs(self) -> list[np.ndarray[Any, Any]]:
        """Inputs of `start`."""
        return [
            np.array([getattr(self, field.name)], np.float32 if field.type == "float" else np.int64)
            for field in dataclasses.fields(self)
        ]


class Generator:
    """Generates text. May be used from several threads, whose texts share steps of the program.

    A cache has rows for `batch` texts, which begin and end while others go on; if all rows are in
    use, there is another cache. What a row holds of a new prompt's beginning is not read again.

    Args:
      path: a program of `pteron.llm.export`, or its bytes.
      data_path, backend_options: as of `Runtime.load_program` and `Program.load_method`; by default
        the `.ptd` file that was exported beside the program.

    Attributes:
      max_length: tokens of a text, prompt and answer together.
      batch: texts that one step of the program continues.
      eos: ids of the tokens that end a text.
      tokenizer: a `tokenizers.Tokenizer`.

    Raises:
      ValueError: the program is no language model.
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
        needed = {"prefill", "start", "decode", "read", "tokenizer", *_CONSTANTS}
        if missing := sorted(needed - self._program.method_names):
            name = repr(os.fspath(path)) if isinstance(path, str | os.PathLike) else "the program"
            raise ValueError(
                f"{name} is no language model: it has no method {', '.join(missing)}.\n"
                "try:  pteron export-lm FOLDER -o model.pte"
            )
        self._chunk, self.max_length, self.batch, self.eos = map(self._constant, _CONSTANTS)
        self._backend_options = backend_options
        self._vocabulary = self._constant("get_vocab_size")
        self._batches = [self._new_batch()]  # errors of loading are raised here
        self._growing = threading.Lock()
        tokenizers = import_package("tokenizers")
        self.tokenizer = tokenizers.Tokenizer.from_str(self._constant("tokenizer"))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self._decoding: Callable[[list[int]], Any] = lambda ids: tokenizers.decoders.DecodeStream(
            ids=ids, skip_special_tokens=True
        )

    def _constant(self, name: str) -> Any:
        return self._program.load_method(name)()

    def _new_batch(self) -> Batch:
        return Batch(
            self._program,
            self._backend_options,
            batch=self.batch,
            length=self.max_length,
            chunk=self._chunk,
        )

    def _taken(self, text: Text) -> Batch:
        """Where there is a row for a text."""
        with self._growing:
            for batch in self._batches:
                if batch.take(text):
                    return batch
            self._batches.append(self._new_batch())
            self._batches[-1].take(text)
            return self._batches[-1]

    def ids(self, prompt: str | Messages) -> list[int]:
        """The tokens of a text, with those that the tokenizer adds, or of a chat."""
        if not prompt:
            raise ValueError("the prompt is empty; expected a text or messages of a chat")
        is_text = isinstance(prompt, str)
        text = prompt if is_text else self.chat(prompt)  # type: ignore[arg-type]
        try:
            text.encode()  # type: ignore[union-attr]
            return list(self.tokenizer.encode(text, add_special_tokens=is_text).ids)
        except Exception as error:  # the package's have no class of their own
            raise ValueError(f"the prompt cannot be split into tokens: {error}") from error

    def chat(self, messages: Messages) -> str:
        """A chat as the model was trained on it, up to the beginning of the answer.

        Raises:
          ValueError: the model has no chat template, or it refuses the messages.
        """
        known = self._constant("chat_template")
        if not known:
            raise ValueError("the model has no chat template; expected the prompt as a text")
        jinja2 = import_package("jinja2")
        sandbox = import_package("jinja2.sandbox").ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )

        sandbox.filters["tojson"] = functools.partial(json.dumps, ensure_ascii=False)

        def raise_exception(message: str) -> None:
            raise jinja2.TemplateError(message)

        tokens = {key: value for key, value in known.items() if key != "template"}
        try:
            text: str = sandbox.from_string(known["template"]).render(
                messages=messages,
                add_generation_prompt=True,
                tools=None,
                documents=None,
                raise_exception=raise_exception,
                strftime_now=time.strftime,
                **tokens,
            )
        except Exception as error:  # also what the template does with these messages
            raise ValueError(f"the model's chat template: {error}") from error
        return text

    def __call__(
        self,
        prompt: str | Messages | Sequence[int],
        *,
        max_new_tokens: int | None = None,
        stop: str | Sequence[str] = (),
        on_token: Callable[[int], object] = lambda token: None,
        **settings: Any,
    ) -> Answer:
        """Texts whose concatenation is the answer, each as soon as it is known.

        Close the iterator to cancel. Incomplete characters and beginnings of stop strings are held
        back until the next token.

        Args:
          prompt: a text, a chat, or ids of tokens.
          max_new_tokens: the answer's most tokens; by default as many as the cache has memory for.
          stop: strings that end the answer; they are not part of it.
          on_token: called with the id of each token; what it raises ends the answer.
          **settings: those of `Settings`.

        Raises:
          ValueError: the prompt is empty or too long, or a setting is out of range.
        """
        is_chat = isinstance(prompt, Sequence) and all(isinstance(m, Mapping) for m in prompt)
        is_text = isinstance(prompt, str) or is_chat
        ids = self.ids(prompt) if is_text else _integers(prompt)  # type: ignore[arg-type]
        steps = self.tokens([ids], max_new_tokens=max_new_tokens, **settings)
        stops = [stop] if isinstance(stop, str) else list(stop)
        if not all(isinstance(text, str) and text for text in stops):
            raise ValueError(f"stop: found {stop!r}; expected strings that are not empty")
        most = self.max_length if max_new_tokens is None else max_new_tokens
        most = min(most, self.max_length - len(ids))
        return Answer(steps, self._pieces(ids), stops, on_token, len(ids), most)

    def _pieces(self, ids: list[int]) -> Callable[[int], str]:
        """A function of each following token that returns the text that it completes."""
        stream = self._decoding(ids)
        return lambda token: stream.step(self.tokenizer, token) or ""

    def tokens(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        max_new_tokens: int | None = None,
        **settings: Any,
    ) -> Iterator[list[int | None]]:
        """The next token of each prompt, step by step; None for a text that has ended.

        A text ends before a token of `eos`, and with its `max_new_tokens` or the cache's memory.

        Args:
          prompts: ids of tokens, of at most `batch` texts.
          max_new_tokens, **settings: as of a call.

        Raises:
          ValueError: as of a call.
        """
        chosen = Settings(**settings)
        if not 1 <= len(prompts) <= self.batch:
            raise ValueError(
                f"found {len(prompts)} prompts; expected 1 to {self.batch}, the batch that the"
                " program was exported with"
            )
        most = self.max_length if max_new_tokens is None else max_new_tokens
        if not isinstance(most, numbers.Integral) or most < 0:
            raise ValueError(f"max_new_tokens is {most!r}; expected an integer from 0 on")
        prompts = list(map(_integers, prompts))
        for ids in prompts:
            if not ids:
                raise ValueError("the prompt is empty; expected at least one token")
            if len(ids) >= self.max_length:
                raise ValueError(
                    f"the prompt has {len(ids)} tokens; expected less than {self.max_length}, the"
                    " max_length that the program was exported with"
                )
            if not all(0 <= token < self._vocabulary for token in ids):
                raise ValueError(
                    f"the prompt has ids outside of the vocabulary, 0 to {self._vocabulary - 1}"
                )
        return self._steps(prompts, int(most), chosen)

    def _steps(
        self, prompts: Sequence[Sequence[int]], most: int, settings: Settings
    ) -> Iterator[list[int | None]]:
        with contextlib.ExitStack() as stack:
            rows = []
            for ids in prompts:
                left = min(most, self.max_length - len(ids))
                text = Text(ids, left, settings.inputs(), self.eos)
                batch = self._taken(text)
                stack.callback(batch.end, text)
                rows.append((batch, text))
            for batch in dict(rows):
                batch.begin([text for other, text in rows if other is batch])
            while True:
                found = [batch.next(text) for batch, text in rows]
                if all(token is None for token in found):
                    return
                yield found


class Answer(Iterator[str]):
    """What a call of `Generator` returns: an iterator of texts, for one thread at a time.

    Attributes:
      prompt_tokens: of the prompt.
      tokens: so far.
      finish_reason: "stop" after a token of `eos` or a stop string, "length" after the most tokens;
        None until then.
    """

    def __init__(
        self,
        steps: Iterator[list[int | None]],
        piece: Callable[[int], str],
        stops: list[str],
        on_token: Callable[[int], object],
        prompt_tokens: int,
        most: int,
    ) -> None:
        self.prompt_tokens, self.tokens = prompt_tokens, 0
        self.finish_reason: str | None = None
        self._texts = self._iterate(steps, piece, stops, on_token, most)

    def __next__(self) -> str:
        return next(self._texts)

    def close(self) -> None:
        """Ends the answer."""
        self._texts.close()

    def _iterate(
        self,
        steps: Iterator[list[int | None]],
        piece: Callable[[int], str],
        stops: list[str],
        on_token: Callable[[int], object],
        most: int,
    ) -> Generator_[str, None, None]:
        held, reason = "", "stop"
        with contextlib.closing(steps):  # type: ignore[type-var]
            for (token,) in steps:
                assert token is not None
                self.tokens += 1
                on_token(token)
                held += piece(token)
                found = [at for at in map(held.find, stops) if at >= 0]
                if found:
                    held = held[: min(found)]
                    break
                sure = len(held) - _beginning(held, stops)
                if sure:
                    yield held[:sure]
                    held = held[sure:]
            else:
                reason = "length" if self.tokens == most else "stop"
        self.finish_reason = reason
        if held:
            yield held


def _integers(ids: Any) -> list[int]:
    try:
        if isinstance(ids, bytes | bytearray):
            raise TypeError("a text is a str")
        return list(map(operator.index, ids))
    except TypeError as error:
        raise ValueError(
            f"the prompt is of {type(ids).__name__} ({error}); expected a text, messages of a chat,"
            " or ids of tokens"
        ) from error


def _beginning(text: str, stops: Sequence[str]) -> int:
    """The length of the longest end of `text` with which a stop string begins."""
    return max(
        (
            n
            for stop in stops
            for n in range(1, min(len(stop), len(text) + 1))
            if text.endswith(stop[:n])
        ),
        default=0,
    )


def load_beside(path: Any, data_path: Any) -> Any:
    """The program with its data, by default of the `.ptd` file that was exported beside it."""
    if data_path is None and isinstance(path, str | os.PathLike):
        data_path = sorted(Path(path).parent.glob(f"{glob.escape(Path(path).stem)}.ptd"))
    return Runtime.get().load_program(path, data_path=data_path)


def import_package(name: str, extra: str = "text") -> Any:
    """A module of a package that the wheel's `extra` brings."""
    import importlib

    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        if error.name != package:
            raise
        raise ImportError(
            f"this needs the package {package}, which is not installed;"
            f" try: pip install 'pteron[{extra}]'",
            name=package,
        ) from error
