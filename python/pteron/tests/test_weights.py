"""`pteron.update_weights`: other weights for code that was lowered before."""

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import pteron

UPDATABLE = {"cpu.updatable_weights": True}


class Residual(nn.Module):
    """Batch norms are folded into packed convolutions."""

    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.conv2, self.norm2 = nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x = self.norm1(self.conv1(x)).relu()
        x = (self.norm2(self.conv2(x)) + x).relu()
        return self.head(x.mean((2, 3)))


class Decoder(nn.Module):
    """One table for the embedding and the head, positions that are no weight."""

    def __init__(self):
        super().__init__()
        self.table, self.norm = nn.Embedding(100, 64), nn.LayerNorm(64)
        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)
        self.head = nn.Linear(64, 100, bias=False)
        self.head.weight = self.table.weight
        self.register_buffer("positions", torch.arange(1024.0).view(16, 64) / 1e3, persistent=False)

    def forward(self, ids):
        x = self.table(ids) + self.positions[: ids.shape[1]]
        heads = self.qkv(self.norm(x)).view(*ids.shape, 3, 4, 16).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).reshape(x.shape)
        return self.head(x + self.out(y))


class Int8(nn.Module):
    """int8 weights with a scale per channel; state that is no weight."""

    def __init__(self):
        super().__init__()
        for i, (rows, columns) in enumerate(((96, 64), (32, 96))):
            values = torch.randint(-128, 128, (rows, columns), dtype=torch.int8)
            self.register_buffer(f"weight{i}", values)
            self.register_buffer(f"scale{i}", torch.rand(rows, 1) / 100)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        x = nn.functional.linear(x, self.weight0.to(x.dtype) * self.scale0).relu()
        return nn.functional.linear(x, self.weight1.to(x.dtype) * self.scale1)


MODELS = {
    Residual: torch.randn(1, 3, 16, 16),
    Decoder: torch.randint(0, 100, (2, 8)),
    Int8: torch.randn(8, 64),
}


def trained(kind, seed):
    torch.manual_seed(seed)
    model = kind().eval()
    for name, value in model.state_dict().items():
        if value.is_floating_point() and name != "calls":
            value.copy_(torch.rand_like(value) / 8 + 0.05)
    return model


def run(path, x):
    data = path.with_suffix(".ptd")
    program = pteron.Runtime.get().load_program(path, data_path=data if data.exists() else None)
    return program.load_method("forward")(x)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A program of each model, by model."""
    folder = tmp_path_factory.mktemp("programs")
    paths = {kind: folder / f"{kind.__name__}.pte" for kind in MODELS}
    for kind, path in paths.items():
        options = {**UPDATABLE, "cpu.save_data_externally": kind is not Decoder}
        pteron.export(trained(kind, 0), (MODELS[kind],), path, options=options)
    return paths


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
def test_files_are_those_of_a_new_lowering(kind, files, tmp_path):
    path, x = files[kind], MODELS[kind]
    before = run(path, x)
    other, updated, lowered = trained(kind, 1), tmp_path / "new.pte", tmp_path / "lowered.pte"
    written = pteron.update_weights(path, other.state_dict(), updated)
    assert written == {name: Path(name).stat().st_size for name in written}
    options = {**UPDATABLE, "cpu.save_data_externally": len(written) == 2}
    pteron.export(other, (x,), lowered, options=options)
    for file in map(Path, written):
        assert file.read_bytes() == lowered.with_suffix(file.suffix).read_bytes()
    with torch.no_grad():
        torch.testing.assert_close(run(updated, x), other(x), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(run(path, x), before, rtol=0, atol=0)
    # An updated program takes weights again: the first ones give the first file.
    pteron.update_weights(updated, trained(kind, 0).state_dict(), tmp_path / "back.pte")
    assert (tmp_path / "back.pte").read_bytes() == path.read_bytes()


def test_programs_of_one_code_do_not_mix(files, tmp_path):
    x, paths = MODELS[Residual], [files[Residual]]
    for seed in (1, 2):
        paths.append(tmp_path / f"{seed}.pte")
        pteron.update_weights(paths[0], trained(Residual, seed).state_dict(), paths[-1])
    load = pteron.Runtime.get().load_program
    methods = [load(p, data_path=p.with_suffix(".ptd")).load_method("forward") for p in paths]
    for _ in range(2):
        for seed, method in enumerate(methods):
            with torch.no_grad():
                expected = trained(Residual, seed)(x)
            torch.testing.assert_close(method(x), expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(pteron.PteronError):
        load(paths[1], data_path=paths[2].with_suffix(".ptd")).load_method("forward")


def test_nan_and_infinity_are_weights(files, tmp_path):
    other = trained(Residual, 0)
    other.head.bias.data[3] = math.nan
    other.head.bias.data[4] = -math.inf
    pteron.update_weights(files[Residual], other.state_dict(), tmp_path / "nan.pte")
    with torch.no_grad():
        expected = other(MODELS[Residual])
    found = run(tmp_path / "nan.pte", MODELS[Residual])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4, equal_nan=True)


def test_all_that_does_not_fit_is_said_at_once(files, tmp_path):
    path, state = files[Residual], trained(Residual, 1).state_dict()
    del state["head.bias"]
    state["conv1.weight"] = state["conv1.weight"][:8]
    state["head.weight"] = state["head.weight"].double()
    state["conv2.bias"] = state["conv2.bias"].tolist()
    state["other"] = torch.ones(1)
    with pytest.raises(pteron.ExportError) as raised:
        pteron.update_weights(path, state, tmp_path / "new.pte")
    assert str(raised.value).splitlines() == [
        "these are not weights of the program:",
        "head.bias is missing",
        "conv1.weight is float32 [8, 3, 3, 3], expected float32 [16, 3, 3, 3]",
        "conv2.bias is a list, expected a tensor",
        "head.weight is float64 [10, 16], expected float32 [10, 16]",
        "other is not a weight of the program (strict=False ignores it)",
    ]
    state = {**trained(Residual, 1).state_dict(), "other": torch.ones(1)}
    pteron.update_weights(path, state, tmp_path / "new.pte", strict=False)
    tied = trained(Decoder, 1).state_dict()
    tied["head.weight"] = tied["head.weight"] + 1
    with pytest.raises(pteron.ExportError, match="(table|head).weight is not a weight"):
        pteron.update_weights(files[Decoder], tied, tmp_path / "tied.pte")
    state = trained(Int8, 1).state_dict()
    state["calls"] += 1
    with pytest.raises(pteron.ExportError, match="calls is state, with another initial value"):
        pteron.update_weights(files[Int8], state, tmp_path / "state.pte")
    assert not (tmp_path / "tied.pte").exists() and not (tmp_path / "state.pte").exists()


class Decided(nn.Module):
    def __init__(self):
        super().__init__()
        self.slope, self.linear = nn.PReLU(), nn.Linear(8, 8)
        self.register_buffer("zeros", torch.zeros(64, 8))

    def forward(self, x):
        return self.slope(self.linear(x)) @ self.zeros.t() + self.linear.bias.sum()


def test_weights_for_whose_values_the_code_is_are_refused(tmp_path):
    """A literal in the code; what is folded because it is uniform."""
    model, path = Decided().eval(), tmp_path / "decided.pte"
    x = torch.randn(4, 8)
    pteron.export(model, (x,), path, options=UPDATABLE)
    model.linear.weight.data.mul_(2)
    pteron.update_weights(path, model.state_dict(), tmp_path / "same.pte")
    torch.testing.assert_close(run(tmp_path / "same.pte", x), model(x).detach())
    model.slope.weight.data.fill_(0.5)
    with pytest.raises(pteron.ExportError, match=r"for the values of some weights:\n.*slope"):
        pteron.update_weights(path, model.state_dict(), tmp_path / "new.pte")
    model.slope.weight.data.fill_(0.25)
    model.zeros[3] = 1
    try:
        pteron.update_weights(path, model.state_dict(), tmp_path / "new.pte")
    except pteron.ExportError as error:
        assert "zeros" in str(error)
    else:
        torch.testing.assert_close(run(tmp_path / "new.pte", x), model(x).detach())


def test_methods_share_weights(tmp_path):
    model, x = (
        nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 8)).eval(),
        torch.randn(2, 8),
    )
    path, new = tmp_path / "methods.pte", tmp_path / "new.pte"
    methods = {"first": (model[0], (x,)), "forward": (model, (x,))}
    pteron.export(methods, path=path, options=UPDATABLE)
    program = pteron.Runtime.get().load_program(path)
    assert program.method_names == {"first", "forward"}
    with pytest.raises(pteron.ExportError, match="0.weight is missing"):
        pteron.update_weights(path, {}, new)
    other = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 8)).eval()
    state = {**other.state_dict(), **other[0].state_dict()}
    pteron.update_weights(path, state, new)
    program = pteron.Runtime.get().load_program(new)
    torch.testing.assert_close(program.load_method("first")(x), other[0](x).detach())
    torch.testing.assert_close(program.load_method("forward")(x), other(x).detach())


def test_a_program_without_a_recipe_says_how_to_export(tmp_path):
    path = tmp_path / "plain.pte"
    model = nn.Linear(64, 64).eval()
    pteron.export(model, (torch.randn(2, 64),), path)
    with pytest.raises(pteron.ExportError, match=r'options=\{"cpu.updatable_weights": True\}'):
        pteron.update_weights(path, model.state_dict(), tmp_path / "new.pte")


def test_weights_of_files(files, tmp_path):
    path, other = files[Residual], trained(Residual, 1)
    state, new = other.state_dict(), tmp_path / "new.pte"
    halves = [dict(list(state.items())[::2]), dict(list(state.items())[1::2])]
    for i, half in enumerate(halves):
        save_file(
            {name: value.contiguous() for name, value in half.items()},
            tmp_path / f"{i}.safetensors",
        )
    torch.save(state, tmp_path / "state.pt")
    parts = [tmp_path / "0.safetensors", tmp_path / "1.safetensors"]
    written = []
    for weights in (other, state, tmp_path / "state.pt", parts):
        pteron.update_weights(path, weights, new)
        written.append(new.read_bytes() + new.with_suffix(".ptd").read_bytes())
    assert len(set(written)) == 1
    whole = parts[0].read_bytes()
    hostile = tmp_path / "hostile.safetensors"
    for damaged in (
        b"",
        whole[:100],
        whole[:-50],
        b"\xff" * 8 + whole[8:],
        b"\x02" + bytes(7) + b"[]",
    ):
        hostile.write_bytes(damaged)
        with pytest.raises(pteron.ExportError, match="hostile.safetensors' cannot be read"):
            pteron.update_weights(path, hostile, tmp_path / "none.pte")
    (tmp_path / "evil.pt").write_bytes(b"cos\nsystem\n(S'touch evil'\ntR.")
    with pytest.raises(pteron.ExportError, match="evil.pt' cannot be read"):
        pteron.update_weights(path, tmp_path / "evil.pt", tmp_path / "none.pte")
    with pytest.raises(OSError):
        pteron.update_weights(path, tmp_path / "nowhere.safetensors", tmp_path / "none.pte")
    truncated = tmp_path / "truncated.pte"
    truncated.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(pteron.ExportError, match="truncated"):
        pteron.update_weights(truncated, state, tmp_path / "none.pte")
    assert not list(tmp_path.glob("none*")) and not list(tmp_path.glob(".*"))


class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(16, 16)

    def forward(self, x, lora_a, lora_b):
        return self.base(x) + x @ lora_a @ lora_b


def test_adapters_are_inputs(tmp_path):
    """LoRA: one program, adapters exchanged from call to call."""
    model, path, x = Adapted().eval(), tmp_path / "lora.pte", torch.randn(2, 16)
    adapters = [{"lora_a": torch.randn(16, 2), "lora_b": torch.randn(2, 16)} for _ in range(2)]
    pteron.export(model, (x,), path, kwargs=adapters[0])
    method = pteron.Runtime.get().load_program(path).load_method("forward")
    for adapter in (*adapters, adapters[0]):
        torch.testing.assert_close(method(x, **adapter), model(x, **adapter).detach())
