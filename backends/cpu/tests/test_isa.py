"""Instruction set levels and what this machine has."""

import platform
from pathlib import Path

import pytest

from pteron.backends.cpu import isa

_AVX2_ONLY = "model name\t: x\nflags\t\t: " + " ".join(sorted(isa.level("x86-64-v3").features))


def test_each_level_has_what_the_one_below_has() -> None:
    names = [level.name for level in isa.LEVELS]
    assert names == ["x86-64-v2", "x86-64-v3", "x86-64-v4"]
    for lower, upper in zip(isa.LEVELS, isa.LEVELS[1:], strict=False):
        assert lower.features < upper.features
        assert lower.vector_bits < upper.vector_bits


def test_an_unknown_level_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="isa is 'avx2'; expected one of x86-64-v2, .*, native"):
        isa.level("avx2")


def test_native_is_the_best_level_that_the_machine_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(_AVX2_ONLY)
    features = isa.machine_features(str(cpuinfo))
    monkeypatch.setattr(isa, "machine_features", lambda: features)
    assert isa.level("native").name == "x86-64-v3"


def test_a_machine_without_any_level_is_told_what_it_lacks(monkeypatch) -> None:
    monkeypatch.setattr(isa, "machine_features", lambda: frozenset({"sse4_1"}))
    with pytest.raises(ValueError, match="has none of the levels .*ssse3.*name the target's level"):
        isa.native()


def test_this_machine_is_read() -> None:
    if platform.machine() == "x86_64":
        assert "sse4_2" in isa.machine_features()
