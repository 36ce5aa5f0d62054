"""What we rely on in Inductor, and that its state is ours only while we generate code."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sympy
import torch

from pteron.backends.aoti import inductor
from pteron.backends.aoti.inductor import Target, cpu, scope
from pteron.backends.aoti.inductor.capture import identifiers_read, model_part
from pteron.backends.aoti.inductor.kernel_text import KERNEL_START, finish_kernels
from pteron.backends.aoti.inductor.micro_gemms import separate
from pteron.backends.aoti.tests.models import AttentionAndConvolution

_PROCESS = Path(__file__).with_name("lowering_process.py")


def run_process(*steps: str) -> list[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, str(_PROCESS), *steps],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def steps_of_two_processes() -> tuple[list[str], list[str]]:
    """One process lowers before torch.compile, the other after."""
    lowers_first = run_process(
        *("state", "lower", "lower-wide", "lower-plain", "fail", "state"),
        *("lower-wide", "lower", "lower-plain", "compile", "state"),
    )
    compiles_first = run_process("compile", "lower")
    return lowers_first, compiles_first


def test_option_sets_do_not_disturb_each_other_even_after_an_exception(
    steps_of_two_processes,
) -> None:
    first, _ = steps_of_two_processes
    _, narrow, wide, plain, failed, _, wide_again, narrow_again, plain_again, _, _ = first
    assert failed == "raised"
    assert (narrow, wide, plain) == (narrow_again, wide_again, plain_again)
    assert len({narrow, wide, plain}) == 3


def test_code_does_not_depend_on_what_the_process_compiled_before(steps_of_two_processes) -> None:
    (_, narrow, *_), (_, narrow_after_compile) = steps_of_two_processes
    assert narrow == narrow_after_compile


def test_torch_compile_does_not_depend_on_what_was_lowered_before(steps_of_two_processes) -> None:
    lowers_first, (compiled_fresh, _) = steps_of_two_processes
    assert lowers_first[-2] == compiled_fresh
    # Otherwise this says nothing: what we switch off must have left its traces.
    assert "mkldnn" in compiled_fresh and "attention" in compiled_fresh


def test_settings_are_put_back(steps_of_two_processes) -> None:
    first, _ = steps_of_two_processes
    assert first[0] == first[5] == first[-1]


@pytest.fixture(scope="module")
def code() -> inductor.GeneratedCode:
    model, example = AttentionAndConvolution.sample()
    program = torch.export.export(model, (example,)).run_decompositions()
    return inductor.generate(program, Target("cpu", 256, 2))


def test_products_and_attention_are_compiled_and_convolution_is_called(code) -> None:
    assert inductor.operator_functions(code.model) == ("aoti_torch_cpu_convolution",)
    assert "micro_gemm" in code.kernels
    assert "at::vec::Vectorized<float>" in code.kernels
    assert code.proxied == ()


def test_constants_keep_the_containers_order(code) -> None:
    assert [constant.index for constant in code.all_constants] == list(
        range(len(code.all_constants))
    )
    assert code.constants and not set(code.constants) & set(code.unread_constants)


def test_a_constant_that_is_only_declared_is_not_read() -> None:
    model = (
        '    constants_info_[0].name = "weight";\n'
        '    constants_info_[1].name = "packed";\n'
        "    [[maybe_unused]] auto& weight = constants_->at(0);\n"
        "    [[maybe_unused]] auto& packed = constants_->at(1);\n"
        "    kernel(packed.data_ptr());\n"
    )
    read = identifiers_read(model)
    assert "packed" in read and "weight" not in read


def test_each_constant_is_one_call(code) -> None:
    calls = re.findall(r"pteron_constant\(constants_info_\[(\d+)\], \"", code.model)
    assert [*map(int, calls)] == [constant.index for constant in code.all_constants]
    assert not re.search(r"constants_info_\[\d+\]\.", code.model)


def test_no_path_of_this_machine_is_in_the_sources(code) -> None:
    text = code.model + code.kernels
    for folder in (os.path.dirname(torch.__file__), os.getcwd(), os.path.expanduser("~"), "/tmp"):
        assert folder not in text


def test_the_code_asks_how_many_threads_there_are(code) -> None:
    assert "num_threads(pteron_threads(" in code.kernels
    assert "num_threads(num_threads)" in code.kernels and "pteron_divide<" in code.kernels
    assert not re.search(r"num_threads\(\d|_arr\[\d|tid < \d", code.kernels)


def test_an_epilogue_follows_several_panels_of_a_product() -> None:
    model, example = torch.nn.Linear(2000, 768), torch.randn(300, 2000)
    program = torch.export.export(model, (example,)).run_decompositions()
    text = inductor.generate(program, Target("cpu", 512, 2)).kernels
    blocks = dict(re.findall(r"int64_t ([MNK]c)_blocks = (\d+);", text))
    # 38 blocks of 8 rows, 16 panels of 48 columns and 2000 terms, in equal parts
    assert blocks == {"Mc": "19", "Nc": "8", "Kc": "1000"}


def test_a_scalar_target_has_no_vector_code() -> None:
    model, example = torch.nn.GELU(), torch.randn(64)
    program = torch.export.export(model, (example,))
    code = inductor.generate(program, Target("cpu", 0, 1))
    assert "Vectorized" not in code.kernels


@pytest.mark.parametrize(
    "rows,terms,columns,parallel",
    [(8, 16, 16, False), (1, 128, 512, False), (1, 512, 128, False), (1, 512, 512, True)],
)
def test_small_products_have_no_parallel_region(
    rows: int, terms: int, columns: int, parallel: bool
) -> None:
    model = torch.nn.Linear(terms, columns)
    program = torch.export.export(model, (torch.randn(rows, terms),)).run_decompositions()
    code = inductor.generate(program, Target("cpu", 256, 4))
    assert "micro_gemm" in code.kernels and ("omp parallel" in code.kernels) == parallel


def test_products_of_one_kind_share_a_micro_gemm() -> None:
    layers = (torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 256))
    program = torch.export.export(torch.nn.Sequential(*layers), (torch.randn(8, 64),))
    text = inductor.generate(program.run_decompositions(), Target("cpu", 512, 2)).kernels
    shared, *kernels = re.split(f"(?={re.escape(KERNEL_START)})", text)[1:]
    (name,) = set(re.findall(r"\bmicro_gemm_[0-9a-f]{16}\b", text))
    assert shared.count(f"template void {name}<") == 2
    callers = [kernel for kernel in kernels if f"{name}<static_cast<bool>(false)" in kernel]
    assert len(callers) == 2
    # What is innermost stands in the shared text alone.
    assert "at::vec::fmadd" in shared and "at::vec::fmadd" not in "".join(kernels)


def test_code_is_there_before_the_next_variant_is_generated() -> None:
    program = torch.export.export(torch.nn.Tanh(), (torch.randn(8, 64),)).run_decompositions()
    targets = [Target("cpu", 256, 2), Target("cpu", 512, 2)]
    found: list[inductor.GeneratedCode] = []

    def stop(index: int, code: inductor.GeneratedCode) -> None:
        found.append(code)
        raise RuntimeError(f"stop after {index}")

    with pytest.raises(RuntimeError, match="stop after 0"):
        inductor.generate_variants(program, targets, None, stop)
    (first,) = found
    found.clear()
    narrow, wide = inductor.generate_variants(program, targets, None, lambda _, x: found.append(x))
    assert found == [narrow, wide] and narrow.kernels == first.kernels != wide.kernels


@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_only_numbers_of_rows_that_occur_are_compiled(bits: int, dtype: torch.dtype) -> None:
    def instances(rows: int, is_dynamic: bool = False) -> set[int]:
        shapes = ({0: torch.export.Dim("rows", min=2)},) if is_dynamic else None
        example = (torch.randn(rows, 64, dtype=dtype),)
        model = torch.nn.Linear(64, 128, dtype=dtype)
        program = torch.export.export(model, example, dynamic_shapes=shapes).run_decompositions()
        text = inductor.generate(program, Target("cpu", bits, 2)).kernels
        text = re.sub(r"if constexpr \(false.*?\} else", "", text, flags=re.DOTALL)
        return {int(count) for count in re.findall(r"_(?:kernel|rows)<(\d+)", text)}

    block = max(every := instances(7, is_dynamic=True))
    assert every == set(range(1, block + 1)) and block > 3
    assert instances(2) == {2}
    assert instances(4 * block) == {block}
    assert instances(4 * block + 3) == {3, block}


def test_products_ask_for_weights_ahead() -> None:
    program = torch.export.export(torch.nn.Linear(64, 128), (torch.randn(8, 64),))
    text = inductor.generate(program.run_decompositions(), Target("cpu", 512, 2)).kernels
    kernel, rest = "_kernel(", "// store to C"
    assert "__builtin_prefetch(B + (k + 24) * ldb" in text.partition(kernel)[2].partition(rest)[0]


@pytest.mark.parametrize(("terms", "has_pairs"), [(64, True), (65, False)])
def test_bfloat16_weights_lie_in_pairs(terms: int, has_pairs: bool) -> None:
    layer, x = torch.nn.Linear(terms, 96).bfloat16(), torch.randn(8, terms).bfloat16()
    program = torch.export.export(layer, (x,)).run_decompositions()
    targets = [Target("cpu", bits, 2, packed_for=512) for bits in (256, 512)]
    narrow, wide = inductor.generate_variants(program, targets)
    assert ("_mm512_dpbf16_ps" in wide.kernels) == has_pairs
    assert "dpbf16" not in narrow.kernels
    # Both read the same bytes.
    packed = [max((c.tensor for c in code.constants), key=torch.numel) for code in (narrow, wide)]
    assert torch.equal(*packed)
    if has_pairs:
        pairs = packed[0].view(2, terms // 2, 48, 2)
        assert torch.equal(pairs[1, 3, 5], layer.weight[48 + 5, 6:8])


def test_a_micro_gemm_that_cannot_be_declared_stays_where_it_is() -> None:
    begin, end = "// micro-GEMM micro_gemm_1\n", "// end of micro-GEMM\n"
    use = "micro_gemm_1<static_cast<bool>(true), static_cast<bool>(false)>(A);\n"
    unknown = "static void micro_gemm_1(float* A) {}\n"
    # Under a name of its own, for two of them may share a file.
    kept, sources = separate([begin + unknown + end + use] * 2)
    assert sources == {}
    assert kept == [(unknown + use).replace("gemm_1", f"gemm_1_{index}") for index in range(2)]
    known = "template <bool accum, bool prefetch=false>\ninline void micro_gemm_1(float* A) {}\n"
    declared, sources = separate([begin + known + end + use] * 2)
    declaration = "template <bool accum, bool prefetch>\nvoid micro_gemm_1(float* A);"
    assert all(kernel.count(declaration) == 1 for kernel in declared)
    assert "template void micro_gemm_1<true, false>(float* A);" in sources["micro_gemm_1"]


def test_a_graph_without_inputs_is_lowered() -> None:
    class Noise(torch.nn.Module):
        def forward(self) -> torch.Tensor:
            return torch.rand(4)

    program = torch.export.export(Noise(), ()).run_decompositions()
    code = inductor.generate(program, Target("cpu", 256, 1))
    assert inductor.operator_functions(code.model) == ("aoti_torch_cpu_randint_low_out",)


def test_kernels_keep_no_notes_of_integer_divisions() -> None:
    body = (
        'extern "C" void f() {\n'
        "    std::atomic<int> inductor_cpu_integer_div_error{0};\n"
        "    inductor_cpu_integer_div_error_flag = &inductor_cpu_integer_div_error;\n"
        "    WORK\n"
        "    inductor_cpu_integer_div_error_flag = nullptr;\n"
        "    inductor_cpu_throw_if_integer_div_error(inductor_cpu_integer_div_error);\n"
        "}\n"
    )
    finished = finish_kernels(KERNEL_START + body.replace("WORK", "y = x * 2;"))
    assert finished == KERNEL_START + 'extern "C" void f() {\n    y = x * 2;\n}\n'


def test_what_depends_on_a_text_alone_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._inductor.compile_fx  # first: its parts import one another in a circle
    from torch._inductor.codegen.common import KernelTemplate
    from torch._inductor.codegen.cpp_template_kernel import CppTemplateKernel

    parsed: list[str] = []
    rendered: list[str] = []
    parse, render = KernelTemplate._template_from_string, CppTemplateKernel.render

    def count_parse(source: str):
        parsed.append(source)
        return parse(source)

    def count_render(kernel, template, **kwargs):
        rendered.append(template.name)
        return render(kernel, template, **kwargs)

    monkeypatch.setattr(KernelTemplate, "_template_from_string", staticmethod(count_parse))
    monkeypatch.setattr(CppTemplateKernel, "render", count_render)
    layers = [torch.nn.Linear(size, size + 64) for size in (256, 320)]
    model = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1])
    program = torch.export.export(model, (torch.randn(64, 256),)).run_decompositions()
    inductor.generate(program, Target("cpu", 256, 2))
    assert parsed and len(parsed) == len(set(parsed))
    # Once for each product: for the kernel, not for a benchmark that nobody runs.
    assert len(rendered) == len(layers)


def test_strides_of_reflections_are_not_simplified(monkeypatch: pytest.MonkeyPatch) -> None:
    """sympy takes minutes for a few layers of audio encoders of any length."""
    simplify, simplified = sympy.simplify, []

    def find(expression: Any, *args: Any, **kwargs: Any) -> Any:
        simplified.append(sympy.sympify(expression))
        return simplify(expression, *args, **kwargs)

    model = torch.nn.Conv1d(2, 3, 5, padding=2, padding_mode="reflect")
    shapes = ({2: 4 * torch.export.Dim("n", min=2, max=9)},)
    program = torch.export.export(model, (torch.randn(1, 2, 12),), dynamic_shapes=shapes)
    monkeypatch.setattr(sympy, "simplify", find)
    code = inductor.generate(program.run_decompositions(), Target("cpu", 256, 2))
    assert "abs(" in code.kernels
    assert not any(expression.has(sympy.Abs) for expression in simplified)


def test_an_unknown_wrapper_is_refused() -> None:
    with pytest.raises(inductor.UnsupportedTorch, match="entry points"):
        model_part("int main() {}")


def test_every_hook_is_still_where_it_was() -> None:
    """Fails first, with a name, when a new torch moves what we replace for a while."""
    from torch._inductor import codecache, cpu_vec_isa, lowering, pattern_matcher, select_algorithm
    from torch._inductor.codegen.cpp_gemm_template import CppGemmTemplate
    from torch._inductor.codegen.cpp_template import CppTemplate
    from torch._inductor.fx_passes import mkldnn_fusion
    from torchgen.aoti.fallback_ops import inductor_fallback_ops

    assert callable(codecache.AotCodeCompiler.compile)
    assert callable(cpu_vec_isa.valid_vec_isa_list)
    assert callable(pattern_matcher.PatternMatcherPass.apply)
    assert isinstance(select_algorithm.get_algorithm_selector_cache().preprocessing_fns, list)
    assert isinstance(CppGemmTemplate.__dict__["add_choices"], classmethod)
    assert hasattr(CppTemplate, "index_counter")
    assert callable(mkldnn_fusion._mkldnn_fusion_init)
    assert callable(mkldnn_fusion._mkldnn_weight_pack_init)
    assert {"l1d_cache_size", "l2_cache_size"} <= torch.cpu.get_capabilities().keys()
    assert lowering.fallbacks and "aten.mm.out" in inductor_fallback_ops


def settings() -> list[object]:
    from torch._inductor.pattern_matcher import PatternMatcherPass

    return [
        torch.is_grad_enabled(),
        torch.backends.cuda.flash_sdp_enabled(),
        torch.backends.cuda.mem_efficient_sdp_enabled(),
        torch._C._get_mkldnn_enabled(),
        PatternMatcherPass.apply,
    ]


def test_the_scope_holds_and_ends_after_an_exception_too() -> None:
    before = settings()
    assert before[:4] == [True] * 4
    with pytest.raises(KeyError), scope.compile_scope(Target("cpu", 256, 1)):
        inside = settings()
        assert inside[:4] == [False] * 4 and inside[4] is not before[4]
        raise KeyError
    assert settings() == before


class Widened(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.to(y.dtype) * y


@pytest.mark.parametrize(
    ("bits", "dtype", "count"),
    [(256, torch.float32, 8), (256, torch.bfloat16, 16), (512, torch.bfloat16, 32)],
)
def test_bytes_are_read_into_a_register_at_once(bits: int, dtype: torch.dtype, count: int) -> None:
    inputs = torch.ones(64, dtype=torch.uint8), torch.ones(64, dtype=dtype)
    program = torch.export.export(Widened(), inputs).run_decompositions()
    code = inductor.generate(program, Target("cpu", bits))
    assert f"= pteron_load<uint8_t, {count}>(" in code.kernels
    assert "Vectorized<uint8_t>::loadu" not in code.kernels


def float32_settings() -> list[str]:
    backends: Any = torch.backends
    return [
        backends.cuda.matmul.fp32_precision,
        backends.cudnn.conv.fp32_precision,
        backends.cudnn.rnn.fp32_precision,
        backends.mkldnn.matmul.fp32_precision,
        torch.get_float32_matmul_precision(),
        str(backends.cudnn.allow_tf32),
    ]


@pytest.mark.parametrize("chosen", ["highest", "high"])
@pytest.mark.parametrize("allow_tf32", [False, True])
def test_tf32_is_the_options_to_choose(chosen: str, allow_tf32: bool) -> None:
    first = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(chosen)
    try:
        before = float32_settings()
        with scope.compile_scope(Target("cuda", allow_tf32=allow_tf32)):
            assert (torch.backends.cuda.matmul.fp32_precision == "tf32") == allow_tf32
            assert torch.backends.cudnn.allow_tf32 == allow_tf32
            assert torch.get_float32_matmul_precision() == ("high" if allow_tf32 else "highest")
        assert float32_settings() == before
    finally:
        torch.set_float32_matmul_precision(first)


def test_equal_models_give_equal_code_whatever_came_before() -> None:
    torch.manual_seed(0)
    program = torch.export.export(torch.nn.Linear(16, 16).eval(), (torch.randn(8, 16),))
    program = program.run_decompositions()
    first = inductor.generate(program, Target("cpu", 256, 1))
    other = inductor.generate(program, Target("cpu", 512, 2, freeze=False))
    again = inductor.generate(program, Target("cpu", 256, 1))
    assert "micro_gemm" in first.kernels and other.model != first.model
    assert (again.model, again.kernels) == (first.model, first.kernels)


def test_an_unknown_vector_width_is_refused() -> None:
    with pytest.raises(ValueError, match="vector_bits is 128"), cpu.vector_isa(128):
        pass


class LooksFarBeyond(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.avg_pool2d(x * 2, 4096, ceil_mode=True)


def test_loops_over_the_same_elements_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    program = torch.export.export(LooksFarBeyond(), (torch.randn(1, 64, 7, 7),))
    inductor.generate(program.run_decompositions(), Target("cpu", 256, 1))
    (text,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert "1073741824 iterations" in text and "avg_pool2d" in text and "test_inductor.py" in text
