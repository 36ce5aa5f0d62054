"""A process of MLServer on this machine, called with Triton's clients by REST and gRPC."""

import concurrent.futures
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import tritonclient.grpc
import tritonclient.http
from torch import nn
from tritonclient.utils import InferenceServerException

import pteron
from pteron.ray import Predictor

_MESSAGE_NBYTES = 1 << 18


class Net(nn.Module):
    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.linear = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.linear(x)
        return {"y": y, "largest": y.argmax(1) + i}


class Table(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.embedding(ids)


class Server:
    """Ports and folder of the process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with contextlib.ExitStack() as stack:
            free = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
            self.http, self.grpc, self.metrics = (s.getsockname()[1] for s in free)

    def get(self, path: str, body: Any = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.http}{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
                return answer.status, json.loads(text or b"{}")
        except urllib.error.HTTPError as error:
            text = error.read()
            return error.code, json.loads(text) if text.startswith(b"{") else {}


def _settings(folder: Path, name: str, **others: Any) -> None:
    folder.mkdir(exist_ok=True)
    extra = others.pop("extra", {})
    parameters = {"uri": "model.pte", "extra": extra}
    settings = {
        "name": name,
        "implementation": "pteron.mlserver.PteronRuntime",
        "parameters": parameters,
        **others,
    }
    (folder / "model-settings.json").write_text(json.dumps(settings))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("models"))
    example = (torch.randn(4, 8), torch.ones(4, dtype=torch.int64))
    options_of: dict[str, dict[str, Any]] = {
        "net": {"extra": {"max_rows": 100}},
        "batched": {"max_batch_size": 4, "max_batch_time": 0.05},
        "limited": {"extra": {"limits": {"instructions": 0}}},
    }
    for name, options in options_of.items():
        _settings(server.folder / name, name, **options)
        pteron.export(Net().eval(), example, server.folder / name / "model.pte")
    _settings(server.folder / "table", "table", extra={"method": "rows"})
    rows = torch.export.Dim("rows", min=1, max=16)
    methods: Any = {"rows": (Table().eval(), (torch.zeros(2, 3, dtype=torch.int64),), ({0: rows},))}
    pteron.export(methods, path=server.folder / "table" / "model.pte")
    ports = {"http_port": server.http, "grpc_port": server.grpc, "metrics_port": server.metrics}
    settings = {"host": "127.0.0.1", "debug": False, "grpc_max_message_length": _MESSAGE_NBYTES}
    (server.folder / "settings.json").write_text(json.dumps({**settings, **ports}))
    places = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    code = "from mlserver.cli import main; main()"
    with open(server.folder / "log", "w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", code, "start", str(server.folder)],
            env={**os.environ, **places},
            cwd=server.folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        until = time.monotonic() + 120
        while True:
            with contextlib.suppress(OSError):
                if server.get("/v2/health/ready")[0] == 200:
                    break
            said = (server.folder / "log").read_text()
            assert process.poll() is None and time.monotonic() < until, said
            time.sleep(0.2)
        yield server
    finally:
        process.terminate()
        try:
            assert process.wait(timeout=60) == 0, (server.folder / "log").read_text()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # its workers, if it failed


def _rows(n: int) -> dict[str, Any]:
    random = np.random.default_rng(0)
    return {
        "x": random.standard_normal((n, 8)).astype(np.float32),
        "i": random.integers(0, 9, n),
    }


def _infer(server: Server, kind: str, model: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """Outputs by name, by a client of Triton."""
    library: Any = tritonclient.grpc if kind == "grpc" else tritonclient.http
    port = server.grpc if kind == "grpc" else server.http
    inputs = []
    for name, array in arrays.items():
        datatype = {"f": "FP", "i": "INT"}[array.dtype.kind] + str(8 * array.itemsize)
        inputs.append(library.InferInput(name, list(array.shape), datatype))
        options = {} if kind == "grpc" else {"binary_data": False}
        inputs[-1].set_data_from_numpy(array, **options)
    outputs: Any = None
    if kind == "http":
        outputs = [library.InferRequestedOutput(n, binary_data=False) for n in ("y", "largest")]
    with library.InferenceServerClient(f"127.0.0.1:{port}") as client:
        answer = client.infer(model, inputs, outputs=outputs)
        return {name: answer.as_numpy(name) for name in ("y", "largest")}


@pytest.mark.parametrize("n", [1, 4, 11])
@pytest.mark.parametrize("kind", ["http", "grpc"])
def test_rows_have_the_bits_of_the_predictor(server: Server, kind: str, n: int) -> None:
    rows = _rows(n)
    found = _infer(server, kind, "net", rows)
    expected = Predictor(server.folder / "net/model.pte", keep=())(rows)
    for name, array in found.items():
        assert array.dtype == expected[name].dtype
        assert np.array_equal(array, expected[name])
    with torch.no_grad():
        eager = Net().eval()(*(torch.from_numpy(rows[name]) for name in ("x", "i")))
    np.testing.assert_allclose(found["y"], eager["y"].numpy(), atol=1e-5, rtol=1e-5)


def test_what_the_server_says_of_the_model(server: Server) -> None:
    with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{server.grpc}") as client:
        assert client.is_server_live() and client.is_model_ready("net")
        about = client.get_model_metadata("net", as_json=True)
    shapes = {t["name"]: (t["datatype"], t["shape"]) for t in about["inputs"] + about["outputs"]}
    assert shapes == {
        "x": ("FP32", ["-1", "8"]),
        "i": ("INT64", ["-1"]),
        "y": ("FP32", ["-1", "3"]),
        "largest": ("INT64", ["-1"]),
    }
    status, about = server.get("/v2/models/table")
    assert (status, about["inputs"]) == (
        200,
        [{"name": "ids", "datatype": "INT64", "shape": [-1, -1]}],
    )


def _tensor(name: str, shape: list[int], data: Any, datatype: str = "FP32") -> dict[str, Any]:
    return {"name": name, "shape": shape, "data": data, "datatype": datatype}


@pytest.mark.parametrize(
    ("model", "inputs", "said"),
    [
        ("net", [_tensor("x", [1, 8], [0.0] * 8)], r"found inputs x\[1, 8\]; expected x, i"),
        ("table", [_tensor("ids", [2, 3], [0] * 5, "INT64")], "reshape"),
        ("table", [_tensor("ids", [1, 2], [0] * 2, "INT64")], "row 0: .*(2, expected 3|outside 3)"),
        ("table", [_tensor("ids", [2, 3], [0, 1, 99, 0, 1, 2], "INT64")], "row 0: .*(index|99)"),
        ("table", [_tensor("ids", [1, 3], [0.5] * 3)], "found float32, expected int64"),
        (
            "net",
            [
                _tensor("x", [101, 8], [0.0] * 808),
                _tensor("i", [101], [0] * 101, "INT64"),
            ],
            "found 101 rows; expected at most 100",
        ),
    ],
)
def test_a_request_that_is_not_valid(server: Server, model: str, inputs: Any, said: str) -> None:
    status, answer = server.get(f"/v2/models/{model}/infer", {"inputs": inputs})
    assert status == 400, answer
    assert re.search(said, answer["error"]), answer


def test_a_program_that_exceeds_its_limits(server: Server) -> None:
    """By no fault of the request."""
    inputs = [_tensor("x", [1, 8], [0.0] * 8), _tensor("i", [1], [0], "INT64")]
    status, answer = server.get("/v2/models/limited/infer", {"inputs": inputs})
    assert status == 500 and "instructions" in answer["error"], answer
    with pytest.raises(InferenceServerException, match="instructions") as error:
        _infer(server, "grpc", "limited", _rows(1))
    assert error.value.status() == "StatusCode.INTERNAL"


def test_errors_of_grpc(server: Server) -> None:
    rows = _rows(1)
    with pytest.raises(InferenceServerException, match="found inputs") as error:
        _infer(server, "grpc", "net", {"x": rows["x"]})
    assert error.value.status() == "StatusCode.INVALID_ARGUMENT"
    with pytest.raises(InferenceServerException, match="larger than max") as error:
        _infer(server, "grpc", "net", _rows(1 + _MESSAGE_NBYTES // 32))
    assert error.value.status() == "StatusCode.RESOURCE_EXHAUSTED"
    with pytest.raises(InferenceServerException, match="not found"):
        _infer(server, "grpc", "nothing", rows)


def test_requests_at_the_same_time_share_batches(server: Server) -> None:
    """Each has its own answer, and the metrics count them."""
    rows = _rows(32)
    expected = Predictor(server.folder / "batched/model.pte", keep=())(rows)["y"]

    def one(k: int) -> Any:
        request = {name: array[k : k + 1] for name, array in rows.items()}
        return _infer(server, "grpc" if k % 2 else "http", "batched", request)["y"]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = np.concatenate(list(pool.map(one, range(32))))
    assert np.array_equal(found, expected)
    with urllib.request.urlopen(f"http://127.0.0.1:{server.metrics}/metrics") as answer:
        text = answer.read().decode()
    assert re.search(r'batch_request_queue_count\{model_name="batched".*\} 32', text), text


def test_another_program_takes_over(server: Server) -> None:
    """Without a lost request."""
    rows, stop = _rows(2), threading.Event()
    first = Predictor(server.folder / "net/model.pte", keep=())(rows)["y"]
    example = (torch.randn(4, 8), torch.ones(4, dtype=torch.int64))
    pteron.export(Net(1).eval(), example, server.folder / "new.pte")
    second = Predictor(server.folder / "new.pte", keep=())(rows)["y"]

    def client() -> list[int]:
        seen = []
        while not stop.is_set():
            y = _infer(server, "grpc", "net", rows)["y"]
            fits = [np.array_equal(y, expected) for expected in (first, second)]
            assert sum(fits) == 1
            seen.append(fits.index(True))
        return seen

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        clients = [pool.submit(client) for _ in range(2)]
        try:
            time.sleep(0.5)
            (server.folder / "new.pte").rename(server.folder / "net/model.pte")
            assert server.get("/v2/repository/models/net/load", {})[0] == 200
            time.sleep(0.5)
        finally:
            stop.set()
        seen = [each.result() for each in clients]
    assert all(versions[0] == 0 and versions[-1] == 1 for versions in seen)
