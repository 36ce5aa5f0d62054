"""The texts of one session of a program, in rows of one cache, each with its own length.

    batch = Batch(program, {})
    text = Text(ids, most=20, settings=[...])
    if batch.take(text):
        batch.begin([text])
        while (token := batch.next(text)) is not None: ...
    batch.end(text)

There is no thread of its own: a thread that waits for a token runs a step for all texts, and takes
turns with those that begin others.
"""

import collections
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pteron.runtime import PteronError

#: Steps that are queued on a device before their tokens are read.
_AHEAD = 8

#: From this many tokens on, copying a row of the cache is less work than reading them again.
_WORTH_COPYING = 32

#: The smallest prompt that a device reads; others are padded to a power of two.
_SMALLEST = 16

#: Chunks of prompts, of different rows, that a device reads in one call.
_TOGETHER = 8


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
        self.done = -1  # tokens of the prompt that the row has; -1: not known
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
        # Programs of before read one row in a call.
        self._rows = program.metadata("prefill").input_tensor_meta(0).sizes()[0]
        self._length, self._chunk = length, chunk
        self._is_device = "greedy" in names
        self._texts: list[Text | None] = [None] * batch
        self._held: list[list[int]] = [[] for _ in range(batch)]  # whose keys and values are there
        self._free = collections.deque(range(batch))  # the one free for longest first
        self._unread: list[Text] = []  # those that begin
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
        one = np.zeros(1, np.int64)
        calls: list[tuple[str, list[Any]]] = [
            ("prefill", [np.zeros((1, size), np.int64), one, one, one])
            for size in sorted(sizes)[::-1]
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

    def begin(self, texts: Sequence[Text]) -> None:
        """Reads prompts but for their last tokens, in turns with steps of other texts.

        What other threads begin is read with them.
        """

        def is_done() -> bool:
            return not any(text in self._unread for text in texts)

        with self._changed:
            self._unread += texts
        while not is_done():
            self._run(self._prefill, is_done)

    def _prefill(self) -> None:
        """Reads the next parts of prompts, of one size, and starts the texts that are read."""
        unread = list(self._unread)
        sizes: dict[int, list[Text]] = {}
        for i, text in enumerate(unread):
            if text.done < 0 and not self._find(text, unread[:i]):
                continue
            left = len(text.ids) - 1 - text.done
            sizes.setdefault(self._size(left) if left else 0, []).append(text)
        size, texts = next(iter(sizes.items()))  # with the text that has waited for longest
        most = self._chunk * (_TOGETHER if self._is_device else 1)
        texts = texts[: min(self._rows, max(most // max(size, 1), 1))]
        if size:
            parts = [text.ids[text.done : -1][:size] for text in texts]
            tokens = np.zeros((len(texts), size), np.int64)
            for row, part in zip(tokens, parts, strict=True):
                row[: len(part)] = part
            done, rows = [text.done for text in texts], [text.row for text in texts]
            self._methods["prefill"].execute([tokens, *map(_ints, (done, map(len, parts), rows))])
            for text, part in zip(texts, parts, strict=True):
                text.done += len(part)
                self._held[text.row] = text.ids[: text.done]
        if texts := [text for text in texts if text.done == len(text.ids) - 1]:
            self._start(texts, [text.ids[-1] for text in texts], [text.done for text in texts])
        with self._changed:
            for text in texts:
                if text in self._unread:  # it has not ended meanwhile
                    self._unread.remove(text)
                    self._texts[text.row] = text

    def _find(self, text: Text, before: Sequence[Text]) -> bool:
        """Sets what the row has of a prompt, copied where another row has more; not yet (False) if
        one of `before`, which are read, will have more still."""
        row = text.row
        held = [min(_common(ids, text.ids), len(text.ids) - 1) for ids in self._held]
        if "copy" in self._methods:
            best = max(range(len(held)), key=held.__getitem__)
            is_worth = held[best] >= held[row] + _WORTH_COPYING
            worth = held[best if is_worth else row] + _WORTH_COPYING
            if any(_common(other.ids, text.ids) >= worth for other in before):
                return False
            if is_worth:
                # The row's last text may go on, unread, where the copy goes.
                self._start([text], [0], [self._length])
                self._methods["copy"].execute([_ints([best]), _ints([row])])
                held[row] = held[best]
        text.done, self._held[row] = held[row], text.ids[: held[row]]
        return True

    def _start(self, texts: Sequence[Text], tokens: list[int], positions: list[int]) -> None:
        settings = [
            np.concatenate(values)
            for values in zip(*(text.settings for text in texts), strict=True)
        ]
        numbers = map(_ints, ([text.row for text in texts], tokens, positions))
        self._methods["start"].execute([*numbers, *settings])

    def _size(self, count: int) -> int:
        """Tokens of a row in the call that reads the next of `count`."""
        size = min(max(count, 2), self._chunk)
        if self._is_device:
            size = min(max(1 << (size - 1).bit_length(), _SMALLEST), self._chunk)
        return size

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
            if text in self._unread:
                self._unread.remove(text)
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
            for text in [*self._texts, *self._unread]:
                if text is not None:
                    text.error, text.ended = error, True
            self._held = [[] for _ in self._held]
            self._texts = [None] * len(self._texts)
            self._unread = []


def _common(held: Sequence[int], ids: Sequence[int]) -> int:
    """How many tokens both begin with."""
    count = 0
    for a, b in zip(held, ids, strict=False):
        if a != b:
            break
        count += 1
    return count


def _ints(values: Iterable[int]) -> np.ndarray[Any, Any]:
    return np.array(list(values), np.int64)
