"""Options of the CPU backend and their way through compile specs."""

import pytest

from pteron.backends.cpu.cpu_options import CpuOptions
from pteron.exir.backend.compile_spec_schema import CompileSpec


@pytest.mark.parametrize(
    "options",
    [
        CpuOptions(),
        CpuOptions(isa="x86-64-v4", weights="packed", num_threads=8, gemm="template"),
        CpuOptions(isa="native", weights="shared", save_data_externally=True, gemm="library"),
    ],
)
def test_options_survive_compile_specs(options: CpuOptions) -> None:
    assert CpuOptions.from_compile_specs(options.to_compile_specs()) == options


def test_instruction_sets_may_be_text_with_commas() -> None:
    assert CpuOptions(isa="x86-64-v3,x86-64-v4") == CpuOptions()


def test_what_is_not_there_has_its_default() -> None:
    specs = [CompileSpec("method_name", b"forward"), CompileSpec("num_threads", b"3")]
    assert CpuOptions.from_compile_specs(specs) == CpuOptions(num_threads=3)


def test_an_unknown_key_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no option 'isas'; known: gemm, isa, matmul_precision"):
        CpuOptions.from_compile_specs([CompileSpec("isas", b'"native"')])


def test_a_value_that_is_no_json_is_shown() -> None:
    with pytest.raises(ValueError, match="compile spec 'isa' is b'native'; expected JSON"):
        CpuOptions.from_compile_specs([CompileSpec("isa", b"native")])


def test_all_wrong_values_are_reported_together() -> None:
    with pytest.raises(ValueError) as caught:
        CpuOptions(isa="avx2", weights="frozen", num_threads=-1)
    text = str(caught.value)
    assert "isa is 'avx2'; expected one or several of x86-64-v2" in text
    assert "weights is 'frozen'" in text and "num_threads is -1" in text


def test_shared_weights_exclude_templates() -> None:
    with pytest.raises(ValueError, match="choose one of them"):
        CpuOptions(weights="shared", gemm="template")
