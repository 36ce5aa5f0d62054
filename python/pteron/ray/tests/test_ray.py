"""Programs in Ray, on a cluster of two nodes of this machine."""

from __future__ import annotations

import asyncio
import concurrent.futures
import http.client
import importlib.util
import io
import json
import os
import pickle
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pteron
import pteron.ray
from pteron.command.main import main

_BATCH = 4
_ALONE = """\
import sys
import numpy as np
import pteron.ray

predictor = pteron.ray.Predictor(sys.argv[1])
rows = [predictor({"image": x[None]})["logits"][0] for x in np.load(sys.argv[2])]
np.save(sys.argv[3], rows)
"""


class Net(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.convolution = nn.Conv2d(3, 8, 3)
        self.linear = nn.Linear(8, 4)

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logits": self.linear(self.convolution(image).relu().mean((2, 3)))}


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 4)

    def forward(self, ids: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return self.embedding(ids) * scale[:, None, None]


class Refused(nn.Module):
    """Two methods: one with state, one without a batch dimension."""

    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2))

    def count(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.sum())
        return x + self.total

    def sum(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs: `first` and `second` of a static batch, `several` with the other methods."""
    folder = tmp_path_factory.mktemp("programs of a test")
    image = torch.randn(_BATCH, 3, 8, 8)
    for name, seed in (("first", 0), ("second", 1)):
        pteron.export(Net(seed).eval(), (image,), folder / f"{name}.pte")
    batch, time = (torch.export.Dim(name, min=1, max=n) for name, n in (("batch", 8), ("time", 6)))
    ids = torch.zeros(2, 3, dtype=torch.int64)
    refused, x = Refused(), torch.ones(2, 2)
    methods: Any = {
        "dynamic": (Net(0).eval().forward, (image,), ({0: batch},)),
        "tokens": (Tokens().forward, (ids, torch.ones(2)), ({0: batch, 1: time}, {0: batch})),
        "count": (refused.count, (x,)),
        "sum": (refused.sum, (x,)),
    }
    pteron.export(methods, path=folder / "several.pte")
    return folder


def _predictor(folder: Path, name: str, **options: Any) -> pteron.ray.Predictor:
    """Of a file, or of a method of `several`."""
    path = folder / f"{name}.pte"
    if path.exists():
        return pteron.ray.Predictor(path, **options)
    return pteron.ray.Predictor(folder / "several.pte", method=name, **options)


def _images(n: int) -> Any:
    return np.random.default_rng(0).standard_normal((n, 3, 8, 8)).astype(np.float32)


def _expected(seed: int, images: Any) -> Any:
    with torch.no_grad():
        return Net(seed).eval()(torch.from_numpy(images))["logits"].numpy()


@pytest.mark.parametrize("name", ["first", "dynamic"])
def test_rows_have_the_same_bits_alone(folder: Path, name: str) -> None:
    """Also the last ones, of a part that is padded."""
    predictor = pickle.loads(pickle.dumps(_predictor(folder, name)))
    images = _images(11)
    batch = predictor({"image": images, "id": np.arange(11)})
    assert list(batch) == ["image", "id", "logits", "error"]
    assert batch["error"].tolist() == [None] * 11
    np.testing.assert_allclose(batch["logits"], _expected(0, images), atol=1e-5, rtol=1e-5)
    alone = [predictor({"image": images[i : i + 1]})["logits"][0] for i in range(11)]
    assert np.array_equal(batch["logits"], np.stack(alone))
    assert predictor({"image": images[:0]})["logits"].shape == (0, 4)


@pytest.mark.parametrize("name", ["first", "dynamic"])
def test_a_row_that_fails_is_set_aside(folder: Path, name: str) -> None:
    images = _images(11)
    images[5] = np.nan  # no failure
    rows = np.empty(11, object)
    rows[:] = list(images)
    rows[3], rows[7], rows[8] = images[3, :, :5], None, "text"
    predictor = _predictor(folder, name, keep=())
    batch, whole = predictor({"image": rows}), predictor({"image": images})
    assert list(batch) == ["logits", "error"]
    assert np.flatnonzero(batch["error"] != None).tolist() == [3, 7, 8]  # noqa: E711
    assert "5, expected 8" in batch["error"][3] or "size 5 is outside 8" in batch["error"][3]
    assert (
        batch["error"][7] == "InvalidArgumentError: input image: found NoneType, expected float32"
    )
    good = [0, 1, 2, 4, 5, 6, 9, 10]
    assert np.array_equal(batch["logits"][good], whole["logits"][good], equal_nan=True)
    assert np.isnan(batch["logits"][5]).all()
    assert not batch["logits"][[3, 7, 8]].any()
    with pytest.raises(pteron.InvalidArgumentError, match="found NoneType"):
        _predictor(folder, name, error_column=None)({"image": rows[7:8]})


def test_rows_of_several_sizes(folder: Path) -> None:
    """Of a program with a second dynamic dimension; one index is outside the table."""
    predictor = _predictor(folder, "tokens", inputs={"ids": "tokens"})
    rows = np.empty(5, object)
    rows[:] = [np.array(row) for row in ([1, 2], [3], [4, 99], [5, 6], [7] * 7)]
    batch = predictor({"tokens": rows, "scale": np.arange(5)})
    assert [error is None for error in batch["error"]] == [True, True, False, True, False]
    shapes = [row.shape for row in batch["output_0"]]
    assert shapes == [(2, 4), (1, 4), (0, 0), (2, 4), (0, 0)]
    alone = predictor({"tokens": np.array([[5, 6]]), "scale": np.array([3])})
    assert np.array_equal(alone["output_0"][0], batch["output_0"][3])


def test_values_that_a_dtype_cannot_hold(folder: Path) -> None:
    predictor = _predictor(folder, "tokens")
    ids = np.array([[1], [2**63]], np.uint64)
    errors = predictor({"ids": ids, "scale": np.ones(2)})["error"]
    assert errors.tolist() == [
        None,
        "InvalidArgumentError: input ids: a value that int64 cannot hold",
    ]
    errors = predictor({"ids": np.array([[1.5]]), "scale": np.ones(1)})["error"]
    assert errors.tolist() == ["InvalidArgumentError: input ids: found float64, expected int64"]


def test_columns_that_are_missing_or_taken(folder: Path) -> None:
    image = {"image": _images(1)}
    for options, batch, message in (
        ({}, {"picture": _images(1)}, "no column 'image' among 'picture'"),
        ({"keep": ["id"]}, image, "no column 'id' among 'image'"),
        ({"error_column": "logits"}, image, "has an output 'logits'"),
    ):
        with pytest.raises(pteron.InvalidArgumentError, match=message):
            _predictor(folder, "first", **options)(batch)


def test_a_device_that_fails_is_no_fault_of_the_rows(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pteron.ray import serving

    predictor, image = _predictor(folder, "first"), {"image": _images(1)}
    replica = serving.Replica(predictor, max_batch_size=4, batch_wait_s=0)

    def fails(*_: Any) -> Any:
        raise pteron.BackendError("the device is gone")

    with monkeypatch.context() as patch:
        patch.setattr(predictor.rows(), "_call", fails)
        with pytest.raises(pteron.BackendError):
            predictor({"image": _images(3)})
        with pytest.raises(pteron.BackendError):
            replica._run([image])
        with pytest.raises(pteron.BackendError, match="gone"):
            replica.check_health()
    replica._run([image])
    replica.check_health()


def test_a_file_that_was_replaced_is_loaded_again(folder: Path, tmp_path: Path) -> None:
    path, images = tmp_path / "model.pte", _images(2)
    predictor = pteron.ray.Predictor(path)
    for seed, name in enumerate(("first", "second")):
        shutil.copy(folder / f"{name}.pte", tmp_path / "new")
        (tmp_path / "new").rename(path)
        logits = predictor({"image": images})["logits"]
        np.testing.assert_allclose(logits, _expected(seed, images), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "message"), [("count", r"has state \(total\)"), ("sum", "no batch dimension")]
)
def test_programs_without_batch_or_with_state(folder: Path, name: str, message: str) -> None:
    with pytest.raises(pteron.NotSupportedError, match=message):
        _predictor(folder, name)({"x": np.ones((2, 2), np.float32)})


def _dataset(n: int) -> Any:
    import ray.data

    images = _images(n)
    rows = [{"id": i, "image": images[i]} for i in range(n)]
    return ray.data.from_items(rows, override_num_blocks=n // 20)


def test_a_worker_that_is_killed_loses_no_row(cluster: None, folder: Path) -> None:
    import ray.data

    class Watched(pteron.ray.Predictor):
        def __call__(self, batch: Any) -> Any:
            time.sleep(0.1)  # so that batches are left when the worker is killed
            n = len(batch["id"])
            kb = dict.fromkeys(("Shared_Clean", "Shared_Dirty", "Anonymous"), 0)
            results, inside = super().__call__(batch), False
            with open("/proc/self/smaps") as maps:
                for line in maps:
                    key, value = line.split()[:2]
                    if not key.endswith(":"):
                        inside = line.rstrip().endswith(".pte")
                    elif inside and key[:-1] in kb:
                        kb[key[:-1]] += int(value)
            threads = int(os.environ["OMP_NUM_THREADS"])
            about = {"pid": os.getpid(), "threads": threads, **kb}
            return {**results, **{name: np.full(n, value) for name, value in about.items()}}

    path = folder / "for the workers.pte"  # which this process does not map
    shutil.copy(folder / "first.pte", path)
    results = _dataset(400).map_batches(
        Watched,
        fn_constructor_args=(path,),
        compute=ray.data.ActorPoolStrategy(size=2),
        batch_size=10,
        num_cpus=1,
    )
    rows: list[dict[str, Any]] = []
    for row in results.iter_rows():
        if not rows:
            os.kill(int(row["pid"]), signal.SIGKILL)
        rows.append(row)
    assert sorted(row["id"] for row in rows) == list(range(400))
    assert len({row["pid"] for row in rows}) == 3  # two, and the one that Ray started instead
    assert {row["threads"] for row in rows} == {1}
    # The two that ran at a time on a node share all pages of the file.
    assert {row["Anonymous"] for row in rows} == {0}
    shared = max(row["Shared_Clean"] + row["Shared_Dirty"] for row in rows)
    assert shared >= path.stat().st_size / 1024 * 0.9
    images = _images(400)
    np.save(folder / "images.npy", images)
    files = [str(folder / "first.pte"), str(folder / "images.npy"), str(folder / "alone.npy")]
    subprocess.run(
        [sys.executable, "-c", _ALONE, *files],
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    alone = np.load(folder / "alone.npy")
    assert all(np.array_equal(row["logits"], alone[row["id"]]) for row in rows)


@pytest.mark.parametrize("batch_format", ["pandas", "pyarrow"])
def test_batches_of_other_libraries(cluster: None, folder: Path, batch_format: str) -> None:
    import ray.data

    images = _images(20)
    rows: list[Any] = [{"name": f"row {i}", "n": i, "image": images[i]} for i in range(20)]
    rows[5]["image"] = images[5, :, :5]
    rows[6]["name"] = None
    predictor = pteron.ray.Predictor(folder / "first.pte", keep=["name", "n"])
    dataset = ray.data.from_items(rows).map_batches(predictor, batch_format=batch_format)
    found = sorted(dataset.take_all(), key=lambda row: row["n"])
    assert [set(row) for row in found] == [{"name", "n", "logits", "error"}] * 20
    assert [row["name"] for row in found] == [row["name"] for row in rows]
    assert [row["n"] for row in found if row["error"]] == [5]
    expected = _expected(0, images)
    expected[5] = 0
    logits = np.stack([row["logits"] for row in found])
    np.testing.assert_allclose(logits, expected, atol=1e-5, rtol=1e-5)


@pytest.fixture(scope="module")
def port(cluster: None) -> Iterator[int]:
    from ray import serve

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve.start(http_options={"host": "127.0.0.1", "port": port, "request_timeout_s": 30})
    yield port
    serve.shutdown()


def _post(
    port: int, body: Any, kind: str = "application/json", seconds: float = 60
) -> tuple[int, bytes]:
    """Status and body of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    data = body if isinstance(body, bytes) else json.dumps(body)
    connection.request(
        "POST", "/", data, {"content-type": kind, "x-request-timeout-seconds": str(seconds)}
    )
    answer = connection.getresponse()
    return answer.status, answer.read()


def _serve(port: int, application: Any) -> Any:
    """The handle of the application, when the proxy has heard of it, too."""
    from ray import serve

    handle = serve.run(application)
    until = time.monotonic() + 30
    while _post(port, {})[0] == 404 and time.monotonic() < until:
        time.sleep(0.05)
    return handle


def _image(image: Any) -> dict[str, Any]:
    return {"inputs": {"image": [image.tolist()]}}


def test_requests_while_the_program_is_replaced(port: int, folder: Path) -> None:
    """From four clients: each is answered by one of the programs, at the end by the second."""
    from ray import serve

    _serve(port, pteron.ray.deployment(folder / "first.pte", batch_wait_s=0.005))
    images = _images(64)
    expected = [_expected(seed, images) for seed in range(2)]
    stop, answered = threading.Event(), list[int]()

    def client(number: int) -> list[int]:
        versions: list[int] = []
        for i in range(number, 100_000, 4):
            status, body = _post(port, _image(images[i % 64]))
            assert status == 200, (body, versions)
            answered.append(i)
            logits = np.array(json.loads(body)["outputs"]["logits"])
            fits = [np.allclose(logits[0], e[i % 64], atol=1e-4, rtol=1e-4) for e in expected]
            assert sum(fits) == 1
            versions.append(fits.index(True))
            if stop.is_set():
                return versions
        raise AssertionError("never stopped")

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(client, number) for number in range(4)]
        try:
            time.sleep(1)
            serve.run(pteron.ray.deployment(folder / "second.pte", batch_wait_s=0.005))
            time.sleep(1)
            deadline = time.monotonic() + 60
            while len(answered) <= 200 and time.monotonic() < deadline:
                time.sleep(0.1)
        finally:
            stop.set()
        versions = [client.result() for client in clients]
    assert sum(map(len, versions)) > 200
    for found in versions:
        assert found[0] == 0
        assert found[-1] == 1


@pytest.mark.parametrize("chosen", [{}, {"graceful_shutdown_timeout_s": 7.0}])
def test_a_replaced_program_answers_requests_of_minutes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, chosen: dict[str, float]
) -> None:
    """By default: Ray's kills a replica after 20 seconds, and its requests get status 500."""
    from ray import serve

    given, make = list[Any](), serve.deployment

    def deployment(**options: Any) -> Any:
        given.append(options)
        return make(**options)

    monkeypatch.setattr(serve, "deployment", deployment)
    pteron.ray.deployment(folder / "first.pte", **chosen)
    pteron.ray.text_deployment("text.pte", **chosen)
    expected = chosen.get("graceful_shutdown_timeout_s", 300.0)
    assert [options["graceful_shutdown_timeout_s"] for options in given] == [expected] * 2


def test_what_a_request_may_be(port: int, folder: Path) -> None:
    """Five at a time: each has its own answer, and those that fail say why."""
    handle = _serve(port, pteron.ray.deployment(folder / "first.pte", batch_wait_s=0.1))
    images, expected = _images(10), _expected(0, _images(10))
    file = io.BytesIO()
    np.save(file, images)
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        rows = pool.submit(_post, port, {"inputs": {"image": images[1:3].tolist()}})
        array = pool.submit(_post, port, file.getvalue(), "application/x-npy")
        shape = pool.submit(_post, port, {"inputs": {"image": images[:1, :, :5].tolist()}})
        name = pool.submit(_post, port, {"inputs": {"picture": [1]}})
        broken = pool.submit(_post, port, b"{")
    assert [answer.result()[0] for answer in (rows, array, shape, name, broken)] == [
        200,
        200,
        400,
        400,
        400,
    ]
    logits = json.loads(rows.result()[1])["outputs"]["logits"]
    np.testing.assert_allclose(logits, expected[1:3], atol=1e-5, rtol=1e-5)
    logits = np.load(io.BytesIO(array.result()[1]))["logits"]
    np.testing.assert_allclose(logits, expected, atol=1e-5, rtol=1e-5)
    assert "row 0: " in json.loads(shape.result()[1])["error"]
    assert "found inputs picture[1]; expected image" in json.loads(name.result()[1])["error"]
    logits = handle.predict.remote(image=images[:1]).result()["logits"]
    np.testing.assert_allclose(logits, expected[:1], atol=1e-5, rtol=1e-5)
    with pytest.raises(pteron.InvalidArgumentError, match="expected image"):
        handle.predict.remote(image=images[:0]).result()


@pytest.mark.parametrize(("wait", "first"), [(0.0, [1]), (60.0, [1, 1, 2])])
def test_requests_that_come_while_a_batch_runs_share_the_next(
    port: int, folder: Path, monkeypatch: pytest.MonkeyPatch, wait: float, first: list[int]
) -> None:
    """In their order, though they come one by one. A batch has at most four rows."""
    from pteron.ray import serving

    class Watched(serving.Replica):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.came, self.left, self.batches = 0, 0, list[list[int]]()
            self.go_on = threading.Event()

        async def predict(self, **inputs: Any) -> dict[str, Any]:
            self.came += 1
            try:
                return await super().predict(**inputs)
            except asyncio.CancelledError:
                self.left += 1
                raise

        def _run(self, requests: Any) -> list[Any]:
            self.batches.append([len(request["image"]) for request in requests])
            self.go_on.wait(60)
            return super()._run(requests)

        async def seen(self) -> tuple[int, int, list[list[int]]]:
            return self.came, self.left, self.batches

        async def end(self) -> None:
            self.go_on.set()

    monkeypatch.setattr(serving, "Replica", Watched)
    application = pteron.ray.deployment(
        folder / "first.pte", batch_wait_s=wait, max_ongoing_requests=20
    )
    handle, images, answers = _serve(port, application), _images(3), list[Any]()

    def see(came: int, left: int, *batches: list[int]) -> None:
        until, found = time.monotonic() + 60, None
        while found != (came, left, list(batches)) and time.monotonic() < until:
            time.sleep(0.01)
            found = handle.seen.remote().result()
        assert found == (came, left, list(batches))

    for rows in (*first, 1, 2, 3, 2, 2):
        answers.append(handle.predict.remote(image=images[:rows]))
        see(len(answers), 0, *([first] if len(answers) >= len(first) else []))
    answers.pop(len(first) + 1).cancel()
    see(len(answers) + 1, 1, first)
    handle.end.remote().result()
    for answer, rows in zip(answers, [*first, 1, 3, 2, 2], strict=True):
        found = answer.result(timeout_s=60)["logits"]
        np.testing.assert_allclose(found, _expected(0, images[:rows]), atol=1e-5, rtol=1e-5)
    see(len(answers) + 1, 1, first, [1, 3], [2, 2])


def test_a_full_queue_a_deadline_and_the_metrics(port: int, folder: Path) -> None:
    import ray

    slow = pteron.ray.deployment(
        folder / "first.pte", batch_wait_s=1, max_ongoing_requests=4, max_queued_requests=1
    )
    _serve(port, slow)
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda i: _post(port, _image(i)), _images(12)))
    assert {status for status, _ in answers} == {200, 503}
    assert _post(port, _image(_images(1)[0]), seconds=0.2)[0] == 408
    wanted = {"ray_serve_actual_batch_size", "ray_serve_http_request_latency_ms"}
    until, text = time.monotonic() + 30, ""
    while not all(f"{name}_count" in text for name in wanted) and time.monotonic() < until:
        time.sleep(0.5)
        for node in ray.nodes():
            connection = http.client.HTTPConnection(
                node["NodeManagerAddress"], node["MetricsExportPort"], timeout=10
            )
            connection.request("GET", "/metrics")
            text += connection.getresponse().read().decode()
    assert all(f"{name}_count" in text for name in wanted)


class Alphabet(nn.Module):
    """Says the letters that follow: the methods of `pteron.llm.export`, for one text."""

    last: torch.Tensor
    recent: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("recent", torch.zeros(1, 16, dtype=torch.int64))

    def prefill(self, tokens: Any, position: Any, lengths: Any, row: Any) -> Any:
        return {"position": position + lengths + 0 * tokens.sum() + 0 * row}

    def start(self, row: Any, token: Any, position: Any, *settings: Any) -> Any:
        self.last.copy_(token)
        return {"position": position + 0 * row + sum(0 * x.to(torch.int64) for x in settings)}

    def decode(self) -> Any:
        self.last.add_(1)
        self.recent.copy_(torch.cat([self.recent[:, 1:], self.last[:, None]], 1))
        return {"tokens": self.last + 0}

    def read(self) -> Any:
        self.recent.mul_(1)
        return {"tokens": self.recent + 0}


def test_text(port: int, tmp_path: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = "abcdefghijklmnopqrstuvwxyz"
    tokenizer = Tokenizer(models.BPE(vocab={x: i for i, x in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    model, one = Alphabet().eval(), torch.ones(1, dtype=torch.int64)
    tokens, half = torch.ones(1, 3, dtype=torch.int64), torch.full((1,), 0.5)
    settings = [half, one, half, half, half, one]
    dim = torch.export.Dim("time", min=2, max=16)
    methods: Any = {
        "prefill": (model.prefill, (tokens, one, one, one), ({1: dim}, None, None, None)),
        "start": (model.start, (one, one, one, *settings)),
        "decode": (model.decode, ()),
        "read": (model.read, ()),
    }
    constants = {
        "get_max_seq_len": 16,
        "get_max_context_len": 32,
        "get_max_batch_size": 1,
        "get_vocab_size": 26,
        "get_eos_ids": [25],
        "tokenizer": tokenizer.to_str(),
        "chat_template": {},
    }
    pteron.export(methods, path=tmp_path / "letters.pte", constant_methods=constants)

    def post(body: Any, path: str = "/v1/completions", method: str = "POST") -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request(method, path, json.dumps(body))
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    from ray import serve

    serve.run(pteron.ray.text_deployment(tmp_path / "letters.pte"))
    until = time.monotonic() + 30
    while post({}, "/health", "GET")[0] != 200 and time.monotonic() < until:
        time.sleep(0.05)

    status, body = post({"model": "letters", "prompt": "abc", "max_tokens": 4})
    assert (status, json.loads(body)["choices"][0]["text"]) == (200, "defg")
    status, body = post({"prompt": "uv", "stream": True, "max_tokens": 9})
    events = [line.removeprefix("data: ") for line in body.split("\n\n") if line]
    assert (status, events.pop()) == (200, "[DONE]")
    assert [json.loads(event)["choices"][0]["text"] for event in events] == ["w", "x", "y", ""]
    status, body = post({"prompt": "a" * 32})
    assert (status, json.loads(body)["error"]["code"]) == (400, "context_length_exceeded")


def test_the_page(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(os.environ.get("PAGE", Path(__file__).parents[4] / "docs/ray.md")).absolute()
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    blocks = re.findall(r"^```(python|sh)( spark)?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 10
    names: dict[str, Any] = {"__name__": "page"}
    for language, kind, block in blocks:
        if block.startswith("pteron "):
            assert main(shlex.split(block)) == 0
        elif kind and importlib.util.find_spec("pyspark") is None:  # which has no wheel
            compile(block, str(page), "exec")
        elif language == "python":
            exec(block.replace(":8000/", f":{port}/"), names)
    lowered = {path.name for path in tmp_path.glob("*.pte")}
    assert lowered == {"model.pte", "small.pte", "wide.pte", "wide-avx512.pte"}


@pytest.mark.parametrize("name", ["first", "dynamic"])
def test_several_devices_of_a_process(folder: Path, name: str) -> None:
    """Their names mean nothing to a program for the CPU: two methods, on two threads."""
    images = _images(64)
    images[9] = np.nan
    rows = np.empty(64, object)
    rows[:] = list(images)
    rows[3] = images[3, :, :5]
    two = _predictor(folder, name, device=["cuda:0", "cuda:1"], keep=())
    one = _predictor(folder, name, keep=())
    assert len(two.rows()._methods) == 2
    for _ in range(20):
        found, expected = two({"image": rows}), one({"image": rows})
        assert np.array_equal(found["logits"], expected["logits"], equal_nan=True)
        assert found["error"].tolist() == expected["error"].tolist()
    assert two({"image": images[:1]})["logits"].shape == (1, 4)


def test_a_device_of_several_that_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows are not called faulty."""
    predictor = _predictor(folder, "first", device=["cuda:0", "cuda:1"])
    rows, call, barrier = predictor.rows(), predictor.rows()._call, threading.Barrier(2)

    def fails(method: Any, *arguments: Any) -> Any:
        if len(seen) < 2:  # each has a part
            seen.add(id(method))
            barrier.wait(timeout=60)
        if method is rows._methods[1]:
            raise pteron.BackendError("the device is gone")
        return call(method, *arguments)

    seen = set[int]()
    monkeypatch.setattr(rows, "_call", fails)
    with pytest.raises(pteron.BackendError, match="gone"):
        predictor({"image": _images(16)})
