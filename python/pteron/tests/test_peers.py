"""`pteron bench --against`: what is timed and counted, and that all compute the same."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import openvino
import pytest
from absl.testing import flagsaver

import pteron
from pteron.command import bench, peers
from pteron.command.main import main
from pteron.command.program_file import load
from pteron.command.usage import UsageError

MODEL = """
import torch
from torch import nn

def build(seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    batch = torch.export.Dim("batch", max=8)
    return model, (torch.randn(3, 8),), ({0: batch},)

def other():
    return build(1)
"""


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    (folder / "net.py").write_text(MODEL)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["pteron", "export", "net.py:build", "-o", "net.pte"]) == 0
        yield folder


def run_bench(capsys, *arguments, of="net.pte"):
    saved = flagsaver.save_flag_values(bench.FLAGS)
    capsys.readouterr()
    try:
        code = main(["pteron", "bench", of, "--seconds=0.02", "--json", *arguments])
    finally:
        flagsaver.restore_flag_values(saved, bench.FLAGS)
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if captured.out else captured.err


def test_same_outputs_and_threads(capsys):
    peers_of = "onnxruntime", "openvino", "eager"
    code, report = run_bench(capsys, "--model=net.py:build", f"--against={','.join(peers_of)}")
    assert code == 0
    assert report["threads"] == bench._cores()
    for peer in peers_of:
        found = report["contenders"][peer]
        assert found["same_outputs"] and found["difference"] < 1e-5
    code, report = run_bench(capsys)
    assert code == 0 and "its own choice" in report["threads"]


def test_another_model_is_told(capsys):
    code, report = run_bench(capsys, "--model=net.py:other", "--against=onnxruntime")
    assert code == 3
    assert report["contenders"]["onnxruntime"]["same_outputs"] is False


@pytest.mark.parametrize("peer", ["onnxruntime", "openvino"])
def test_a_peer_neither_exports_nor_has_torch(tmp_path, peer):
    meta = load("net.pte", []).metadata("forward")
    inputs = bench._example_inputs("net.py:build", meta, tmp_path)
    job = {"program": "net.pte", "data": [], "method": "forward", "folder": str(tmp_path)}
    job |= {"model": "net.py:build", "inputs": [inputs]}
    peers.prepare(peer, job, bench._dynamic(Path("net.pte"), meta))
    if peer == "onnxruntime":
        shape = onnxruntime.InferenceSession(tmp_path / "model.onnx").get_inputs()[0].shape
        assert isinstance(shape[0], str) and shape[1] == 8  # dynamic where the program is
    else:
        shape = openvino.Core().read_model(tmp_path / "model.xml").inputs[0].partial_shape
        assert shape[0].is_dynamic and shape[1] == 8
    del job["model"]  # what the process loads is there already
    for kind in ("pteron", peer):
        with peers.start(kind, job, threads=1) as contender:
            begun = contender.begun()
            assert begun["load_s"] > 0
            mapped = Path(f"/proc/{contender.process.pid}/maps").read_text()
            assert kind in mapped and "/torch/" not in mapped
            environment = Path(f"/proc/{contender.process.pid}/environ").read_bytes().split(b"\0")
            assert b"OMP_NUM_THREADS=1" in environment
            assert len(contender.calls(20)["seconds"]) == 20
    ours, theirs = (peers.outputs_of(kind, job) for kind in ("pteron", peer))
    assert ours[0].shape == (3, 4) and bench._difference(ours, theirs)["same_outputs"]


def test_a_file_that_does_not_say_what_is_dynamic():
    config = pteron.ExecutorchBackendConfig(emit_graph=False, verify=False)
    space: dict[str, Any] = {}
    exec(MODEL, space)
    model, args, shapes = space["build"]()
    pteron.export(model, args, "bare.pte", dynamic_shapes=shapes, config=config)
    meta = load("bare.pte", []).metadata("forward")
    with pytest.raises(UsageError, match="does not say which dimensions are dynamic"):
        bench._dynamic(Path("bare.pte"), meta)


@pytest.mark.parametrize(
    ("ours", "theirs", "difference", "is_same"),
    [
        ([1.0, -4.0], [1.0, -4.001], 2.5e-4, True),
        ([1.0, -4.0], [1.0, -4.1], 0.025, False),
        ([math.nan, math.inf], [math.nan, math.inf], 0.0, True),
        ([math.nan, 1.0], [0.0, 1.0], None, False),
        ([math.inf, 1.0], [-math.inf, 1.0], None, False),
        ([1.0], [1.0, 2.0], math.inf, False),
        ([7, 8], [7, 9], 0.125, False),
        ([], [], 0.0, True),
    ],
)
def test_differences(ours, theirs, difference, is_same):
    kind = np.float32 if all(isinstance(x, float) for x in ours) else np.int64
    found = bench._difference([np.array(ours, kind)], [np.array(theirs, kind)])
    assert found["same_outputs"] is is_same
    if difference is not None:
        assert found["difference"] == pytest.approx(difference, rel=1e-2)


def test_half_precision_may_differ_more():
    a, b = np.array([1.0], np.float16), np.array([1.01], np.float16)
    assert bench._difference([a], [b])["same_outputs"]
    assert not bench._difference([a.astype(np.float32)], [b.astype(np.float32)])["same_outputs"]


def test_what_onnxruntime_cannot_run(capsys):
    text = MODEL.replace("nn.Linear(16, 4)", "Half()") + (
        "class Half(nn.Module):\n    def forward(self, x):\n        return x.bfloat16() * 2, x\n"
    )
    Path("half.py").write_text(text)
    assert main(["pteron", "export", "half.py:build", "-o", "half.pte"]) == 0
    code, message = run_bench(
        capsys, "--model=half.py:build", "--against=onnxruntime", of="half.pte"
    )
    assert code == 1 and "onnxruntime cannot run the model: NotImplemented" in message
    code, report = run_bench(capsys, "--model=half.py:build", "--against=eager", of="half.pte")
    assert code == 0 and report["contenders"]["eager"]["same_outputs"]
