"""Programs in Ray Serve."""

import asyncio
import concurrent.futures
import http.client
import importlib.util
import io
import json
import os
import re
import shlex
import socket
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
from pteron.ray.tests.programs import eager, make_images


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
    images = make_images(64)
    expected = [eager(seed, images) for seed in range(2)]
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
    images, expected = make_images(10), eager(0, make_images(10))
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


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("", b"[" * 100_000),
        ("application/json", b'{"inputs": \xff}'),
        ("application/json", b'{"inputs": {"x": [[1], [1, 2]]}}'),
        ("application/x-npy", b""),
        ("application/x-npy", b"\x93NUMPY\x01\x00v\x00" + b"{'shape': , }".ljust(118)),
        (
            "application/x-npy",
            b"\x93NUMPY\x01\x00v\x00"
            + b"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999,), }".ljust(118),
        ),
        ("application/x-npz", b"PK\x03\x04" + bytes(40)),
    ],
)
def test_a_body_that_is_damaged(kind: str, body: bytes) -> None:
    from pteron.ray.serving import _parse

    with pytest.raises(ValueError, match="is not of type|inhomogeneous"):
        _parse(body, kind, ["x"])


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
    handle, images, answers = _serve(port, application), make_images(3), list[Any]()

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
        np.testing.assert_allclose(found, eager(0, images[:rows]), atol=1e-5, rtol=1e-5)
    see(len(answers) + 1, 1, first, [1, 3], [2, 2])


def test_a_full_queue_a_deadline_and_the_metrics(port: int, folder: Path) -> None:
    import ray

    slow = pteron.ray.deployment(
        folder / "first.pte", batch_wait_s=1, max_ongoing_requests=4, max_queued_requests=1
    )
    _serve(port, slow)
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda i: _post(port, _image(i)), make_images(12)))
    assert {status for status, _ in answers} == {200, 503}
    assert _post(port, _image(make_images(1)[0]), seconds=0.2)[0] == 408
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
