"""`pteron.export`: one call, and what it says to whoever calls it wrongly."""

import re

import numpy as np
import pytest
import torch
from torch import nn

import pteron


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


X = torch.ones(2, 3)


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
    assert "difference" in str(report)
    assert report.files == {str(p): p.stat().st_size for p in (path, path.with_suffix(".ptd"))}

    program = pteron.Runtime.get().load_program(path, data_path=path.with_suffix(".ptd"))
    session = program.session()
    add, read = (program.load_method(name, session=session) for name in ("forward", "read"))
    x = torch.ones(5, 3)
    expected = model.eval()(x)
    torch.testing.assert_close(add(x), expected)
    torch.testing.assert_close(read(factor=2 * X[0]), 2 * expected + 1)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (dict(model=Counter), r"class Counter; expected a torch.nn.Module(.|\n)*Counter\(...\)"),
        (dict(model=torch.relu), "builtin_function_or_method; expected a torch.nn.Module"),
        (dict(model={}, args=None), "empty dict of methods"),
        (dict(args=None), r"no example inputs; expected a tuple of what forward\(x\)"),
        (dict(args=[X]), r"in a list; expected a tuple"),
        (dict(args=(X, X)), r"found 2 example inputs; expected those of forward\(x\)"),
        (dict(args=(np.ones((2, 3)),)), r"0 are of numpy(.|\n)*from_numpy"),
        (
            dict(args=(torch.ones(2, 4),)),
            "torch.export does not take the model(.|\n)*reduction dim",
        ),
        (
            dict(args=(X[:1],), dynamic_shapes=({0: torch.export.Dim("b", max=8)},)),
            "example inputs that are 2 or more",
        ),
        (dict(path=None), "no path(.|\n)*inputs as a tuple"),
        (dict(path="model.pt"), r"ends in .pte(.|\n)*'model.pte'"),
        (dict(path="/nowhere/model.pte"), "no folder '/nowhere'"),
        (dict(backend="cqu"), "no backend 'cqu'; did you mean 'cpu'"),
        (dict(options={"weights": 1}), "'weights' is not of a chosen backend"),
        (
            dict(options={"cpu.weigths": "shared", "cpu.num_threads": "two"}),
            "did you mean 'weights'(.|\n)*num_threads: found 'two', expected a whole number",
        ),
        (dict(options={"cpu.isa": "arm"}), "isa is 'arm'; expected one or several of"),
    ],
)
def test_what_is_wrong_is_a_sentence(given, expected):
    arguments = {"model": Counter(), "args": (X,), "path": "model.pte", **given}
    with pytest.raises(pteron.ExportError) as error:
        pteron.export(**arguments)
    assert re.search(expected, str(error.value)), str(error.value)
