"""The command `pteron`, as a shell calls it."""

import importlib
import json
import os
import re
import struct
import subprocess
import sys

import numpy as np
import pytest
import torch
from absl.testing import flagsaver
from PIL import Image
from safetensors.numpy import load_file

import pteron as pteron_module
from pteron.backends.aoti.object_cache import ObjectCache
from pteron.command.main import COMMANDS, main

MODEL = """
import torch
from torch import nn
import beside

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x, bias):
        return self.linear(x) + bias

def build():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(2, 4), torch.randn(2, 3))

def other():
    built = build()
    built[0].linear.weight.data.mul_(2)
    return built

def broken():
    return beside.fails()

def needs(x):
    return build()

net = Net()

def metal():
    return torch.nn.ReLU(), (torch.ones(2),)

class Deciding(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x

def deciding():
    return Deciding(), (torch.ones(3),)

class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.kinds = nn.Embedding(90, 4), nn.Embedding(3, 4)
        self.many = nn.Embedding(30000, 4)

    def forward(self, ids, kinds, small):
        y = self.words(ids) + self.kinds(kinds + 1) + self.many(small.long())
        return {"y": y, "ids": ids + 0, "kinds": kinds + 0, "small": small + 0}

def text():
    dtypes = torch.int32, torch.int64, torch.int8
    return Text(), tuple(torch.zeros(2, 64, dtype=dtype) for dtype in dtypes)

class Scalars(nn.Module):
    def forward(self, flag: bool, n: int, large, truth, byte, half):
        return large + n if flag else large - n, truth | False, byte + 0, half + 0

def scalars():
    dtypes = torch.int64, torch.bool, torch.uint8, torch.float16
    return Scalars(), (False, 3, *(torch.zeros(2, dtype=dtype) for dtype in dtypes))

class Images(nn.Module):
    def forward(self, first, last, gray, bytes, many):
        return first + 0, last + 0, gray + 0, bytes + 0, many + 0

def images():
    sizes = (1, 3, 4, 6), (2, 4, 6, 3), (4, 6), (4, 6, 3), (4, 6, 5)
    tensors = [torch.zeros(size) for size in sizes]
    tensors[3] = tensors[3].byte()
    return Images(), tuple(tensors), ({2: torch.export.Dim("h", max=9)}, None, None, None, None)

def nothing():
    pass

def swapped():
    return (torch.ones(3),), nn.ReLU()
"""


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    (folder / "net.py").write_text(MODEL)
    (folder / "cut.pt2").write_text("PK")
    (folder / "syntax.py").write_text("def build(:\n")
    (folder / "folder.pte").mkdir()
    (folder / "dangling.npz").symlink_to(folder / "nowhere" / "y.npz")
    (folder / "text.npy").write_text("1 2 3")
    np.save(folder / "x64.npy", np.ones((2, 4)))
    (folder / "beside.py").write_text("def fails():\n    raise KeyError('weights')\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


@pytest.fixture
def pteron(capsys):
    def run(name="--help", *arguments):
        code = _fresh(name, lambda: main(["pteron", name, *arguments]))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def _fresh(name, call):
    """What `call` returns; flags are then what they were."""
    if name not in COMMANDS:
        return call()
    values = importlib.import_module(f"pteron.command.{name.replace('-', '_')}").FLAGS
    saved = flagsaver.save_flag_values(values)
    try:
        return call()
    finally:
        flagsaver.restore_flag_values(saved, values)


def test_each_command_explains_itself(pteron):
    assert pteron()[0] == 0
    for command in COMMANDS:
        code, out, err = pteron(command, "--help")
        assert (code, err) == (0, "")
        assert f"pteron {command} " in out and "--json" in out


def test_help_and_version_are_found_where_others_have_them(pteron, capsys):
    assert _fresh("run", lambda: main(["pteron", "help", "run"])) == 0
    assert (0, capsys.readouterr().out, "") == pteron("run", "--help")
    code, out, err = pteron("--version")
    assert (code, err) == (0, "")
    assert out.startswith("pteron")


def test_what_cannot_run_here_is_not_compared(pteron):
    assert pteron("export", "net.py:metal", "-o", "metal.pte", "--backend=metal")[0] == 0
    code, out, err = pteron("compare", "metal.pte", "net.py:metal")
    assert (code, out) == (4, "")
    assert "method 'forward' was not compared: MetalBackend cannot run here" in err
    code, out, err = pteron("run", "metal.pte", "--input", "random")
    assert (code, out) == (1, "")
    assert "wants a Metal device" in err


def test_cache(pteron, tmp_path, monkeypatch):
    monkeypatch.setenv("PTERON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PTERON_CACHE_MB", "3")
    report = json.loads(pteron("cache", "--json")[1])
    assert (report["nbytes"], report["limit_nbytes"]) == (0, 3 << 20)
    cache = ObjectCache(tmp_path / "objects", 9 << 20)
    for age, (key, suffix) in enumerate([("aa1", ".o"), ("bb2", ".h.gch")]):
        path = cache.get(key, suffix, lambda path: path.write_bytes(bytes(1 << 20)))
        os.utime(path, (age, age))
    running = tmp_path / "objects" / "aa" / ".new-1.o"
    running.touch()
    code, out, err = pteron("cache")
    assert (code, err) == (0, "")
    assert re.findall(r"[0-9.]+ MiB", out) == ["2.0 MiB", "1.0 MiB", "1.0 MiB", "3.0 MiB"]
    report = json.loads(pteron("cache", "--shrink_to=1", "--json")[1])
    assert report["kinds"].keys() == {"h.gch"} and report["removed_nbytes"] == 1 << 20
    (tmp_path / "objects").chmod(0o777)
    out = pteron("cache", "--clear")[1]
    assert "holds     0.0 MiB" in out and "not used  others may write" in out
    assert running.exists()  # a compiler writes it
    assert pteron("cache", "--clear", "--shrink_to=1")[0] == 2
    assert pteron("cache", "--shrink_to=-1")[0] == 2
    monkeypatch.setenv("PTERON_CACHE_MB", "many")
    code, _, err = pteron("cache")
    assert code == 1 and "expected a number of MiB" in err


def test_export(pteron, folder):
    dynamic = ("--dynamic=x.0=batch:1..8", "--dynamic=bias.0=batch")
    code, out, err = pteron("export", "net.py:build", "-o", "net.pte", "--json", *dynamic)
    assert (code, err) == (0, "")
    report = json.loads(out)
    (method,) = report["program"]["methods"]
    assert method["inputs"][0].endswith(", 4]") and "[2," not in method["inputs"][0]
    assert report["files"] == {"net.pte": (folder / "net.pte").stat().st_size}


@pytest.fixture(scope="module")
def program(folder):
    command = ["pteron", "export", "net.py:build", "-o", "net.pte"]
    assert _fresh("export", lambda: main(command)) == 0
    whole = (folder / "net.pte").read_bytes()
    (folder / "cut.pte").write_bytes(whole[: len(whole) // 2])
    return folder / "net.pte"


def test_inspect(pteron, program):
    code, out, err = pteron("inspect", "net.pte")
    assert (code, err) == (0, "")
    for text in (
        "method forward",
        "float32[2, 4]",
        "delegate 0  CpuBackend",
        "x86-64-v3",
        "sha256",
    ):
        assert text in out
    report = json.loads(pteron("inspect", "net.pte", "--json")[1])
    assert report["files"] == {"net.pte": program.stat().st_size}
    assert report["methods"]["forward"]["inputs"][1]["sizes"] == [2, 3]


def test_inspect_writes_a_page(pteron, program, folder):
    assert pteron("inspect", "net.pte", "--html=net.html") == (0, "", "")
    page = (folder / "net.html").read_text()
    for text in ("<title>net.pte", "aten.addmm", ">linear.weight<", "net.py:12", "isa "):
        assert text in page
    for name in ("cut.pte", "nett.pte", "net.py"):  # the same error, and no page
        code, _, err = pteron("inspect", name)
        assert code and pteron("inspect", name, "--html=net.html") == (code, "", err)
        assert (folder / "net.html").read_text() == page
        pteron("inspect", name, "--html=other.html")
        assert not list(folder.glob("*other.html*"))
    code, _, err = pteron("inspect", "net.pte", "--html=missing/net.html")
    assert code == 1 and "cannot write missing/net.html" in err
    before = program.read_bytes()
    code, _, err = pteron("inspect", "net.pte", "--html=net.pte")
    assert code == 2 and "expected a name that ends in .html" in err
    assert program.read_bytes() == before
    assert pteron("inspect", "net.pte", "--trace=trace.json")[0] == 2
    code, _, err = pteron("inspect", "net.pte", "--html=net.html", "--trace=missing.json")
    assert code == 1 and "missing.json" in err
    with (folder / "check.json").open("w") as file:
        file.write(pteron("compare", "net.pte", "net.py:build", "--json")[1])
    assert pteron("inspect", "net.pte", "--html=net.html", "--check=check.json") == (0, "", "")
    assert ">equal<" in (folder / "net.html").read_text()


def test_constants(pteron, folder):
    (folder / "labels.json").write_text('["cat", "dog"]')
    constants = ["--constant=mean=[0.5, 1]", "--constant=labels=@labels.json"]
    code, _, err = pteron("export", "net.py:build", "-o", "constants.pte", *constants)
    assert (code, err) == (0, "")
    loaded = pteron_module.Runtime.get().load_program(folder / "constants.pte")
    assert loaded.load_method("labels")() == ["cat", "dog"]
    assert loaded.load_method("mean")() == [0.5, 1]
    assert pteron("run", "constants.pte", "--input", "random")[0] == 0


def test_run_on_files(pteron, program, folder):
    x, bias = np.ones((2, 4), np.float32), np.zeros((2, 3), np.float32)
    np.save(folder / "x.npy", x)
    np.savez(folder / "in.npz", bias=bias, x=2 * x)
    expected = pteron_module.Runtime.get().load_program(program).load_method("forward")(x, bias)
    for suffix in ("npz", "safetensors", "npy"):
        inputs = ["--input", "x=x.npy", "--input", "1=in.npz:bias"]
        code, out, err = pteron("run", "net.pte", *inputs, "-o", f"y.{suffix}")
        assert (code, out, err) == (0, "", "")
    for found in (
        np.load(folder / "y.npz")["output_0"],
        load_file(folder / "y.safetensors")["output_0"],
        np.load(folder / "y.npy"),
    ):
        np.testing.assert_array_equal(found, expected)
    limits = "--limits=run_time=60,planned_bytes=1000000"
    code, out, err = pteron("run", "net.pte", "--input", "1=0", "--input", "random", limits)
    assert (code, err) == (0, "")
    assert "float32[2, 3]" in out and "mean" in out


def test_random_integers_are_those_that_the_model_takes(pteron, folder):
    assert pteron("export", "net.py:text", "-o", "text.pte")[0] == 0
    code, out, err = pteron("run", "text.pte", "--input", "random", "--json")
    assert (code, err) == (0, "")
    outputs = json.loads(out)["outputs"]
    assert outputs["ids"]["min"] < 10 and 80 <= outputs["ids"]["max"] < 90
    assert (outputs["kinds"]["min"], outputs["kinds"]["max"]) == (0, 1)
    assert outputs["small"]["min"] >= 0 and outputs["small"]["max"] > 100
    code, out, err = pteron("bench", "text.pte", "--seconds=0.02", "--profile")
    assert (code, err) == (0, "")


def test_numbers_are_those_that_are_given(pteron, folder):
    assert pteron("export", "net.py:scalars", "-o", "scalars.pte")[0] == 0

    def run(**inputs):
        given = [f"--input={name}={text}" for name, text in inputs.items()]
        code, out, err = pteron("run", "scalars.pte", "--input", "zeros", *given, "-o", "y.npz")
        return (err.partition(": found ")[2], None) if code else (0, [*np.load("y.npz").values()])

    code, found = run(flag="False", large=2**53 + 4, truth="True", byte=255, half="-inf")
    assert code == 0
    assert [array[0] for array in found] == [2**53 + 1, True, 255, -np.inf]
    assert np.isnan(run(half="nan")[1][3]).all()
    for name, texts in {
        "flag": ("1", "yes", ""),
        "n": ("2.5", "0x3", "nan"),
        "large": ("3.7", "nan", "-inf", "1e30", str(2**63), "9" * 400),
        "truth": ("2", "0.5", "-1", "nan"),
        "byte": ("256", "-1", "1.5", "inf"),
        "half": ("1e5", "-65536", "9" * 400),
    }.items():
        for text in texts:
            assert run(**{name: text})[0].partition("; expected ")[2], (name, text)
    assert "flag" in pteron("run", "scalars.pte", "--input", "zeros", "--input=flag=TRUE")[2]


def test_images(pteron, folder):
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
    Image.fromarray(pixels).save(folder / "cat.png")
    Image.fromarray(pixels[..., 0]).save(folder / "gray.PNG")
    constants = ["--constant=mean=[0.5, 0.25, 0.75]", '--constant=channel_order="BGR"']
    assert pteron("export", "net.py:images", "-o", "images.pte", *constants)[0] == 0

    def run(*values):
        inputs = [text for value in values for text in ("--input", value)]
        code, out, err = pteron("run", "images.pte", *inputs, "--input", "zeros", "-o", "out.npz")
        assert (code, out, err) == (0, "", "")
        return list(np.load(folder / "out.npz").values())

    options = ":std=2,4,8:mean=0.5:channel_order=RGB"
    first, last, gray, raw, _ = run(
        "first=cat.png:size=4,6", f"last=cat.png{options}", "gray=gray.PNG:mean=0", "bytes=cat.png"
    )
    unit = pixels.astype(np.float32) / 255
    expected = (unit[..., ::-1] - np.float32([0.5, 0.25, 0.75])).transpose(2, 0, 1)
    np.testing.assert_allclose(first, expected[None], atol=1e-6)
    expected = (unit - 0.5) / np.float32([2, 4, 8])
    np.testing.assert_allclose(last, np.stack([expected, expected]), atol=1e-6)
    np.testing.assert_allclose(gray, unit[..., 0], atol=1e-6)
    np.testing.assert_array_equal(raw, pixels[..., ::-1])
    assert run("first=cat.png")[0].shape == (1, 3, 9, 6)

    wrong = [
        "first=dog.png:mean=1,2:std=0:size=4:channel_order=GBR:maen=1",
        "gray=gray.PNG",
        "bytes=cat.png:mean=1",
        "many=cat.png",
    ]
    inputs = [text for value in wrong for text in ("--input", value)]
    code, out, err = pteron("run", "images.pte", *inputs, "--input", "zeros")
    assert (code, out) == (2, "")
    for text in (
        "first: there is no file 'dog.png'",
        "no option of images 'maen'; did you mean 'mean'? Known: mean, std, size, channel_order",
        "mean: found '1,2'; expected a number for each channel, or one for all",
        "std: found '0'; expected a positive number",
        "size: found '4'; expected height,width",
        "channel_order: found 'GBR'; expected RGB or BGR",
        "mean: found [0.5, 0.25, 0.75], which the program's constant method returns; expected",
        "bytes: mean: pixels of Byte [4, 6, 3] are from 0 to 255",
        "many: it is Float [4, 6, 5]; expected [..., channels, height, width]",
    ):
        assert text in err, err


def test_compare(pteron, program):
    code, out, err = pteron("compare", "net.pte", "net.py:build")
    assert (code, err) == (0, "")
    assert "largest difference" in out
    code, out, err = pteron("compare", "net.pte", "net.py:other", "--json")
    assert (code, err) == (3, "")
    report = json.loads(out)
    assert report["methods"]["forward"]["outputs"][0]["error"] > 0.01
    assert "made from another model" in report["origin"]


def test_bench(pteron, program):
    arguments = ("--model=net.py:build", "--against=eager", "--seconds=0.02", "--threads=1")
    code, out, err = pteron("bench", "net.pte", *arguments)
    assert (code, err) == (0, "")
    assert "threads: 1" in out and " x ours" in out
    report = json.loads(pteron("bench", "net.pte", "--seconds=0.02", "--json")[1])
    ours = report["contenders"]["pteron"]
    assert 0 < ours["p10_s"] <= ours["p50_s"] <= ours["p99_s"]
    assert ours["memory_bytes"] > 1e6


def test_bench_shows_where_the_time_goes(pteron, program, folder):
    arguments = ("--seconds=0.02", "--trace=trace.json")
    code, out, err = pteron("bench", "net.pte", *arguments, "--profile")
    assert (code, err) == (0, "")
    assert "aten.addmm.default" in out and "in all" in out
    trace = json.loads((folder / "trace.json").read_text())
    report = json.loads(pteron("bench", "net.pte", "--seconds=0.02", "--profile", "--json")[1])
    names = {event["name"] for event in trace["traceEvents"] if event["ph"] == "X"}
    assert {row["name"] for row in report["profile"]} == names
    assert "profile" not in json.loads(pteron("bench", "net.pte", "--seconds=0.02", "--json")[1])


def test_a_file_of_torch_export_save(pteron, folder):
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh()).eval()
    torch.export.save(torch.export.export(net, (torch.randn(4, 3),)), folder / "saved.pt2")
    for command in ("export saved.pt2 -o saved.pte", "compare saved.pte saved.pt2"):
        code, out, err = pteron(*command.split())
        assert (code, err) == (0, "")
        assert "1 output in 1 call" in out


OUTPUT = ("-o", "bad.pte")


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["exprot"], 2, ["did you mean 'export'?"]),
        (["export"], 2, ["found arguments: none; expected: FILE.py:function"]),
        (["export", "net.py:build"], 2, ["add -o model.pte"]),
        (["export", "net.py:build", "--ouput=x.pte"], 2, ["ouput"]),
        (["export", "ned.py:build", *OUTPUT], 2, ["no file 'ned.py'; did you mean 'net.py'"]),
        (["export", "net.py", *OUTPUT], 2, ["expected FILE.py:function"]),
        (["export", "net.pt", *OUTPUT], 2, ["expected FILE.py:function", "or FILE.pt2"]),
        (["export", "no.pt2", *OUTPUT], 2, ["no file 'no.pt2'"]),
        (["export", "cut.pt2", *OUTPUT], 1, ["cut.pt2 is not read by torch.export.load", "try: "]),
        (["export", "net.py:biuld", *OUTPUT], 2, ["net.py: there is no function", "'build'"]),
        (["export", "net.py:broken", *OUTPUT], 1, ["in broken\n", "KeyError: 'weights'"]),
        (["export", "net.py:build", *OUTPUT, "--backend=cup"], 1, ["did you mean 'cpu'?"]),
        (["export", "net.py:needs", *OUTPUT], 2, ["one that takes x; expected a function without"]),
        (["export", "net.py:net", *OUTPUT], 2, ["net is a Net; expected a function"]),
        (["export", "syntax.py:build", *OUTPUT], 1, ["syntax.py is not Python", "def build(:"]),
        (["export", "net.py:build", *OUTPUT, "--constant=a=[1"], 2, ["a=[1: expected JSON or @"]),
        (["export", "net.py:build", *OUTPUT, "--constant=a=@no"], 2, ["expected JSON or @FILE"]),
        (["export", "net.py:build", *OUTPUT, "--constant=a"], 2, ["expected NAME=VALUE"]),
        (["export", "net.py:build", "bad.pte"], 2, ["try: -o bad.pte"]),
        (["export", "net.py:build", *OUTPUT, "--backend=gpu"], 1, ["did you mean 'cuda'"]),
        (["export", "net.py:build", *OUTPUT, "--option=cpu.isa"], 2, ["expected NAME=VALUE"]),
        (["export", "net.py:build", *OUTPUT, "--dynamic=x.0=8..1"], 2, ["expected MIN below MAX"]),
        (
            ["export", "net.py:build", *OUTPUT, "--dynamic=y.0=1..8", "--dynamic=x.2=1..8"],
            2,
            ["no input 'y'. Known: bias, x", "input 'x' of 'forward' has 2 dimensions"],
        ),
        (["inspect", "nett.pte"], 2, ["no file 'nett.pte'; did you mean 'net.pte'"]),
        (["export", "net.py:deciding", *OUTPUT], 1, ["try:  torch.where", "net.py"]),
        (["export", "net.py:nothing", *OUTPUT], 1, ["found a NoneType", "try:  return module"]),
        (["export", "net.py:swapped", *OUTPUT], 1, ["found a tuple", "try:  the module first"]),
        (["export", "net.py:build", "-o", "folder.pte"], 1, ["it is a folder", "try: "]),
        (["inspect", "folder.pte"], 2, ["'folder.pte' is a folder"]),
        (["inspect", ""], 2, ["there is no file ''"]),
        (["run", "/dev/null"], 2, ["'/dev/null' is a pipe or device; expected a file"]),
        (["inspect", "net.py"], 1, ["net.py: ", "try:  pteron export net.py:FUNCTION"]),
        (["run", "cut.pte"], 1, ["cut.pte: ", "truncated\ntry:  copying the file again"]),
        (["compare", "net.pte", "net.py:metal"], 1, ["takes 2 inputs", "net.py:metal 1 and 1"]),
        (["run", "net.pte", "--method=forwards"], 2, ["did you mean 'forward'"]),
        (
            ["run", "net.pte", "--input", "z=1", "--input", "0=x.jpg", "-o", "y.npy"],
            2,
            ["no input 'z'", "x: ", "Float [2, 3] is not given", "--input random for all"],
        ),
        (["run", "net.pte", "--limits=x=1"], 2, ["found 'x=1'", "names: run_time, instructions"]),
        (["run", "net.pte", "--limits=run_time=-1"], 2, ["found 'run_time=-1', expected NAME="]),
        (["run", "net.pte", "--limits=load_bytes"], 2, ["found 'load_bytes', expected NAME="]),
        (
            ["run", "net.pte", "--input", "random", "--limits=run_time=5,planned_bytes=1"],
            1,
            ["planned_bytes"],
        ),
        (["run", "net.pte", "x.npy"], 2, ["try: --input x.npy"]),
        (["run", "net.pte", "--input", "x=no.npy"], 2, ["x: there is no file 'no.npy'"]),
        (
            ["run", "net.pte", "--input", "rnadom"],
            2,
            ["found 'rnadom'; expected NAME=VALUE, random"],
        ),
        (["run", "net.pte", "--input", "random:2,x"], 2, ["expected sizes, as random:2,16"]),
        (["run", "net.pte", "--input", f"random:{10**12},1000"], 1, ["Unable to allocate"]),
        (["run", "net.pte", "--input", "x=text.npy"], 2, ["expected what np.save writes"]),
        (
            ["run", "net.pte", "--input", "x=x64.npy", "--input", "random"],
            1,
            ["input 0 (x): it is float64, expected float32; convert it"],
        ),
        (["run", "net.pte", "--input", "random", "-o", "dangling.npz"], 1, ["cannot write dang"]),
        (["run", "net.pte", "-o", "y.txt"], 2, ["expected a name in .npy, .npz, .safetensors"]),
        (
            ["run", "net.pte", "--input", "random:5"],
            1,
            ["input 0 (x): it has 1 dimensions", "reshape it"],
        ),
        (["bench", "net.pte", "--threads=0"], 2, ["threads"]),
        (["bench", "net.pte", "--model=net.py:metal"], 2, ["has 1 example inputs", "x, bias"]),
        (["bench", "net.pte", "--against=eager"], 2, ["expected --model FILE.py:function"]),
    ],
)
def test_wrong_lines(pteron, program, folder, arguments, code, expected):
    found, out, err = pteron(*arguments)
    assert (found, out) == (code, "")
    assert all(text in err for text in expected), err
    assert "site-packages" not in err and "importlib" not in err
    assert not (folder / "bad.pte").exists()


# What fuzz_files.py found: libraries raise errors of many kinds.
_HEADER = b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': , 3), }"
_DAMAGED = {
    "header.npy": _HEADER.ljust(128),
    "huge.npy": b"\x93NUMPY\x01\x00v\x00"
    + b"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999,), }".ljust(118),
    "cut.npz": b"PK\x03\x04" + bytes(40),
    "array.npz": b"\x93NUMPY\x01\x00v\x00"
    + b"{'descr': '<f4', 'fortran_order': False, 'shape': (), }".ljust(118)
    + bytes(4),
    "header.safetensors": (1 << 62).to_bytes(8, "little") + bytes(40),
    "bomb.bmp": struct.pack("<2sIIIIiiHH24x", b"BM", 54, 0, 54, 40, 60000, 60000, 1, 24),
}


@pytest.mark.parametrize("name", _DAMAGED)
def test_damaged_inputs(pteron, program, folder, name):
    (folder / name).write_bytes(_DAMAGED[name])
    code, out, err = pteron("run", "net.pte", "--input", f"x={name}", "--input", "random")
    assert (code, out) == (2, "")
    assert f"x: '{name}' holds no " in err and "Traceback" not in err, err


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ([], True),
        (["--noverify"], False),
        (["--verify=false"], False),
        (["--verify"], True),
        (["--verify=example"], "example"),
    ],
)
def test_verify_is_a_boolean_or_example(arguments, found):
    from pteron.command import export

    export.FLAGS.unparse_flags()
    export.FLAGS(["export", *arguments])
    assert export.FLAGS.verify == found
    export.FLAGS.unparse_flags()


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["inspect", "net.pte"]])
def test_output_that_cannot_be_written(program, arguments):
    code = "import sys; from pteron.command.main import main; sys.exit(main())"
    for target, expected in (("/dev/full", 1), ("", 0)):
        read, write = os.pipe()
        os.close(read)  # the pipe has no reader
        with open(target, "w") if target else os.fdopen(write, "w") as output:
            command = [sys.executable, "-c", code, *arguments]
            done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, check=False)
        assert done.returncode == expected
        assert done.stderr.count(b"\n") == expected, done.stderr
        assert (b"No space left" in done.stderr) == bool(expected)


def test_help_needs_no_torch():
    """And comes at once."""
    code = (
        "import sys, time; sys.modules['torch'] = None; start = time.process_time()\n"
        "from pteron.command.main import main\n"
        "code = main(['pteron', *sys.argv[1:]])\n"
        "assert time.process_time() - start < 1 or code\n"
        "sys.exit(code)"
    )
    for name in COMMANDS:
        command = [sys.executable, "-c", code, name]
        done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), name
        assert done.stdout.startswith(
            importlib.import_module(f"pteron.command.{name.replace('-', '_')}").__doc__.partition(
                "\n"
            )[0]
        )
    done = subprocess.run(
        [*command[:3], "export", "net.py:build", "-o", "x.pte"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "pteron export: it needs torch, which is not installed.\ntry:  pip" in done.stderr


def test_weights_are_updated(pteron, folder):
    option = "--option=cpu.updatable_weights=true"
    assert pteron("export", "net.py:build", "-o", "old.pte", option)[0] == 0
    torch.save({"linear.weight": torch.ones(3, 4), "linear.bias": torch.ones(3)}, "ones.pt")
    code, out, _ = pteron("update-weights", "old.pte", "ones.pt", "-o", "ones.pte", "--json")
    assert code == 0 and json.loads(out)["files"] == {
        "ones.pte": (folder / "ones.pte").stat().st_size
    }
    pteron("run", "ones.pte", "--input=x=1", "--input=bias=2", "-o", "y.npy")
    np.testing.assert_array_equal(np.load("y.npy"), np.full((2, 3), 7))
    torch.save({"linear.weight": torch.ones(3, 4)}, "half.pt")
    code, _, error = pteron("update-weights", "old.pte", "half.pt", "-o", "half.pte")
    assert code == 1 and "linear.bias is missing" in error
    assert pteron("update-weights", "old.pte", "-o", "half.pte")[0] == 2
    assert pteron("update-weights", "old.pte", "ones.pt")[0] == 2
