"""The texts of one session of a program, in rows of one cache, each with its own length.

    batch = Batch(program, {})
    text = Text(ids, most=20, settings=[...])
    if batch.take(text):
        batch.begin(text)
        while (token := batch.next(text)) is not None: ...
    batch.end(text)

There is no thread of its own: a thread that waits for a token runs a step for all texts, and takes
turns with those that begin others.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pteron.runtime import PteronError

#: Steps that are queued on a device before their tokens are read.
_AHEAD = 8

#: From this many tokens on, copying a row of the cache is less work than reading them again.
_WORTH_COPYING = 32

#: The smallest prompt that a device reads; others are padded to a power of two.
_SMALLEST = 16


class Text:
    """A prompt and what follows. `Batch` alone changes it.

    Args:
      ids: of the prompt, at least one.
      most: tokens of the answer.
      settings: of `LanguageModel.start`, each an array [1].
      eos: tokens that end it, without being part of it.
    """

    def __init__(
        self, ids: Sequence[int], most: int, settings: Sequence[Any], eos: Sequence[int]
    ) -> None:
        self.ids, self.left, self.settings, self.eos = list(ids), most, settings, eos
        self.is_greedy = settings[0][0] == 0
        self.row = -1
        self.answer: list[int] = []
        self.ready: collections.deque[int] = collections.deque()
        self.ended = most == 0
        self.error: BaseException | None = None


class Batch:
    """May be used from several threads.

    Args:
      program: of `pteron.llm.export`.
      backend_options: as of `Program.load_method`.
      batch, length, chunk: what the program was exported with.
    """

    def __init__(
        self,
        program: Any,
        backend_options: Mapping[str, Mapping[str, bool | int | str]] | None,
        *,
        batch: int,
        length: int,
        chunk: int,
    ) -> None:
        session = program.session()
        names = {"prefill", "start", "decode", "read", "copy", "greedy"} & program.method_names
        self._methods = {
            name: program.load_method(name, session=session, backend_options=backend_options)
            for name in names
        }
        self._length, self._chunk = length, chunk
        self._is_device = "greedy" in names
        self._texts: list[Text | None] = [None] * batch
        self._held: list[list[int]] = [[] for _ in range(batch)]  # whose keys and values are there
        self._free = collections.deque(range(batch))  # the one free for longest first
        self._queued: tuple[list[Text], int] | None = None  # texts and steps of what is not read
        self._turns: collections.deque[object] = collections.deque()
        self._is_running = False
        self._changed = threading.Condition()
        if self._is_device:
            self._prepare()

    def _prepare(self) -> None:
        """Captures graphs, where the program can be captured."""
        sizes, size = [self._chunk], _SMALLEST
        while size < self._chunk:
            sizes.append(size)
            size *= 2
        calls: list[tuple[str, list[Any]]] = [
            ("prefill", self._prefill_inputs([0] * count, 0, 0, 0)) for count in sorted(sizes)[::-1]
        ]
        for name, inputs in [*calls[:8], ("decode", []), ("greedy", [])]:
            try:
                self._methods[name].prepare(inputs)
            except PteronError:
                pass  # it runs without

    def take(self, text: Text) -> bool:
        """Gives a text a free row, if there is one: the one that knows most of the prompt."""
        with self._changed:
            if not self._free:
                return False
            text.row = max(self._free, key=lambda row: _common(self._held[row], text.ids))
            self._free.remove(text.row)
            self._texts[text.row] = None  # until it begins
            return True

    def begin(self, text: Text) -> None:
        """Reads the prompt but for its last token, in turns with steps of other texts."""
        row, count = text.row, len(text.ids) - 1
        done = 0

        def known() -> None:
            nonlocal done
            done = min(_common(self._held[row], text.ids), count)
            if "copy" in self._methods:
                best = max(
                    range(len(self._held)), key=lambda other: _common(self._held[other], text.ids)
                )
                found = min(_common(self._held[best], text.ids), count)
                if found >= done + _WORTH_COPYING:
                    # The row's last text may go on, unread, where the copy goes.
                    self._start(row, 0, self._length, text.settings)
                    self._methods["copy"].execute([_one(best), _one(row)])
                    done = found
            self._held[row] = text.ids[:done]

        def prefill() -> None:
            nonlocal done
            part = text.ids[done : min(done + self._chunk, count)]
            self._methods["prefill"].execute(self._prefill_inputs(part, done, len(part), row))
            done += len(part)
            self._held[row] = text.ids[:done]

        def start() -> None:
            self._start(row, text.ids[-1], count, text.settings)
            self._texts[row] = text

        self._run(known)
        while done < count:
            self._run(prefill)
        self._run(start)

    def _start(self, row: int, token: int, position: int, settings: Sequence[Any]) -> None:
        self._methods["start"].execute([_one(row), _one(token), _one(position), *settings])

    def _prefill_inputs(self, ids: list[int], position: int, length: int, row: int) -> list[Any]:
        size = max(len(ids), 2)
        if self._is_device:
            size = min(max(1 << (size - 1).bit_length(), _SMALLEST), self._chunk)
        tokens = np.zeros((1, size), np.int64)
        tokens[0, : len(ids)] = ids
        return [tokens, _one(position), _one(length), _one(row)]

    def next(self, text: Text) -> int | None:
        """The next token of a text that has begun; None after its last one."""
        while True:
            self._run(self._step, lambda: bool(text.ready) or text.ended)
            with self._changed:
                if text.ready:
                    return text.ready.popleft()
                if text.error is not None:
                    raise RuntimeError(f"a step of this text failed: {text.error}") from text.error
                if text.ended:
                    return None

    def end(self, text: Text) -> None:
        """Frees the row of a text that `take` gave one."""
        with self._changed:
            text.ended = True
            if self._texts[text.row] is text:
                # The last token was chosen, but not read.
                self._held[text.row] = (text.ids + text.answer)[:-1]
            self._texts[text.row] = None
            self._free.append(text.row)

    def _step(self) -> None:
        """Tokens of a step of each text, or of several steps that were queued on a device."""
        if self._queued is None:
            self._queue()
        assert self._queued is not None
        texts, count = self._queued
        found = np.asarray(self._methods["read"].execute([])[0])[:, -count:].tolist()
        self._queued = None
        if self._is_device and any(text.left > count and not text.ended for text in texts):
            self._queue(count)  # runs while these tokens are written
        with self._changed:
            for text in texts:
                for token in found[text.row]:
                    if text.ended:
                        break
                    if token in text.eos:
                        text.ended = True
                        break
                    text.answer.append(token)
                    text.ready.append(token)
                    text.left -= 1
                    text.ended = text.left == 0

    def _queue(self, unread: int = 0) -> None:
        texts = [text for text in self._texts if text is not None and not text.ended]
        is_first = any(not text.answer for text in texts)
        left = max(text.left for text in texts) - unread
        count = 1 if is_first or not self._is_device else min(_AHEAD, left)
        is_greedy = self._is_device and all(text.is_greedy for text in texts)
        method = self._methods["greedy" if is_greedy else "decode"]
        for _ in range(count):
            method.execute([])
        self._queued = texts, count

    def _run(self, action: Callable[[], None], is_done: Callable[[], bool] = bool) -> None:
        """Runs `action` when it is this thread's turn, unless `is_done` by then."""
        turn = object()
        with self._changed:
            self._turns.append(turn)
            try:
                self._changed.wait_for(
                    lambda: is_done() or (self._turns[0] is turn and not self._is_running)
                )
                if is_done():
                    return
                self._is_running = True
            finally:
                self._turns.remove(turn)
                self._changed.notify_all()
        try:
            action()
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            with self._changed:
                self._is_running = False
                self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        """Ends all texts: what the cache has after a step that failed is not known."""
        with self._changed:
            self._queued = None
            for row, text in enumerate(self._texts):
                self._held[row] = []
                self._texts[row] = None
                if text is not None:
                    text.error, text.ended = error, True


def _common(held: Sequence[int], ids: Sequence[int]) -> int:
    """How many tokens both begin with."""
    count = 0
    for a, b in zip(held, ids, strict=False):
        if a != b:
            break
        count += 1
    return count


def _one(value: int) -> np.ndarray[Any, Any]:
    return np.array([value], np.int64)
