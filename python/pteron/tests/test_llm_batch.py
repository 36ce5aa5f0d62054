"""Texts that share a cache: a program of Python whose tokens depend on all that its rows hold."""

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pteron.llm import batch as batch_module
from pteron.llm.batch import Batch, Text

_LENGTH, _CHUNK, _ROWS, _EOS = 80, 16, 3, 7
_SETTINGS = [np.zeros(1, np.float32)] + [np.zeros(1, np.int64)] * 5


def _next(ids: list[int]) -> int:
    """A token that depends on all tokens before it."""
    return random.Random(str(ids)).randrange(50)


def _expected(ids: list[int], most: int) -> list[int]:
    answer: list[int] = []
    while len(answer) < min(most, _LENGTH - len(ids)):
        token = _next(ids + answer)
        if token == _EOS:
            break
        answer.append(token)
    return answer


class Program:
    """Has the methods of `LanguageModel`; what a row holds is tokens instead of keys and values."""

    def __init__(self, *, is_device: bool, rows: int) -> None:
        self.rows = rows  # that one call of prefill may read
        self.method_names = {"prefill", "start", "decode", "read", "copy"}
        if is_device:
            self.method_names |= {"greedy"}
        self.held = np.full((_ROWS, _LENGTH + 1), -1)
        self.last = np.zeros(_ROWS, np.int64)
        self.position = np.full(_ROWS, _LENGTH)
        self.recent = np.zeros((_ROWS, 16), np.int64)
        self.calls: list[str] = []
        self.read_tokens = 0  # by prefill
        self.prefills: list[list[int]] = []  # tokens of the rows of each
        self.fails = False
        self._running = threading.Lock()

    def session(self) -> None:
        return None

    def metadata(self, name: str) -> Any:
        sizes = (self.rows, _CHUNK) if name == "prefill" else ()
        return SimpleNamespace(input_tensor_meta=lambda index: SimpleNamespace(sizes=lambda: sizes))

    def load_method(self, name: str, **_: Any) -> Any:
        return _Method(self, name)

    def call(self, name: str, inputs: list[Any]) -> list[Any]:
        assert self._running.acquire(blocking=False), "two calls at the same time"
        try:
            time.sleep(0.0002)  # another thread may go on, as without the GIL
            self.calls.append(name)
            if self.fails:
                raise OSError("it fails")
            return list(getattr(self, f"_{name}")(*inputs))
        finally:
            self._running.release()

    def _prefill(self, tokens: Any, position: Any, lengths: Any, row: Any) -> Iterator[Any]:
        assert 2 <= tokens.shape[1] <= _CHUNK
        assert 1 <= len(tokens) == len(set(row.tolist())) <= self.rows
        self.prefills.append(list(lengths))
        for ids, begin, count, at in zip(tokens, position, lengths, row, strict=True):
            assert (ids[count:] == 0).all()
            self.position[at] = _LENGTH
            self.held[at, begin : begin + count] = ids[:count]
            self.read_tokens += count
        yield position + lengths

    def _start(self, row: Any, token: Any, position: Any, *settings: Any) -> Iterator[Any]:
        assert [len(value) for value in settings] == [len(row)] * len(_SETTINGS)
        assert len(row) <= self.rows
        self.last[row], self.position[row] = token, position
        yield position

    def _decode(self) -> Iterator[Any]:
        for row, position in enumerate(self.position):
            self.held[row, position] = self.last[row]
            token = _next(self.held[row, : position + 1].tolist())
            self.last[row], self.position[row] = token, min(position + 1, _LENGTH)
        self.recent = np.concatenate([self.recent[:, 1:], self.last[:, None]], 1)
        yield self.last.copy()

    _greedy = _decode

    def _read(self) -> Iterator[Any]:
        yield self.recent.copy()

    def _copy(self, source: Any, target: Any) -> Iterator[Any]:
        self.held[target[0]] = self.held[source[0]]
        yield target


class _Method:
    def __init__(self, program: Program, name: str) -> None:
        self._program, self._name = program, name

    def execute(self, inputs: list[Any]) -> list[Any]:
        return self._program.call(self._name, inputs)

    def prepare(self, inputs: list[Any]) -> None:
        if self._name == "prefill":
            assert inputs[0].shape[1] in (16,)


def _batch(*, is_device: bool = False, rows: int = _ROWS) -> tuple[Program, Batch]:
    program = Program(is_device=is_device, rows=rows)
    return program, Batch(program, None, batch=_ROWS, length=_LENGTH, chunk=_CHUNK)


def _text(ids: list[int], most: int) -> Text:
    return Text(ids, min(most, _LENGTH - len(ids)), _SETTINGS, [_EOS])


def _run(batch: Batch, ids: list[int], most: int) -> list[int]:
    text = _text(ids, most)
    assert batch.take(text)
    try:
        batch.begin([text])
        return list(iter(lambda: batch.next(text), None))  # type: ignore[arg-type]
    finally:
        batch.end(text)


@pytest.mark.parametrize("is_device", [False, True])
@pytest.mark.parametrize("together", [1, _ROWS])
def test_texts_of_many_threads_are_as_alone(is_device: bool, together: int) -> None:
    """With common beginnings, of any length, some cancelled."""
    program, batch = _batch(is_device=is_device, rows=together)
    rows = threading.Semaphore(_ROWS)
    systems = [[random.Random(i).randrange(50) for _ in range(45)] for i in range(3)]

    def work(seed: int) -> None:
        choice = random.Random(seed)
        own = [choice.randrange(50) for _ in range(choice.randrange(1, 20))]
        ids = (choice.choice(systems) + own)[choice.choice([0, 0, 0, 45]) :]
        most, cancel = choice.randrange(1, 40), choice.choice([None, None, 3])
        with rows:
            text = _text(ids, most)
            assert batch.take(text)
            try:
                batch.begin([text])
                found: list[int] = []
                while len(found) != cancel and (token := batch.next(text)) is not None:
                    found.append(token)
            finally:
                batch.end(text)
        assert found == _expected(ids, most)[:cancel]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(120)))
    assert (max(map(len, program.prefills)) > 1) == (together > 1)


@pytest.mark.parametrize(
    ("is_device", "rows", "expected"),
    [
        (True, _ROWS, [[16, 16, 12], [14, 16], [15]]),  # 12 are padded to 16
        (True, 1, [[16], [14], [16], [16], [15], [12]]),
        (False, _ROWS, [[16], [14], [16], [16], [15], [12]]),  # no more than a chunk
    ],
)
def test_prompts_are_read_together(is_device: bool, rows: int, expected: list[list[int]]) -> None:
    program, batch = _batch(is_device=is_device, rows=rows)
    texts = [_text(list(range(k, k + count)), 4) for k, count in ((1, 31), (2, 48), (3, 13))]
    for text in texts:
        assert batch.take(text)
    batch.begin(texts)
    assert program.prefills == expected
    for text in texts:
        assert list(iter(lambda t=text: batch.next(t), None)) == _expected(text.ids, 4)
        batch.end(text)


def test_a_common_beginning_is_read_once() -> None:
    program, batch = _batch(is_device=True)
    system = list(range(45))
    texts = [_text([*system, last, last], 4) for last in (1, 2, 3)]
    for text in texts:
        assert batch.take(text)
    batch.begin(texts)
    assert program.prefills == [[16], [16], [14, 14, 14]]
    assert program.calls.count("start") == 2 + 1, "for all at the same time"
    assert program.calls.count("copy") == 2
    for text in texts:
        assert list(iter(lambda t=text: batch.next(t), None)) == _expected(text.ids, 4)


def test_a_step_is_for_all_texts() -> None:
    program, batch = _batch()
    texts = [_text([row + 1], 20) for row in range(_ROWS)]
    for text in texts:
        assert batch.take(text)
        batch.begin([text])
    assert not batch.take(_text([1], 1))
    for _ in range(5):
        for text in texts:
            batch.next(text)
    assert program.calls.count("decode") == 5
    batch.end(texts[1])  # cancelled: its row is free
    assert _run(batch, [9, 9], 5) == _expected([9, 9], 5)


def test_what_a_row_holds_is_not_read_again() -> None:
    program, batch = _batch()
    system = list(range(10, 50))
    answer = _run(batch, [*system, 1], 8)
    assert program.read_tokens == 40
    assert _run(batch, [*system, 1, *answer, 2], 8) == _expected([*system, 1, *answer, 2], 8)
    assert program.read_tokens == 41, "the last token of the answer, which was not read"
    running = _text([*system, 3], 8)
    assert batch.take(running)
    batch.begin([running])
    assert program.read_tokens == 41
    assert batch.next(running) == _expected([*system, 3], 1)[0]
    # The row is in use: it is copied.
    assert _run(batch, [*system, 4], 8) == _expected([*system, 4], 8)
    assert program.calls.count("copy") == 1
    assert program.read_tokens == 41
    assert batch.next(running) == _expected([*system, 3], 2)[1]


def test_a_device_is_ahead_of_the_host() -> None:
    program, batch = _batch(is_device=True)
    ids = next([i] for i in range(100) if len(_expected([i], 70)) > 30)
    expected = _expected(ids, 70)
    text = _text(ids, 70)
    assert batch.take(text)
    batch.begin([text])
    assert batch.next(text) == expected[0]
    first = program.calls.index("read")
    assert program.calls[:first].count("greedy") == 1, "the first token comes soon"
    found = [batch.next(text) for _ in range(20)]
    assert found == expected[1:21]
    order = [name for name in program.calls[first + 1 :] if name in ("greedy", "read")]
    assert order[-9:] == ["read"] + ["greedy"] * 8, "the next steps are queued before the tokens"
    batch.end(text)
    # What was queued for it is dropped.
    assert _run(batch, [1, 2], 5) == _expected([1, 2], 5)


def test_no_step_is_queued_after_the_last_token() -> None:
    program, batch = _batch(is_device=True)
    ids = next([i] for i in range(100) if len(_expected([i], 70)) > 12)
    assert len(_run(batch, ids, 12)) == 12
    assert program.calls.count("greedy") == 12


def test_sampling_is_by_decode() -> None:
    program, batch = _batch(is_device=True)
    settings = [np.ones(1, np.float32), *_SETTINGS[1:]]
    text = Text([1], 3, settings, [])
    assert batch.take(text)
    batch.begin([text])
    assert batch.next(text) is not None
    assert "greedy" not in program.calls


def test_a_step_that_fails_ends_all_texts() -> None:
    program, batch = _batch()
    texts = [_text([i, 2, 3], 20) for i in (8, 9)]
    for text in texts:
        assert batch.take(text)
        batch.begin([text])
    assert batch.next(texts[0]) is not None
    batch.next(texts[1])
    program.fails = True
    with pytest.raises(OSError, match="it fails"):
        batch.next(texts[0])
    with pytest.raises(RuntimeError, match="a step of this text failed: it fails"):
        batch.next(texts[1])
    for text in texts:
        batch.end(text)
    program.fails = False
    before = program.read_tokens
    assert _run(batch, [8, 2, 3], 20) == _expected([8, 2, 3], 20)
    assert program.read_tokens == before + 2, "the cache is read again"


def test_a_long_prompt_takes_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others go on between its chunks."""
    program, batch = _batch()
    running = _text(next([i] for i in range(100) if len(_expected([i], 70)) > 40), 70)
    assert batch.take(running)
    batch.begin([running])
    started = threading.Event()

    def begin() -> None:
        text = _text([1] * 70, 1)
        assert batch.take(text)
        started.set()
        batch.begin([text])
        batch.end(text)

    thread = threading.Thread(target=begin)
    thread.start()
    started.wait()
    while thread.is_alive():
        if batch.next(running) is None:
            break
    thread.join()
    calls = "".join({"prefill": "p", "decode": "d"}.get(name, "") for name in program.calls)
    assert "dp" in calls and "pd" in calls.rstrip("d"), calls
    assert batch_module._WORTH_COPYING < 70
