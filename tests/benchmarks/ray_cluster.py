"""Images through ResNet-50 on a cluster of two nodes of this machine, and requests for minutes.

  tools/bazel run //tests/benchmarks:ray_cluster -- --images=10000 --serve_seconds=300

`rows`: every image once, with the bits that it has alone, though a worker is killed on the way;
then images a second without that, beside actors with ONNX Runtime. `serve`: Ray Serve on loopback
under the load generator `hey` (of Debian); another program takes over halfway. `idle`: the CPU time
of an actor that has run a program, beside one that never loaded any.

All models take uint8 and normalize. Each actor has one core and one thread.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import torch
from absl import app, flags
from torch import nn

import pteron
import pteron.ray
from tests.benchmarks.results import Results, commit, cpu_name

_IMAGES = flags.DEFINE_integer("images", 10_000, "Rows of the run in which a worker is killed.")
_COMPARED = flags.DEFINE_integer("compared", 4000, "Rows of the runs that are compared.")
_SERVE_SECONDS = flags.DEFINE_integer("serve_seconds", 300, "How long requests come.")
_BATCH_WAIT_S = flags.DEFINE_float("batch_wait_s", 0.05, "How long a request waits for others.")
_CLIENTS = flags.DEFINE_integer("clients", 8, "Requests at a time.")
_IDLE_SECONDS = flags.DEFINE_integer("idle_seconds", 60, "How long an idle actor is watched.")
_PARTS = flags.DEFINE_list("parts", ["rows", "serve", "idle"], "Which of them.")
_FOLDER = flags.DEFINE_string("folder", None, "For models, kept between runs; else a new one.")
_JSON = flags.DEFINE_string("json", "", "A file for the results.")

_BATCH = 8
_DISTINCT = 32  # images, which repeat


class Classifier(nn.Module):
    """ResNet-50 with its preprocessing."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        from tests.models.full_size import FULL_SIZE

        self.seed = seed
        self.model = FULL_SIZE["resnet50"].module()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406])[:, None, None])
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225])[:, None, None])

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.model((image.float() / 255 - self.mean) / self.std)
        return {"logits": logits + self.seed}  # which tells them apart


def _image(number: int) -> Any:
    random = np.random.default_rng(number % _DISTINCT)
    return random.integers(0, 256, (3, 224, 224), np.uint8)


def _images(batch: dict[str, Any]) -> dict[str, Any]:
    return {"id": batch["id"], "image": np.stack([_image(int(i)) for i in batch["id"]])}


class Ours(pteron.ray.Predictor):
    def __call__(self, batch: Any) -> Any:
        results = super().__call__(batch)
        return {**results, "pid": np.full(len(results["id"]), os.getpid())}


class OnnxRuntime:
    def __init__(self, path: str) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )

    def __call__(self, batch: Any) -> Any:
        n = len(batch["image"])
        padded = np.resize(batch["image"], (n + -n % _BATCH, *batch["image"].shape[1:]))
        parts = [padded[i : i + _BATCH] for i in range(0, len(padded), _BATCH)]
        logits = [self._session.run(None, {"image": part})[0] for part in parts]
        pids = np.full(n, os.getpid())
        return {"id": batch["id"], "logits": np.concatenate(logits)[:n], "pid": pids}


def _prepare(folder: Path) -> None:
    """first.pte, second.pte and first.onnx."""
    example = torch.zeros(_BATCH, 3, 224, 224, dtype=torch.uint8)
    for seed, name in enumerate(("first", "second")):
        if not (folder / f"{name}.pte").exists():
            pteron.export(Classifier(seed).eval(), (example,), folder / f"{name}.pte")
    if not (folder / "first.onnx").exists():
        torch.onnx.export(
            Classifier(0).eval(),
            (example,),
            folder / "first.onnx",
            input_names=["image"],
            output_names=["logits"],
            dynamo=True,
        )


def _alone(path: Path) -> Any:
    """The rows one by one, in another process of one thread."""
    code = (
        "import sys, numpy as np, pteron.ray\n"
        "from tests.benchmarks.ray_cluster import _DISTINCT, _image\n"
        "run = pteron.ray.Predictor(sys.argv[1])\n"
        "rows = [run({'image': _image(i)[None]})['logits'][0] for i in range(_DISTINCT)]\n"
        "np.save(sys.argv[2], rows)\n"
    )
    file = path.with_suffix(".npy")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", code, path, file], check=True, env=environment)
    return np.load(file)


def _through(kind: Any, path: Path, n: int, kill: bool, expected: Any = None) -> dict[str, Any]:
    """All rows through two actors; each is checked as it comes."""
    import ray.data

    results = (
        ray.data.range(n, override_num_blocks=max(2, n // 64))
        .map_batches(_images, batch_size=64)
        .map_batches(
            kind,
            fn_constructor_args=(str(path),),
            compute=ray.data.ActorPoolStrategy(size=2),
            batch_size=64,
            num_cpus=1,
        )
        .select_columns(["id", "logits", "pid"])
    )
    seen, pids, unequal, start, first = set[int](), set[int](), 0, time.monotonic(), 0.0
    for row in results.iter_rows():
        if not seen:
            first = time.monotonic()
        if kill and not seen:  # most rows are still to come
            os.kill(int(row["pid"]), signal.SIGKILL)
        seen.add(int(row["id"]))
        pids.add(int(row["pid"]))
        if expected is not None:
            unequal += not np.array_equal(row["logits"], expected[row["id"] % _DISTINCT])
    end = time.monotonic()
    assert seen == set(range(n))
    return {
        "rows": n,
        "processes": len(pids),
        "rows_with_other_bits": unequal if expected is not None else None,
        "seconds": round(end - start, 1),
        "rows_a_second_after_the_first": round(n / (end - first), 2),
    }


def _serve(folder: Path, seconds: int, clients: int) -> dict[str, Any]:
    from ray import serve

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # The proxies of two nodes of one machine share the port; that of a node without replicas ends.
    serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": port})
    options: dict[str, Any] = {
        "batch_wait_s": _BATCH_WAIT_S.value,
        "ray_actor_options": {"num_cpus": 1},
    }

    def program(name: str) -> None:
        serve.run(pteron.ray.deployment(folder / f"{name}.pte", **options))

    program("first")
    url, body = f"http://127.0.0.1:{port}/", folder / "body.npy"
    np.save(body, _image(0)[None])
    stop, answers = threading.Event(), dict[str, int]()

    def ask() -> None:
        """Which program answers, beside the load."""
        import io

        alone = {
            name: pteron.ray.Predictor(folder / f"{name}.pte")({"image": _image(0)[None]})["logits"]
            for name in ("first", "second")
        }
        while not stop.is_set():
            headers = {"content-type": "application/x-npy"}
            request = urllib.request.Request(url, body.read_bytes(), headers)
            with urllib.request.urlopen(request) as answer:
                logits = np.load(io.BytesIO(answer.read()))["logits"]
            fits = [n for n, y in alone.items() if np.allclose(y, logits, atol=1e-3, rtol=1e-3)]
            (name,) = fits
            answers[name] = answers.get(name, 0) + 1
            time.sleep(0.5)

    thread = threading.Thread(target=ask)
    thread.start()
    change = threading.Timer(seconds / 2, program, ["second"])
    change.start()
    load = ["hey", "-z", f"{seconds}s", "-c", str(clients), "-t", "60", "-m", "POST"]
    load += ["-T", "application/x-npy", "-D", str(body), url]
    said = subprocess.run(load, capture_output=True, text=True, check=True).stdout
    change.join()
    stop.set()
    thread.join()
    rows, batches = _batches()
    print(said, answers, f"{rows} rows in {batches} batches", flush=True)
    serve.shutdown()
    assert set(answers) == {"first", "second"}
    return {
        "clients": clients,
        "answers_that_were_looked_at": answers,
        "rows_in_batches": [rows, batches],
        "hey": said.split("\n"),
    }


def _batches() -> tuple[int, int]:
    """Rows and batches of all replicas until now, of Ray's metrics."""
    import ray

    time.sleep(11)  # they are reported each 10 seconds
    text = ""
    for node in ray.nodes():
        port = node["MetricsExportPort"]
        with urllib.request.urlopen(f"http://{node['NodeManagerAddress']}:{port}/") as answer:
            text += answer.read().decode()
    pattern = r"^ray_serve_actual_batch_size_%s\{.*\} (.*)$"
    rows, batches = (
        sum(map(float, re.findall(pattern % name, text, re.MULTILINE))) for name in ("sum", "count")
    )
    return int(rows), int(batches)


def _idle(path: Path, seconds: int) -> dict[str, float]:
    import ray

    @ray.remote(num_cpus=0)
    class Actor:
        def run(self, path: str | None) -> None:
            if path is not None:
                self.predictor = pteron.ray.Predictor(path)
                self.predictor({"image": np.stack([_image(i) for i in range(_BATCH)])})

        def seconds(self) -> float:
            return time.process_time()

    kind: Any = Actor
    actors = {"with_a_program": kind.remote(), "without": kind.remote()}
    for name, actor in actors.items():
        ray.get(actor.run.remote(str(path) if name == "with_a_program" else None))
    time.sleep(5)
    before = {name: ray.get(actor.seconds.remote()) for name, actor in actors.items()}
    time.sleep(seconds)
    return {
        f"cpu_ms_a_second_{name}": round(
            1000 * (ray.get(actor.seconds.remote()) - before[name]) / seconds, 3
        )
        for name, actor in actors.items()
    }


def main(_: list[str]) -> None:
    folder = Path(_FOLDER.value or tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    _prepare(folder)
    results = Results(_JSON.value, {"commit": commit(), "cpu": cpu_name()})
    report = results.report
    report["cores"] = os.cpu_count()
    short = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # of Unix sockets
    os.environ.update(
        PYTHONPATH=os.pathsep.join(map(os.path.abspath, sys.path)),
        RAY_TMPDIR=short,
        RAY_USAGE_STATS_ENABLED="0",
    )
    import ray
    from ray.cluster_utils import Cluster

    node: dict[str, Any] = {"num_cpus": 2, "object_store_memory": 1 << 30}
    nodes = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        nodes.add_node(**node)
        ray.init(address=nodes.address, log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        if "rows" in _PARTS.value:
            expected = _alone(folder / "first.pte")
            report["load_average"] = os.getloadavg()
            path, other, n = folder / "first.pte", folder / "first.onnx", _COMPARED.value
            report["killed"] = _through(Ours, path, _IMAGES.value, True, expected)
            print(json.dumps(report["killed"]), flush=True)
            report["pteron"] = _through(Ours, path, n, False, expected)
            print(json.dumps(report["pteron"]), flush=True)
            report["onnxruntime"] = _through(OnnxRuntime, other, n, False)
            print(json.dumps(report["onnxruntime"]), flush=True)
        if "idle" in _PARTS.value:
            report["idle"] = _idle(folder / "first.pte", _IDLE_SECONDS.value)
            print(json.dumps(report["idle"]), flush=True)
        if "serve" in _PARTS.value:
            report["serve"] = _serve(folder, _SERVE_SECONDS.value, _CLIENTS.value)
    finally:
        ray.shutdown()
        nodes.shutdown()
        shutil.rmtree(short, ignore_errors=True)
    results.save()
    assert not report.get("killed", {}).get("rows_with_other_bits")


if __name__ == "__main__":
    app.run(main)
