"""`pteron.export`: one call, and its messages for invalid arguments."""

import dataclasses
import re
import subprocess
import sys
import types
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch._inductor.utils import get_gpu_type

import pteron
import pteron.exporter.exporter
from pteron.exporter import export_methods


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Linear(3, 3)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.total.add_(self.drop(self.scale(x)).sum(0))
        return self.total.clone()

    def read(self, factor):
        self.total.mul_(factor)
        return self.total + 1


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = torch.zeros(1)

    def forward(self, x):
        self.count = self.count + 1
        return x + self.count


class Branches(nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() > 0 else x - 1


class UsesNumpy(nn.Module):
    def forward(self, x):
        return torch.from_numpy(np.sin(x.numpy()))


class WritesData(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x):
        self.scale.data.add_(1)
        return x * self.scale


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


class Out:
    def __init__(self, y):
        self.y = y


class ReturnsObject(nn.Module):
    def forward(self, x):
        return Out(x)


class AsksWhetherItIsExported(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        return x * (2 if torch.compiler.is_exporting() else 3)


class Item(nn.Module):
    """Uses an element as an int, in one of three ways."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def forward(self, x, n):
        if self.how == "loop":
            for _ in range(int(n)):
                x = x + 1
        elif self.how == "branch":
            return x if (x > 0).nonzero().shape[0] == 0 else -x
        elif self.how == "int":
            return x[:, :n]
        return x


class Words(nn.Module):
    def forward(self, ids, mask):
        return ids * mask


class Fails(nn.Module):
    def __init__(self, device="cpu"):
        super().__init__()
        self.device = device

    def forward(self, x):
        if self.device == "cpu":
            raise KeyError("three of them are wanted")
        return x + torch.ones(3, device=self.device)


class Reshapes(nn.Module):
    def forward(self, x):
        return x.reshape(2, 3, 1)


class HasSparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("eye", torch.eye(3).to_sparse())

    def forward(self, x):
        return torch.sparse.mm(self.eye, x.t())


class DynamicCache:
    """As transformers' models return it."""


class Decodes(nn.Module):
    def forward(self, x):
        return x, DynamicCache()


class Catches(nn.Module):
    def forward(self, x):
        try:
            return x.view(3, 3)
        except RuntimeError:
            return x


class Remembers(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen, self.count, self.last = [], 0, torch.zeros(2, 3)
        self.part = nn.ReLU()
        self.part.names = {"a", "b"}  # which stays

    def forward(self, x):
        self.seen.append(x)
        self.count += 1
        self.last = self.last + x
        self.part.calls = {"one": 1}
        return self.part(x) + self.count + self.last


X = torch.ones(2, 3)
N = torch.tensor(2)
BATCH = torch.export.Dim("batch", max=8)
WIDTH = torch.export.Dim("width", max=8)
QUANTIZED = torch.ao.nn.quantized.dynamic.Linear(3, 3)


def test_a_model_that_export_changes_is_noted(tmp_path):
    model = AsksWhetherItIsExported()
    report = pteron.export(model, X, tmp_path / "model.pte")
    assert "differs from the model itself, by 3.3e-01" in str(report)
    assert model.calls == 0


@pytest.mark.parametrize("nested", [False, True])
def test_graphs_of_torch_export_are_modules(tmp_path, nested):
    """As prepare_pt2e and convert_pt2e return them; they refuse train() and eval()."""
    layers = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).eval()
    graph = torch.export.export(layers, (X,)).module()
    model = nn.Sequential(nn.Dropout(0.9), graph) if nested else graph
    report = pteron.export(model, X, tmp_path / "model.pte")
    assert ("training mode" in str(report)) == nested
    torch.testing.assert_close(load(tmp_path / "model.pte").load_method("forward")(X), graph(X))


def test_methods_share_state_and_the_report_says_all(tmp_path):
    path = tmp_path / "counter.pte"
    model = Counter()
    stages: list[str] = []
    batch = torch.export.Dim("batch", min=1, max=8)
    report = pteron.export(
        {"forward": (model, X), "read": (model.read, {"factor": X[0]})},
        path=path,
        dynamic_shapes={"forward": ({0: batch},)},
        options={"cpu.save_data_externally": "true"},
        on_stage=stages.append,
    )
    assert model.training and model.drop.training
    assert vars(model).get("forward") is None
    assert list(report.seconds) == stages
    assert [m.name for m in report.program.methods] == ["forward", "read"]
    assert "training mode" in str(report)
    assert "counter.ptd, too: load_program(path, data_path=...)" in str(report)
    with pytest.raises(pteron.NotFoundError, match="give the .ptd file that was written with"):
        pteron.Runtime.get().load_program(path).load_method("forward")
    assert "difference" in str(report)
    assert report.files == {str(p): p.stat().st_size for p in (path, path.with_suffix(".ptd"))}

    program = pteron.Runtime.get().load_program(path, data_path=path.with_suffix(".ptd"))
    session = program.session()
    add, read = (program.load_method(name, session=session) for name in ("forward", "read"))
    x = torch.ones(5, 3)
    expected = model.eval()(x)
    torch.testing.assert_close(add(x), expected)
    torch.testing.assert_close(read(factor=2 * X[0]), 2 * expected + 1)


class Calls(nn.Module):
    """Its methods call the module itself; it keeps a tensor under two names."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Linear(3, 3)
        self.register_buffer("cache", torch.zeros(3), persistent=False)
        self.kept = [self.cache]  # as transformers' StaticCache does

    def forward(self, ids, mask=None, *, shift=0):
        self.kept[0].add_(1)
        y = self.scale(ids) + self.cache + shift
        return Pair(y, y if mask is None else y * mask)

    def prefill(self, tokens, factor):
        return self(tokens).first * factor


def load(path):
    return pteron.Runtime.get().load_program(path)


def test_calls_as_in_torch(tmp_path):
    """By position or by name, whichever way it was exported; fields of what is returned."""
    model, path = Calls(), tmp_path / "calls.pte"
    methods = {
        "forward": (model, {"ids": X, "mask": X}),
        "prefill": (model.prefill, (X, X)),
        "shifted": (model.forward, {"ids": X, "shift": 2}),
    }
    pteron.export(methods, path=path)
    assert "forward" not in vars(model)
    expected = model.scale(X).detach()

    def call(name, *args, **kwargs):
        method = load(path).load_method(name)
        return method(*args, **kwargs)

    for out in (call("forward", X, 2 * X), call("forward", mask=2 * X, ids=X)):
        torch.testing.assert_close(out.first, expected + 1)
        torch.testing.assert_close(out.second, 2 * (expected + 1))
        assert out._fields == ("first", "second")
    method, second = load(path).load_method("forward"), torch.empty(2, 3)
    assert method.execute({"ids": X, "mask": X}, out={"second": second})[1] is second
    torch.testing.assert_close(second, X * (expected + 1))
    with pytest.raises(pteron.PteronError, match="found third in `out`; the outputs are first, "):
        method.execute({"ids": X, "mask": X}, out={"third": second})
    torch.testing.assert_close(call("prefill", X, factor=3 * X), 3 * (expected + 1))
    torch.testing.assert_close(call("shifted", X, shift=2).first, expected + 3)
    with pytest.raises(
        pteron.InvalidArgumentError, match=r"1 by position \(ids; or.*missing: shift"
    ):
        call("shifted", X, 2)
    method = load(path).load_method("forward")
    assert not model.cache.any()
    for number in (1, 2, 3):  # the state is one, too
        torch.testing.assert_close(method(X, X).first, expected + number)


class OnlyStrict(nn.Module):
    def forward(self, x):
        if not torch.compiler.is_dynamo_compiling():
            raise KeyError("only with strict=True")
        return x + 1


def test_the_other_way_of_torch_export_is_tried(tmp_path):
    path = tmp_path / "strict.pte"
    config = pteron.ExecutorchBackendConfig(verify=False)
    report = pteron.export(OnlyStrict(), X, path, config=config)
    assert "exported with strict=True; with strict=False torch.export raises KeyError" in str(
        report
    )
    assert load(path).load_method("forward")(X).tolist() == (X + 1).tolist()
    with pytest.raises(pteron.ExportError, match="KeyError"):
        pteron.export(OnlyStrict(), X, path, strict=False)
    layer = nn.Linear(X.shape[-1], 4).eval()
    assert not pteron.export(layer, X, path, strict=True).notes
    torch.testing.assert_close(load(path).load_method("forward")(X), layer(X).detach())


def test_constant_methods(tmp_path):
    path = tmp_path / "constants.pte"
    constants = {"mean": np.array([0.5, 1.0]), "labels": {"names": ["a", "b"], "n": X.int()}}
    pteron.export(nn.ReLU().eval(), X, path, constant_methods=constants)
    program = load(path)
    assert program.load_method("mean")() == [0.5, 1.0]
    assert program.load_method("labels")() == {"names": ["a", "b"], "n": [[1] * 3] * 2}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (dict(constant_methods={"forward": 1}), "forward are methods of the model"),
        (dict(constant_methods={"a": object(), "b": [b""]}), "'a' holds a object, 'b' holds a b"),
        (dict(model=Counter), r"class Counter; expected a torch.nn.Module(.|\n)*Counter\(...\)"),
        (dict(model=torch.relu), "builtin_function_or_method; expected a torch.nn.Module"),
        (dict(model={}, args=None), "empty dict of methods"),
        (dict(args=None), r"no example inputs; expected a tuple of what forward\(x\)"),
        (dict(args=[X]), r"in a list; expected a tuple"),
        (dict(args=(X, X)), r"found 2 example inputs; expected those of forward\(x\)"),
        (dict(args=(np.ones((2, 3)),)), r"0 are of numpy(.|\n)*from_numpy"),
        (
            dict(args=(torch.ones(2, 4),)),
            r"itself fails on its example(.|\n)*cannot be multiplied(.|\n)*try:  model\(\*inputs\)",
        ),
        (
            dict(model=Fails()),
            r"itself fails(.|\n)*three of them are wanted'\n  File \".*test_exporter.py\", line",
        ),
        (dict(model=Fails("meta")), "itself fails(.|\n)*in forward(.|\n)*try:  device=x.device"),
        (
            dict(model=nn.Embedding(5, 2), args=(X,)),
            r"itself fails(.|\n)*Long, Int; but(.|\n)*try:  indices as integers, ids.long\(\)",
        ),
        (dict(model=nn.ModuleList()), r"required \"forward\"(.|\n)*try:  a module that defines"),
        (
            dict(model=Catches()),
            r"what torch.export made of the model fails(.|\n)*test_exporter.py\", line",
        ),
        (
            dict(model=Item("loop"), args=(X, N)),
            "Could not extract specialized(.|\n)*in forward(.|\n)*try:  an int as the argument",
        ),
        (
            dict(model=Item("branch"), args=(X, N)),
            r"data-dependent(.|\n)*test_exporter.py\", line \d+, in for(.|\n)*try:  torch.where",
        ),
        (
            dict(model=Item("int"), args=(X, 2), dynamic_shapes=(None, BATCH)),
            r"try:  torch.export.Dim.DYNAMIC for the int in dynamic_shapes",
        ),
        (
            dict(model=Item("int"), args=(X, 2), dynamic_shapes=(None, {0: BATCH})),
            "try:  None in dynamic_shapes for inputs that are no tensors",
        ),
        (
            dict(model=Words(), args=(X,)),
            r"missing a required argument: 'mask'\)\ntry:  {'ids': ..., 'mask': ...}, by name",
        ),
        (
            dict(model=Words(), args={"id": X, "mask": X}),
            "no argument 'id'; did you mean 'ids'[?] Known: ids, mask",
        ),
        (
            dict(model=nn.ReLU(), args={"a": X, "b": X}),
            r"try:  \(inputs,\), with the comma, if the one argument is a dict",
        ),
        (
            dict(model=nn.ReLU(), dynamic_shapes=({2: BATCH},)),
            r"has dimension 2 of 'input', which is \[2, 3\]; expected 0 to 1",
        ),
        (
            dict(model=nn.ReLU(), dynamic_shapes=([BATCH],)),
            r"try:  a dict by dimension, {0: Dim",
        ),
        (
            dict(model=Words(), args=(X, X.clone()), dynamic_shapes=({0: BATCH},)),
            "try:  an entry for each input, None for those without",
        ),
        (
            dict(model=Words(), args=(X, X.clone()), dynamic_shapes=({0: BATCH}, {0: WIDTH})),
            r"must always be equal(.|\n)*try:  one Dim for both",
        ),
        (
            dict(model=Reshapes(), dynamic_shapes=({0: BATCH},)),
            r"constant \(2\)(.|\n)*at\n.*test_exporter.py(.|\n)*try:  x.shape\[0\] instead of this",
        ),
        (
            dict(model=nn.ReLU(), args=(torch.ones(9, 3),), dynamic_shapes=({0: BATCH},)),
            "not in range(.|\n)*try:  example inputs whose sizes are in the ranges",
        ),
        (
            dict(args=(X[:1],), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)),
            "example inputs that are 2 or more",
        ),
        (dict(path=None), "no path(.|\n)*inputs as a tuple"),
        (dict(args="model.pte", path=(X,)), "a tuple as the path(.|\n)*inputs as a tuple"),
        (dict(model=Counter().state_dict()), "a state dict(.|\n)*load_state_dict"),
        (dict(model="counter.pt2"), r"found a str;(.|\n)*torch.export.load"),
        (dict(model="counter.pt"), r"found a str;(.|\n)*load_state_dict\(torch.load"),
        (dict(model=lambda x: x), "found a function;(.|\n)*whose forward calls it"),
        (
            dict(model=nn.Sequential(torch.jit.script(Counts()))),
            "'forward': found a ScriptModule at '0', which has state(.|\n)*torch.jit.trace was",
        ),
        (dict(model=nn.Sequential(QUANTIZED)), "a Linear at '0', quantized by torch.ao; expected"),
        (
            dict(model=nn.LazyLinear(3)),
            "'weight' has no size and no val(.|\n)*model\\(\\*inputs\\)",
        ),
        (dict(model=HasSparse()), r"weight 'eye' is torch.sparse_coo(.|\n)*try:  its to_dense\(\)"),
        (dict(args=(X.to_sparse(),)), r"input '0' is torch.sparse_coo(.|\n)*try:  its to_dense"),
        (dict(args=(X.to_sparse_csr(),)), r"input '0' is torch.sparse_csr(.|\n)*try: "),
        (dict(args=(X.to("meta"),)), r"input '0' is on the device 'meta'(.|\n)*torch.randn"),
        (dict(args=(torch.nested.nested_tensor([X]),)), "a nested tensor(.|\n)*a mask"),
        (dict(model=torch.jit.script(Counts())), "a ScriptModule, which(.|\n)*torch.jit.trace was"),
        (dict(model=nn.Linear(3, 3, device="meta")), "device 'meta'(.|\n)*to_empty"),
        (dict(args=((2, 3),)), r"found sizes, \(\(2, 3\),\);(.|\n)*torch.randn"),
        (dict(args=X.shape), "found sizes, torch.Size"),
        (dict(args=(X.double(),)), r"fails on its example inputs(.|\n)*dtype(.|\n)*x\.float\(\)"),
        (dict(args=(X.long(),)), "fails on its example inputs(.|\n)*dtype"),
        (dict(model=Branches()), "data-dependent(.|\n)*try:  torch.where or torch.cond"),
        (dict(model=UsesNumpy(), strict=False), "try:  functions of torch instead of numpy's"),
        (dict(model=WritesData()), "try:  a parameter or buffer itself, not its .data"),
        (dict(model=WritesData(), strict=True), "lost the values of lifted_tensor_0(.|\n)*no_grad"),
        (dict(model=Decodes()), "try:  model.config.use_cache = False"),
        (dict(model=ReturnsObject()), r"try: (.|\n)*register_dataclass\(TYPE\)"),
        (dict(dynamic_shapes=({0: "b"},)), r"try: (.|\n)*Dim\('batch', min=1, max=8\)"),
        (dict(dynamic_shapes={0: torch.export.Dim("b", max=8)}), "an entry for each input"),
        (
            dict(model=torch.export.export(nn.ReLU(), (X,)), dynamic_shapes=({},)),
            "beside an ExportedProgram, which has its own",
        ),
        (dict(config={"verify": False}), "config: found a dict(.|\n)*verify=False"),
        (dict(path="model.pt"), r"ends in .pte(.|\n)*'model.pte'"),
        (dict(path="/nowhere/model.pte"), "no folder '/nowhere'"),
        (dict(backend="cqu"), "no backend 'cqu'; did you mean 'cpu'"),
        (dict(backend="gpu"), "no backend 'gpu'; did you mean 'cuda'"),
        (dict(backend="mps"), "did you mean 'metal'"),
        (dict(backend="CPU"), "did you mean 'cpu'"),
        (dict(backend="cuda:1"), "no backend 'cuda:1'; did you mean 'cuda'"),
        (dict(backend="cuda,cpu"), r"expected a list, \['cuda', 'cpu'\]"),
        (dict(backend=torch.device("cpu")), r"found device\(type='cpu'\); expected 'cpu', 'cuda'"),
        (dict(backend=pteron.CpuPartitioner), r"class CpuPartitioner;(.|\n)*CpuPartitioner\(\)"),
        (dict(backend=None), "found None; expected 'cpu'"),
        (dict(options=pteron.CpuOptions()), "found a CpuOptions; expected a dict"),
        (dict(options={"isa": "native"}), "'isa' is not of a chosen.* as cpu.isa"),
        (dict(options={"weights": 1}), "'weights' is not of a chosen backend"),
        (
            dict(options={"cpu.weigths": "shared", "cpu.num_threads": "two"}),
            "did you mean 'weights'(.|\n)*num_threads: found 'two', expected an integer",
        ),
        (dict(options={"cpu.isa": "arm"}), "isa is 'arm'; expected one or several of"),
    ],
)
def test_what_is_wrong_is_a_sentence(given, expected):
    arguments = {"model": Counter(), "args": (X,), "path": "model.pte", **given}
    with pytest.raises(pteron.ExportError) as error:
        pteron.export(**arguments)
    assert re.search(expected, str(error.value)), str(error.value)


def test_torch_logs_nothing_before_the_error(tmp_path):
    code = """
import torch, pteron
try:
    pteron.export(torch.nn.Linear(7, 4), (torch.ones(2, 8),), "x.pte")
except pteron.ExportError:
    print("refused")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("refused\n", "")


def test_what_lowering_cannot_do_is_a_sentence(tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise AssertionError("something within")

    monkeypatch.setattr(pteron.exporter.exporter, "to_edge_transform_and_lower", fail)
    with pytest.raises(pteron.ExportError, match=r"to lower fails \(AssertionError\):\nsomething"):
        pteron.export(nn.ReLU(), (X,), tmp_path / "x.pte")


def test_attributes_that_a_call_changes_are_noted_and_put_back():
    model = Remembers().eval()
    seen, last = model.seen, model.last
    _, notes = export_methods(model, (X,))
    assert "sets count, last, part.calls, seen of the module in a call" in "".join(notes)
    assert model.seen is seen and not seen and model.count == 0
    assert model.last is last and not hasattr(model.part, "calls")
    assert torch.equal(model(X), X + 1 + X)


def test_modules_that_cannot_be_hashed_are_a_sentence():
    @dataclasses.dataclass
    class Scale(nn.Module):
        factor: float

        def __post_init__(self):
            super().__init__()

    class Holds(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = Scale(2.0)

    for model in (Scale(2.0), Holds()):
        with pytest.raises(pteron.ExportError, match="class Scale, which cannot be hashed"):
            export_methods(model, (X,))


class Within:
    def __init__(self):
        self.last, self.count = torch.zeros(3), 0


class Accumulates(nn.Module):
    def __init__(self):
        super().__init__()
        self.total, self.parts, self.within = torch.zeros(3), [torch.zeros(1)], Within()

    def forward(self, x):
        self.total += 1
        self.parts[0].add_(1)
        self.within.last = self.within.last + x[0]
        self.within.count += 1
        return x + self.total + self.within.last


def test_attributes_of_objects_and_values_of_tensors_are_put_back():
    model = Accumulates().eval()
    last = model.within.last
    _, notes = export_methods(model, (X,))
    assert "sets parts, total, within.count, within.last of the module in a" in "".join(notes)
    assert model.within.last is last and model.within.count == 0
    assert not model.total.any() and not model.parts[0]


@pytest.mark.parametrize("norm", [nn.utils.weight_norm, nn.utils.spectral_norm])
def test_weights_that_hooks_compute_are_no_state(norm):
    model = nn.Sequential(norm(nn.Linear(3, 3))).eval()
    model.load_state_dict({name: value + 1 for name, value in model.state_dict().items()})
    before = model[0].weight
    assert export_methods(model, (X,))[1] == []
    assert model[0].weight is before


class Sparse(nn.Module):
    def __init__(self, is_used):
        super().__init__()
        self.is_used = is_used
        self.register_buffer("heads", torch.eye(3).to_sparse(), persistent=False)

    def forward(self, x):
        return x @ self.heads if self.is_used else x * 2


def test_sparse_buffers_count_if_they_are_used():
    model = Sparse(False).eval()
    programs, notes = export_methods(model, (X,))
    assert notes == [] and not programs["forward"].constants
    assert list(model._buffers) == ["heads"] and "heads" not in vars(model)
    with pytest.raises(
        pteron.ExportError, match=r"weight 'heads' is torch.sparse_coo; expected a d"
    ):
        export_methods(Sparse(True).eval(), (X,))


class Decides(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("ready", torch.tensor(True))

    def forward(self, x):
        if self.ready and x.sum() > 3:
            return x * 2
        return x


def test_the_error_that_decides_is_shown():
    with pytest.raises(pteron.ExportError) as error:
        export_methods(Decides().eval(), (X,))
    assert "with strict=True: Unsupported: Data-dependent branching" in str(error.value)


def test_of_a_data_parallel_module_the_module_is_exported():
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    try:
        model = nn.parallel.DistributedDataParallel(nn.Linear(3, 3))
        assert "weight" in export_methods(model, (X,))[0]["forward"].state_dict
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("wrap", [nn.DataParallel, torch.compile])
def test_of_a_wrapper_the_module_is_exported(wrap, monkeypatch):
    kind = torch.distributions.Distribution  # whose checks torch.compile ends for the process
    monkeypatch.setattr(kind, "_validate_args", kind._validate_args)
    model = wrap(nn.Linear(3, 3))
    program = export_methods(model, (X,), None, ({0: BATCH},))[0]["forward"]
    assert "weight" in program.state_dict


class Forces(nn.Module):
    """As models of molecules: forces are the gradient of the energy, which has no `enable_grad`."""

    def __init__(self):
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))

    def forward(self, x):
        if not (x < 100).all():
            raise ValueError(x)
        x.requires_grad_()
        energies = self.energy(x)
        (force,) = torch.autograd.grad(energies.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(force[:, 0].sum(), x)
        return {"energies": energies, "forces": -force, "second": second}


class Adapts(nn.Module):
    """A step of gradient descent in the call; and functions of torch.func."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        loss = self.layer(x).square().mean()
        step = torch.autograd.grad(loss, self.layer.weight)[0]
        jacobian = torch.func.vmap(torch.func.jacrev(lambda row: self.layer(row).tanh()))(x)
        return (
            x @ (self.layer.weight - step).T,
            jacobian,
            torch.func.grad(lambda x: x.sin().sum())(x),
        )


@pytest.mark.parametrize("model", [Forces(), Adapts()], ids=lambda model: type(model).__name__)
def test_gradients_in_forward_are_part_of_the_program(tmp_path, model):
    shapes = ({0: torch.export.Dim("n", max=8)},)
    report = pteron.export(model, X, tmp_path / "model.pte", dynamic_shapes=shapes)
    assert all("checks values" in note or "training mode" in note for note in report.notes)
    method = pteron.Runtime.get().load_program(tmp_path / "model.pte").load_method("forward")
    for other in (torch.randn(5, 3), torch.randn(1, 3)):
        expected = torch.utils._pytree.tree_leaves(model(other.clone()))
        for found, value in zip(method.execute([other]), expected, strict=True):
            torch.testing.assert_close(torch.as_tensor(found), value.detach())


def test_a_buffer_that_is_returned_is_compared_before_it_is_put_back():
    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x):
            return self.mean.lerp_(x.mean(0), 0.5)

    model = Mean().eval()
    assert export_methods(model, (X,))[1] == [] and not model.mean.any()
    rows = ({0: torch.export.Dim("rows", max=8)},)  # the program is compared for other sizes, too
    assert export_methods(model, (X,), None, rows)[1] == [] and not model.mean.any()


def test_a_generator_is_noted():
    generator = torch.Generator()

    class Noise(nn.Module):
        def forward(self, x):
            return x + torch.rand(x.shape, generator=generator)

    (note,) = export_methods(Noise().eval(), (X,))[1]
    assert "takes random values from the runtime, not from the torch.Generator" in note


def test_what_is_fixed_or_not_used_is_noted():
    assert "takes only these values of n (2)" in "".join(
        export_methods(Item("int").eval(), (X, 2))[1]
    )
    exported = torch.export.export(nn.ReLU().eval(), (X,))
    assert export_methods(exported)[1] == []
    assert "example inputs; others are not used" in "".join(export_methods(exported, (X,))[1])


def test_looking_at_example_inputs_changes_nothing():
    model, seed = Counter().eval(), torch.random.get_rng_state()
    programs, notes = export_methods(model, (X,))
    assert list(programs) == ["forward"]
    assert notes == []
    assert torch.equal(model.total, torch.zeros(3))
    assert torch.equal(programs["forward"].state_dict["total"], torch.zeros(3))
    assert torch.equal(torch.random.get_rng_state(), seed)


def test_an_operator_of_another_device_is_no_error():
    with torch.library._scoped_library("front_door", "FRAGMENT") as library:
        library.define("on_a_gpu(Tensor x) -> Tensor")
        library.impl("on_a_gpu", torch.empty_like, "Meta")

        class Calls(nn.Module):
            def forward(self, x):
                return torch.ops.front_door.on_a_gpu(x)

        assert export_methods(Calls().eval(), (X,))[1] == []


def test_a_method_that_returns_nothing_is_noted():
    class Forgets(nn.Module):
        def forward(self, x):
            x + 1

    assert export_methods(Forgets().eval(), (X,))[1] == ["method 'forward' returns nothing"]


LARGE = """
import resource, torch
from pteron.exporter import export_methods

class Large(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.ones(512, 1 << 20, dtype=torch.int8))
        self.register_buffer("cache", torch.zeros(1 << 19))

    def forward(self, x):
        self.cache.add_(x.sum())
        self.cache[:2].mul_(2)
        return x + self.weight[:2, :2].sum() + self.cache[0]

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

model = Large()
before = peak()
for run in (False, True):
    export_methods({"a": (model, (torch.ones(8),)), "b": (model, (torch.ones(4),))}, run=run)
    assert model.cache.count_nonzero() == 0
print(peak() - before)
"""


def test_large_buffers_are_not_copied():
    """Only those that a method writes; 512 MB are not, and tracing takes about 200."""
    done = subprocess.run(
        [sys.executable, "-c", LARGE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 450


class Decays(nn.Module):
    """It writes a parameter, and a part of another."""

    def __init__(self):
        super().__init__()
        self.scale, self.other = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        with torch.no_grad():
            self.scale.mul_(0.5)
            self.other[1:].add_(1)
        return self.layer(x) * self.scale + self.other


def test_parameters_that_the_model_writes_are_state(tmp_path):
    torch.manual_seed(0)
    model, x = Decays().eval(), torch.randn(2, 3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    path = tmp_path / "decays.pte"
    pteron.export(model, (x,), path)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)
    assert isinstance(model.scale, nn.Parameter)
    method = pteron.Runtime.get().load_program(path).load_method("forward")
    for _ in range(3):
        torch.testing.assert_close(method(x), model(x).detach())


def test_metal_lowers_and_says_that_it_does_not_run_here(tmp_path):
    get_gpu_type()  # as torch.compile asks: Inductor remembers what it has found
    path = tmp_path / "relu.pte"
    report = pteron.export(nn.ReLU().eval(), (X,), path, backend="metal")
    assert "MetalBackend cannot run here: the program wants a Metal device" in str(report)
    with pytest.raises(pteron.NotSupportedError, match="wants a Metal device"):
        pteron.Runtime.get().load_program(path).load_method("forward")


def test_a_torch_that_does_not_lower_is_refused_before_the_model_runs(tmp_path, monkeypatch):
    import torch._inductor.compile_fx  # first: Inductor's modules import each other

    class Runs(nn.Module):
        def forward(self, x):
            raise AssertionError("it was run")

    monkeypatch.setattr(torch, "__version__", "9.9.0")
    monkeypatch.delattr(torch._inductor.ir, "WhileLoop")
    stages: list[str] = []
    with pytest.raises(RuntimeError, match=r"torch 9\.9\.0 is installed.*2\.13(?s:.*)WhileLoop"):
        pteron.export(Runs(), (torch.ones(2),), tmp_path / "x.pte", on_stage=stages.append)
    assert stages == []


def test_distributions_do_not_look_at_their_parameters(tmp_path):
    """As the policies of stable-baselines3 make them."""

    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.mean, self.choice = nn.Linear(3, 2), nn.Linear(3, 4)
            self.log_std = nn.Parameter(torch.zeros(2))

        def forward(self, x):
            normal = torch.distributions.Normal(self.mean(x), self.log_std.exp())
            choice = torch.distributions.Categorical(logits=self.choice(x))
            best = choice.probs.argmax(1)
            return normal.log_prob(normal.mean), choice.log_prob(best), choice.entropy()

    model = Policy().eval()
    pteron.export(model, (X,), tmp_path / "policy.pte")
    method = pteron.Runtime.get().load_program(tmp_path / "policy.pte").load_method("forward")
    for found, expected in zip(method(X), model(X), strict=True):
        torch.testing.assert_close(found, expected.detach())
    with pytest.raises(ValueError, match="found invalid values"):
        torch.distributions.Normal(torch.zeros(1), -torch.ones(1))


def test_sizes_of_einsum_stay_dynamic_where_opt_einsum_is_installed(monkeypatch):
    """Which makes ints of sizes, to choose an order."""

    class Contracts(nn.Module):
        def forward(self, x):
            return torch.einsum("...de,...nd,...n->...ne", x.mT @ x, x, x[..., 0])

    def contract_path(equation, *operands, optimize):
        assert all(int(size) for operand in operands for size in operand.shape)
        return [(1, 2), (0, 1)], ""

    installed: Any = vars(torch.backends.opt_einsum)["m"]
    installed.is_available.cache_clear()
    fake = types.SimpleNamespace(contract_path=contract_path)
    monkeypatch.setattr(installed, "_opt_einsum", fake)
    monkeypatch.setattr(installed, "enabled", True)
    program = export_methods(Contracts(), (torch.ones(2, 3, 4),), None, ({0: BATCH},))[0]["forward"]
    assert installed.enabled
    installed.is_available.cache_clear()
    x = torch.randn(3, 3, 4)
    torch.testing.assert_close(program.module()(x), Contracts()(x))


class Mapped(nn.Module):
    """As masks of transformers: an operator inside a torch.vmap writes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.vmap(lambda row: row.clone().add_(row.sum()))(x)


def test_operators_that_write_inside_a_vmap() -> None:
    x = torch.randn(2, 3)
    program, notes = export_methods(Mapped().eval(), (x,))
    assert not notes and torch._C._functorch.peek_interpreter_stack() is None
    torch.testing.assert_close(program["forward"].module()(x), Mapped()(x))
