"""Known, unknown and unsupported releases of torch, by the places that lowering relies on."""

import contextlib
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch._inductor.compile_fx  # first: Inductor's modules import each other
from torch._inductor import ir
from torch._inductor.codegen import cpp, cpp_gemm_template, simd

from pteron.backends.aoti import inductor
from pteron.backends.aoti.inductor import UnknownTorchWarning, patches, recognition
from pteron.backends.aoti.inductor.release import _release_of

_NEWEST = inductor.SUPPORTED_RELEASES[-1]
_newest = pytest.mark.skipif(
    not torch.__version__.startswith(f"{_NEWEST}."), reason=f"compares with torch {_NEWEST}"
)
_UNKNOWN = ["9.8.7", f"{_NEWEST}.0.dev20261125+cpu", f"{_NEWEST}.1a0+git1234567", "3.0.0rc1"]


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    _release_of.cache_clear()
    yield
    _release_of.cache_clear()


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "9.8.7+x")


def test_the_release_in_use_is_a_tested_one() -> None:
    assert inductor.release() in inductor.SUPPORTED_RELEASES


@pytest.mark.parametrize("tested", inductor.SUPPORTED_RELEASES)
@pytest.mark.parametrize("rest", [".0", ".1+cu130", ".12+cpu"])
def test_tested_releases_are_known(tested: str, rest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", tested + rest)
    assert inductor.release() == tested


@_newest
@pytest.mark.parametrize("version", _UNKNOWN)
def test_an_unknown_release_counts_as_the_newest_with_one_warning(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.warns(UnknownTorchWarning, match=f"torch {version.split('+')[0]}"):
        assert inductor.release() == _NEWEST
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert inductor.release() == _NEWEST


def _other_parameters(self: Any, other: Any) -> None:
    pass


def _changes(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """By what an error says: a change of a place that lowering relies on."""

    def other_body(self: Any, max_parallel_depth: Any, threads: Any) -> None:
        pass

    def put(owner: Any, name: str, value: Any) -> Any:
        return lambda: monkeypatch.setattr(owner, name, value)

    def remove(owner: Any, name: str) -> Any:
        return lambda: monkeypatch.delattr(owner, name)

    return {
        "ir.WhileLoop is gone": remove(ir, "WhileLoop"),
        "ir.WhileLoop.create is gone": remove(ir.WhileLoop, "create"),
        "graph_repairs.py": remove(ir, "WhileLoop"),  # who uses it
        "cpp.CppVecKernel.load is called in another way: (self, other)": put(
            cpp.CppVecKernel, "load", _other_parameters
        ),
        "cpp.CppKernel.decide_parallel_depth changed inside": put(
            cpp.CppKernel, "decide_parallel_depth", other_body
        ),
        "cpp_gemm_template.GEMM_TEMPLATE changed inside": put(
            cpp_gemm_template, "GEMM_TEMPLATE", "another text"
        ),
        "CppVecOverrides.floordiv": remove(
            cpp.CppVecOverrides, "floordiv"
        ),  # another is inherited,
    }


@_newest
@pytest.mark.usefixtures("unknown")
@pytest.mark.parametrize("problem", _changes(pytest.MonkeyPatch()))
def test_an_unknown_release_with_a_changed_place_is_refused(
    problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _changes(monkeypatch)[problem]()
    with pytest.raises(inductor.UnsupportedTorch) as refused:
        inductor.release()
    said = str(refused.value)
    assert problem in said
    assert "torch 9.8.7+x is installed" in said
    assert all(tested in said for tested in inductor.SUPPORTED_RELEASES)


@_newest
@pytest.mark.usefixtures("unknown")
def test_places_of_repairs_for_earlier_releases_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    assert inductor.release() not in patches.REPAIRS["fix_cant_split_arguments"][1]
    _release_of.cache_clear()
    monkeypatch.setattr(simd.CantSplit, "__init__", _other_parameters)
    with pytest.warns(UnknownTorchWarning):
        assert inductor.release() == _NEWEST


@_newest
@pytest.mark.usefixtures("unknown")
def test_all_changed_places_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = _changes(monkeypatch)
    together = [problem for problem in changes if ".create" not in problem]
    for problem in together:
        with contextlib.suppress(AttributeError):  # two remove the same
            changes[problem]()
    with pytest.raises(inductor.UnsupportedTorch) as refused:
        inductor.release()
    assert [problem for problem in together if problem not in str(refused.value)] == []


@_newest
@pytest.mark.usefixtures("unknown")
def test_what_changed_inside_a_wrapped_function_is_in_the_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def arange(self: Any, index: Any, stride: Any) -> None:
        raise NotImplementedError

    arange.__annotations__ = cpp.CppVecKernel.arange.__annotations__
    monkeypatch.setattr(cpp.CppVecKernel, "arange", arange)
    with pytest.warns(UnknownTorchWarning, match=r"CppVecKernel\.arange"):
        assert inductor.release() == _NEWEST


def test_everything_used_is_there() -> None:
    """Fails first, with names, when another torch moves what lowering uses."""
    gone = [name for name in recognition.used_names() if not recognition.exists(name)]
    assert gone == []


def test_private_names_do_not_become_more() -> None:
    """A limit that goes down: ../decisions/2026-11-25-hooks-that-inductor-lacks.md."""
    changed = {place for patch in recognition.table() for place in patch.places}
    names = changed | recognition.used_names().keys()
    assert len([name for name in names if name.startswith("torch._inductor")]) <= 195


_RECORD = Path(recognition.__file__).with_name("recorded_places.json").read_text()


@_newest
def test_the_record_is_of_the_newest_release() -> None:
    """To write it: recognition.record()."""
    assert recognition.record() == _RECORD


def test_every_place_is_recorded() -> None:
    """With each release: else a place is not compared where a release is not known."""
    changed = {place for patch in recognition.table() for place in patch.places}
    only_in_earlier_releases = {"torch._inductor.ir.Conditional.create"}
    assert changed - only_in_earlier_releases == json.loads(_RECORD).keys()


def test_every_repair_is_in_the_table() -> None:
    names = [patch.name for patch in recognition.table()]
    assert set(patches.REPAIRS) <= set(names)
    assert all(patch.purpose for patch in recognition.table())
    releases = {name for _, needed in patches.REPAIRS.values() for name in needed}
    assert releases <= set(inductor.SUPPORTED_RELEASES)


def test_nothing_is_patched_that_the_table_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowers for several targets, and compares what is patched with the table."""
    given: list[tuple[Any, str]] = []
    patched = patches.patched

    def note(owner: Any, name: str, value: Any) -> Any:
        given.append((owner, name))
        return patched(owner, name, value)

    for name, module in list(sys.modules.items()):
        if name.startswith(inductor.__name__) and getattr(module, "patched", None) is patched:
            monkeypatch.setattr(module, "patched", note)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())
    program = torch.export.export(model, (torch.randn(8, 64),)).run_decompositions()
    targets = [
        inductor.Target("cpu", bits, 4, packed_for=packed)
        for bits, packed in ((512, 0), (256, 512))
    ]
    inductor.generate_variants(program, targets)
    known = {place for patch in recognition.table() for place in patch.places}

    def is_known(owner: Any, name: str) -> bool:
        kinds = owner.__mro__ if isinstance(owner, type) else (owner,)
        full = (getattr(kind, "__module__", "") + "." + kind.__name__ for kind in kinds[:-1])
        names = full if isinstance(owner, type) else iter([owner.__name__])
        return any(f"{kind}.{name}" in known for kind in names)

    private = [
        (owner, name)
        for owner, name in given
        if isinstance(owner, type | ModuleType) and "._" in f"{owner!r}"
    ]
    assert len(private) > 40
    assert [(owner, name) for owner, name in private if not is_known(owner, name)] == []
