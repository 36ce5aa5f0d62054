"""Keys of kept results: what changes them, and what has none."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from pteron.backends.aoti import lowering_cache, recipe_replay
from pteron.backends.aoti.lowering_cache import Facts, _known_where_equal, key_of
from pteron.backends.aoti.object_cache import ObjectCache


class Layer(nn.Module):
    """A layer with constants of all kinds; arguments are what one of them is changed to."""

    def __init__(
        self,
        scale: float = 0.5,
        offset: float = 1.0,
        positions: float = 0.0,
        mean: float = 0.25,
        dtype: torch.dtype = torch.float32,
        columns: int = 8,
    ) -> None:
        super().__init__()
        self.linear = nn.Linear(8, columns, dtype=dtype)
        self.scale = scale
        self.mean = torch.full((2,), mean, dtype=dtype)  # a constant of the program
        self.register_buffer("offset", torch.tensor(offset, dtype=dtype))
        self.register_buffer("positions", torch.full((8,), positions, dtype=dtype), False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = (x + self.get_buffer("positions")) * self.scale - self.mean[0]
        return self.linear(x) + self.offset


def key(model: nn.Module, *inputs: torch.Tensor, **options: Any) -> str | None:
    program = torch.export.export(model.eval(), inputs, **options).run_decompositions()
    return key_of(program, ["options"])


X = torch.ones(4, 8)


def test_equal_programs_with_other_weights_have_one_key() -> None:
    keys = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        keys.append(key(Layer(), X))
    assert keys[0] == keys[1] is not None


def _transposed(model: Layer) -> Layer:
    model.linear.weight = nn.Parameter(model.linear.weight.detach().t().contiguous().t())
    return model


def _in_one_storage(model: Layer) -> Layer:
    both = torch.rand(72)
    model.linear.weight = nn.Parameter(both[:64].view(8, 8))
    model.linear.bias = nn.Parameter(both[64:])
    return model


@pytest.mark.parametrize(
    "change",
    [
        lambda: key(Layer(scale=0.25), X),
        lambda: key(Layer(scale=1.0), X),
        lambda: key(Layer(offset=2.0), X),
        lambda: key(Layer(positions=1.0), X),
        lambda: key(Layer(mean=0.5), X),
        lambda: key(Layer(columns=4), X),
        lambda: key(Layer(dtype=torch.float64), X.double()),
        lambda: key(Layer(), torch.ones(3, 8)),
        lambda: key(Layer(), X.t().contiguous().t()),
        lambda: key(_transposed(Layer()), X),
        lambda: key(_in_one_storage(Layer()), X),
        lambda: key(Layer().requires_grad_(False), X),
        lambda: key(nn.Sequential(Layer()), X),
        lambda: key(Layer(), X, dynamic_shapes=({0: Dim("rows", max=9)},)),
    ],
    ids=[
        "scalar argument",
        "scalar argument that is an integer",
        "scalar buffer",
        "buffer that is no weight",
        "constant",
        "weight's shape",
        "dtype",
        "shape",
        "stride",
        "weight's stride",
        "shared storage",
        "requires_grad",
        "path of the module",
        "dynamic",
    ],
)
def test_a_key_has_what_code_depends_on(change: Callable[[], str | None]) -> None:
    changed = change()
    assert changed is not None and changed != key(Layer(), X)


def test_a_key_has_the_bounds_and_the_hints_of_sizes() -> None:
    def of(rows: int, **bounds: int) -> str | None:
        shapes = ({0: Dim("rows", **bounds)},)
        return key(Layer(), torch.ones(rows, 8), dynamic_shapes=shapes)

    keys = [of(4, max=9), of(4, max=10), of(4, min=3, max=9), of(5, max=9)]
    assert None not in keys and len(set(keys)) == len(keys)
    assert of(4, max=9) == keys[0]


class Where(nn.Module):
    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + self.limit, lambda x: x - 1, (x,))


def test_a_key_has_the_branches() -> None:
    first, other = key(Where(2), X), key(Where(3), X)
    assert None not in (first, other) and first != other == key(Where(3), X)


def test_a_key_has_the_process_and_our_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {key(Layer(), X)}
    program = torch.export.export(Layer(), (X,)).run_decompositions()
    keys.add(key_of(program, ["other options"]))
    with monkeypatch.context() as changed:
        changed.setattr(lowering_cache, "sources_digest", lambda: "edited")
        keys.add(key(Layer(), X))
    with monkeypatch.context() as changed:
        changed.setattr(torch, "__version__", "2.13.9")
        keys.add(key(Layer(), X))
    with monkeypatch.context() as changed:
        changed.setenv("TORCHINDUCTOR_LOOP_ORDERING_AFTER_FUSION", "1")
        keys.add(key(Layer(), X))
    with torch._inductor.config.patch(epilogue_fusion=False):
        keys.add(key(Layer(), X))
    torch.use_deterministic_algorithms(True)
    try:
        keys.add(key(Layer(), X))
    finally:
        torch.use_deterministic_algorithms(False)
    assert None not in keys and len(keys) == 7
    assert key(Layer(), X) in keys


def test_the_digest_of_sources_is_of_all_modules() -> None:
    files = {path.name for path in lowering_cache.source_files()}
    assert {"generate.py", "payload.py", "lowering_cache.py", "exported_program.py"} <= files
    assert Path(__file__).name not in files, "another test would find nothing of what is kept"


def _with_an_operator_of_a_library() -> ExportedProgram:
    @torch.library.custom_op("cachetest::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)

    class Twice(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.cachetest.twice(x)

    return torch.export.export(Twice(), (X,))


def _with_a_note() -> ExportedProgram:
    program = torch.export.export(Layer(), (X,)).run_decompositions()
    next(iter(program.graph.find_nodes(op="placeholder"))).meta["note"] = "new in this release"
    return program


def _with_a_function() -> ExportedProgram:
    program = torch.export.export(Layer(), (X,)).run_decompositions()
    for node in program.graph.nodes:
        if node.op == "call_function":
            node.target = _with_a_note
    return program


def _with_a_subclass() -> ExportedProgram:
    program = torch.export.export(Layer(), (X,)).run_decompositions()
    name = next(iter(program.state_dict))

    class Own(torch.Tensor):
        pass

    program.state_dict[name] = program.state_dict[name].detach().as_subclass(Own)
    return program


def _with_a_tensor_in_meta() -> ExportedProgram:
    program = torch.export.export(Layer(), (X,)).run_decompositions()
    next(iter(program.graph.nodes)).meta["ours"] = torch.zeros(2)
    return program


@pytest.mark.parametrize(
    "make",
    [
        *(_with_an_operator_of_a_library, _with_a_note, _with_a_function, _with_a_subclass),
        _with_a_tensor_in_meta,
    ],
)
def test_what_the_key_does_not_know_has_none(make: Callable[[], ExportedProgram]) -> None:
    assert key_of(make(), []) is None


def test_what_strict_export_adds_is_known() -> None:
    programs = [
        torch.export.export(Layer(), (X,), strict=True).run_decompositions() for _ in range(2)
    ]
    placeholders = programs[0].graph.find_nodes(op="placeholder")
    assert any("example_value" in node.meta for node in placeholders)
    first, second = (key_of(program, []) for program in programs)
    assert first is not None and first == second


def test_facts_are_kept_for_equal_settings(tmp_path: Path) -> None:
    cache, found = ObjectCache(tmp_path, 1 << 20), [0]

    def find() -> dict[str, Any]:
        found[0] += 1
        return {"is": [found[0], None]}

    def fact(settings: list[str]) -> Any:
        facts = Facts(cache, settings)
        result = facts.of("what", find)
        facts.save()
        return result

    assert fact(["a"]) == fact(["a"]) == {"is": [1, None]}
    assert fact(["b"]) == {"is": [2, None]}
    (file, *_) = tmp_path.rglob("*.facts")
    file.write_text("{}")  # damaged
    assert 3 in {fact(["a"])["is"][0], fact(["b"])["is"][0]}


def test_a_recipe_frees_what_no_later_step_uses() -> None:
    def at(index: int) -> dict[str, object]:
        return {"storage": index}

    steps = [
        {"args": [at(0), at(1)], "kwargs": {}, "made": [2]},
        {"args": [at(2)], "kwargs": {"other": at(0)}, "made": [3]},
        {"read": at(3), "made": []},
        {"args": [at(3)], "kwargs": {}, "made": [4, 5]},
    ]
    ended = recipe_replay._ended({"steps": steps, "constants": [at(4), at(1)]})
    assert ended == [set(), {0, 2}, set(), {3, 5}]


def test_constants_that_come_out_equal_are_the_known_ones() -> None:
    known = [torch.randn(4, 4), torch.randn(4, 4), torch.randn(4, 4)]
    other_layout = known[2].clone().as_strided((2, 8), (8, 1))
    made = [known[0].clone(), known[1] + 1, other_layout]
    chosen = _known_where_equal(made, known)
    expected = [known[0], made[1], made[2]]
    assert all(a is b for a, b in zip(chosen, expected, strict=True))
