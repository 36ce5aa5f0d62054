"""CUDA programs lowered without a GPU."""

import contextlib
import logging
import pathlib
import struct
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._inductor.codegen.triton_combo_kernel import ComboKernel
from torch._subclasses import FakeTensorMode
from torch.export import default_decompositions

from pteron.backends.aoti import elf, inductor, toolchain
from pteron.backends.aoti.inductor import patches
from pteron.backends.aoti.object_cache import ObjectCache
from pteron.backends.aoti.ops import shim_list
from pteron.backends.aoti.ops.attention.attention import ATTENTION
from pteron.backends.cuda import CudaOptions
from pteron.backends.cuda.cuda_backend import CudaBackend, NoCudaDevice
from pteron.backends.cuda.tests.programs import lower, sample_named, save
from pteron.exir._serialize.program_file import deserialize_program
from pteron.runtime import Runtime
from tests.models.cases import Applies

SM_90 = CudaOptions(architectures=("sm_90",), save_data_externally=False)
WITHOUT_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")


def generated(module: nn.Module, options: CudaOptions, *inputs: Any) -> inductor.GeneratedCode:
    program = torch.export.export(module.eval(), inputs)
    decompositions = default_decompositions()
    del decompositions[ATTENTION]
    program = program.run_decompositions(decompositions)
    return inductor.generate(
        CudaBackend._prepare(program, options),
        CudaBackend.get_build_target(options).code,
        CudaBackend.get_aoti_compile_options(options),
    )


def architecture_of(cubin: bytes) -> int:
    """What a cubin is for, as its header says: 90."""
    (machine,) = struct.unpack_from("<H", cubin, 18)
    (flags,) = struct.unpack_from("<I", cubin, 48)
    assert cubin[:4] == b"\x7fELF"
    assert machine == 190  # EM_CUDA
    return flags >> 8 & 0xFF if cubin[8] >= 8 else flags & 0xFF


@pytest.mark.parametrize("name", ["mlp_block", "conv_net", "attention"])
def test_networks_lower(name: str, tmp_path: pathlib.Path) -> None:
    sample = sample_named(name)
    manager = lower(sample.export(), SM_90)
    assert "archs     sm_90\n" in str(manager.explain())
    named = deserialize_program(save(manager, tmp_path).read_bytes()).named_data
    (shared_object,) = (bytes(data) for key, data in named.items() if key.endswith("_so_blob"))
    assert set(elf.undefined_symbols(shared_object)) <= shim_list.load("cuda").versions.keys()
    stored = b"".join(bytes(data) for data in named.values())
    for weight in sample.module().parameters():
        if weight.dim() == 2:  # those of convolutions take up batch norms
            assert weight.detach().contiguous().numpy().tobytes() in stored


@WITHOUT_GPU  # with one, they are for both
@pytest.mark.parametrize("architecture", inductor.GPUS)
def test_kernels_are_for_the_architecture(architecture: str) -> None:
    options = CudaOptions(architectures=(architecture,))
    code = generated(nn.GELU(), options, torch.randn(8, 64))
    assert [architecture_of(cubin) for cubin in code.embedded.values()] == [
        int(architecture.removeprefix("sm_"))
    ]


def test_several_architectures_are_one_fat_binary() -> None:
    options = CudaOptions(architectures=("sm_90", "sm_80"))
    assert CudaBackend.get_build_target(options).info.cuda_archs == ("sm_90", "sm_80")
    (kernel,) = generated(nn.GELU(), options, torch.randn(8, 64)).embedded.values()
    assert kernel[:4] == struct.pack("<I", 0xBA55ED50)


class Independent(nn.Module):
    """Results of two sizes, of which two are fused."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [torch.sin(x), y.exp(), y.exp() + 1]


def test_kernels_that_do_not_depend_on_each_other_are_one() -> None:
    code = generated(Independent(), SM_90, torch.randn(8, 64), torch.randn(3, 16))
    assert len(code.embedded) == 1
    (kernel,) = code.events
    assert {"aten.sin.default", "aten.exp.default", "aten.add.Tensor"} <= set(
        kernel.ops.split(", ")
    )


def test_kernels_of_dynamic_sizes_stay_apart() -> None:
    inputs, dynamic = (torch.randn(8, 64), torch.randn(3, 16)), torch.export.Dim("n", min=2)
    program = torch.export.export(Independent(), inputs, dynamic_shapes=({0: dynamic}, None))
    program = CudaBackend._prepare(program.run_decompositions(), SM_90)
    (code,) = CudaBackend._generate(program, [CudaBackend.get_build_target(SM_90)], SM_90)
    assert len(code.events) == 2


class Scans(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [x.cumsum(-1), y.exp(), y.sum(-1)]


@pytest.mark.parametrize(("size", "kernels"), [(64, 1), (1 << 20, 2)])
def test_long_scans_are_split_over_thread_blocks(size: int, kernels: int) -> None:
    program = torch.export.export(Scans(), (torch.randn(size), torch.randn(3, 16)))
    program = CudaBackend._prepare(program.run_decompositions(), SM_90)
    (code,) = CudaBackend._generate(program, [CudaBackend.get_build_target(SM_90)], SM_90)
    assert len(code.events) == kernels
    assert ("triton_spl_fused" in code.model) == (kernels == 2)


def test_kernels_stay_apart_if_inductor_cannot_join_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_args: Any, **_options: Any) -> None:
        raise AssertionError("ops.sort is only supported in persistent reductions")

    monkeypatch.setattr(ComboKernel, "create_triton_kernel", fails)
    program = torch.export.export(Independent(), (torch.randn(8, 64), torch.randn(3, 16)))
    program = CudaBackend._prepare(program.run_decompositions(), SM_90)
    with caplog.at_level(logging.WARNING):
        (code,) = CudaBackend._generate(program, [CudaBackend.get_build_target(SM_90)], SM_90)
    assert len(code.events) == 2
    assert "ops.sort is only supported" in caplog.text
    assert "is lowered with more kernels" in caplog.text


class Sorts(nn.Module):
    """A sort that torch 2.11 cannot join with the sum."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [*torch.sort(x, dim=0), y.sum(-1)]


def test_a_sort_lowers_beside_another_reduction() -> None:
    program = torch.export.export(Sorts(), (torch.randn(100, 40), torch.randn(3, 16)))
    program = CudaBackend._prepare(program.run_decompositions(), SM_90)
    (code,) = CudaBackend._generate(program, [CudaBackend.get_build_target(SM_90)], SM_90)
    assert any("aten.sort.default" in event.ops for event in code.events)


class Residual(nn.Module):
    """Convolutions whose weights are computed and change layout during lowering."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.norm.running_var.fill_(4.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(x)) + x)


@WITHOUT_GPU  # with one, they are for both
def test_kernels_start_early_if_all_gpus_can() -> None:
    for architectures, early in ((("sm_90",), True), (("sm_90", "sm_80"), False)):
        options = CudaOptions(architectures=architectures)
        code = generated(nn.Softmax(-1), options, torch.randn(8, 64))
        assert ("CUDA_DRIVER_CHECK(cuLaunchKernelEarly(" in code.model) == early
        assert ("CUDA_DRIVER_CHECK(cuLaunchKernel(" in code.model) != early


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_weights_of_convolutions_are_folded(dtype: torch.dtype) -> None:
    module = Residual().to(dtype)
    code = generated(module, SM_90, torch.randn(2, 8, 16, 16, dtype=dtype))
    (folded,) = (c.tensor for c in code.constants if c.tensor.dim() == 4)
    expected = module.conv.weight.detach().double() / (4.0 + module.norm.eps) ** 0.5
    torch.testing.assert_close(folded, expected.to(dtype))
    if dtype == torch.float16:
        assert folded.is_contiguous(memory_format=torch.channels_last)


class Constants(nn.Module):
    """Two tensors of equal shape, one that is used twice, a view, and a scalar."""

    def __init__(self, scale: float = 0.625) -> None:
        super().__init__()
        torch.manual_seed(0)
        first, second, whole = (torch.randn(16, 16) for _ in range(3))
        self.first, self.second, self.tied = (nn.Parameter(t) for t in (first, second, first))
        self.view = nn.Parameter(whole[4:, 3:].t())
        self.register_buffer("scale", torch.tensor(scale))
        self.register_buffer("ones", torch.ones(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        product = x @ self.first @ self.second @ self.tied + self.ones * torch.full((16,), 2.0)
        return product[:, :13] @ self.view * self.scale


def test_constants_have_their_values() -> None:
    module = Constants()
    code = generated(module, SM_90, torch.randn(3, 16))
    expected = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    found = {constant.fqn: constant.tensor for constant in code.constants}
    assert {"first", "second", "view"} <= found.keys() <= expected.keys()
    for name, tensor in found.items():
        assert type(tensor) is torch.Tensor
        torch.testing.assert_close(tensor, expected[name].detach(), rtol=0, atol=0)


def test_scalars_are_compiled_in() -> None:
    x = torch.randn(3, 16)
    codes = [generated(Constants(scale), SM_90, x).embedded for scale in (0.625, 0.625, 0.5)]
    assert codes[0] == codes[1] != codes[2]


@pytest.mark.parametrize(
    ("dtype", "channels_last", "order"),
    [
        (torch.float32, "", (0, 1, 2, 3)),
        (torch.float32, "input", (0, 2, 3, 1)),
        (torch.float16, "weight", (0, 2, 3, 1)),
        (torch.float64, "weight", (0, 1, 2, 3)),
    ],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_convolutions_lie_as_cudnn_leaves_them(
    dtype: torch.dtype, channels_last: str, order: tuple[int, ...], transposed: bool
) -> None:
    with inductor.fake_tensors_of_any_device(), FakeTensorMode():
        operands = [
            torch.ops.aten.empty.memory_format(
                (8, 8, 5, 5),
                dtype=dtype,
                device=torch.device("cuda:0"),
                memory_format=torch.channels_last
                if channels_last == name
                else torch.contiguous_format,
            )
            for name in ("input", "weight")
        ]
        out = torch.ops.aten.convolution.default(
            *operands, None, [1, 1], [2, 2], [1, 1], transposed, [0, 0], 1
        )
    assert tuple(sorted(range(4), key=out.stride, reverse=True)) == order


def test_a_convolution_of_one_dimension_follows_its_weight() -> None:
    with inductor.fake_tensors_of_any_device(), FakeTensorMode(), torch.device("cuda:0"):
        row_major, last = torch.empty(8, 8, 9), torch.empty(8, 9, 8).permute(0, 2, 1)
        strides = [
            torch.ops.aten.convolution.default(
                x, weight, None, [1], [4], [1], False, [0], 1
            ).stride()
            for x, weight in ((last, row_major), (row_major, last))
        ]
    assert strides == [(72, 9, 1), (72, 1, 8)]


@pytest.mark.parametrize("dim", [0, 1])
def test_rows_and_columns_are_selected(dim: int) -> None:
    with inductor.fake_tensors_of_any_device(), FakeTensorMode(), torch.device("cuda:0"):
        x, index = torch.empty(5, 7), torch.empty(3, dtype=torch.int64)
        selected = torch._refs.index_select(x, dim, index)
        by_index = x[index]
    assert selected.shape == ((3, 7), (5, 3))[dim]
    assert by_index.shape == (3, 7)
    assert selected.device == by_index.device == torch.device("cuda:0")


def test_all_of_torch_is_as_before() -> None:
    import triton
    from torch._dynamo import device_interface
    from torch._inductor.runtime.hints import DeviceProperties
    from torch._subclasses import FakeTensor

    def state() -> list[Any]:
        names = ("is_available", "get_device_properties", "device", "synchronize")
        return [
            *(getattr(torch.cuda, name) for name in names),
            torch.cuda.is_available(),
            device_interface.get_interface_for_device("cuda"),
            DeviceProperties.create,
            FakeTensor.item,
            FakeTensor.copy_,
            triton.runtime.driver._active,
        ]

    before = state()
    generated(nn.GELU(), SM_90, torch.randn(8, 64))
    assert state() == before


def test_kernels_that_cannot_run_are_not_kept() -> None:
    from torch._inductor.codecache import PyCodeCache

    generated(nn.GELU(), SM_90, torch.randn(8, 64))
    assert not PyCodeCache.modules


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_what_was_lowered_without_a_gpu_is_lowered_with_one(tmp_path: pathlib.Path) -> None:
    major, minor = torch.cuda.get_device_capability()
    x = torch.randn(8, 64)
    for architectures in ((f"sm_{major}{minor}",), ()):
        program = torch.export.export(nn.GELU().cuda(), (x.cuda(),))
        options = CudaOptions(architectures=architectures, save_data_externally=False)
        method = Runtime.get().load_program(save(lower(program, options), tmp_path))
        (found,) = method.load_method("forward").execute([x])
        torch.testing.assert_close(torch.from_dlpack(found).cpu(), nn.GELU()(x))


def test_the_same_bytes_come_out_again(tmp_path: pathlib.Path) -> None:
    files = []
    for folder, between in (("a", "linear"), ("b", "outputs")):
        (tmp_path / folder).mkdir()
        path = save(lower(sample_named("mlp_block").export(), SM_90), tmp_path / folder)
        files.append(path.read_bytes())
        lower(sample_named(between).export(), SM_90)
    assert files[0] == files[1]


@WITHOUT_GPU
def test_it_says_once_that_nothing_was_checked(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        report = str(lower(sample_named("linear").export(), SM_90).to_executorch().explain())
    (message,) = [r.message for r in caplog.records if "without a GPU" in r.message]
    assert "sm_90" in message and "on such a GPU" in message
    assert "not run" in report


@WITHOUT_GPU
def test_options_that_need_a_gpu_are_named_together() -> None:
    with pytest.raises(NoCudaDevice) as error:
        lower(sample_named("linear").export(), CudaOptions(gemm="best", autotune="kernels"))
    text = str(error.value)
    for expected in ('architectures=("sm_90",)', 'gemm="cublas"', 'autotune="off"'):
        assert expected in text


@WITHOUT_GPU
def test_a_gpu_that_is_not_in_the_table_is_refused() -> None:
    with pytest.raises(inductor.UnsupportedArchitecture, match="sm_75.*sm_80, sm_86, .*sm_120"):
        lower(sample_named("linear").export(), CudaOptions(architectures=("sm_75",)))


def test_triton_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(inductor.TritonMissing, match="pip install triton=="):
        generated(nn.GELU(), SM_90, torch.randn(8, 64))


class ContiguousQueries(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q = q.transpose(1, 2).contiguous()
        k, v = k.transpose(1, 2), v.transpose(1, 2)
        return nn.functional.scaled_dot_product_attention(q, k, v)


def _lays_out_late(model: str) -> bool:
    """Inductor's kernel has the strides of the graph, and the copy those of its source."""
    before, _, _ = model.rpartition("call_triton_tem")
    run = before.partition("::run_impl(")[2]
    return "{1088L, 272L, 16L, 1L}" not in run or "{1088L, 16L, 64L, 1L}" in run


class Transforms(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(torch.fft.rfftn(x.transpose(0, 2), dim=(0, 1))) + 1


#: Repairs of code for GPUs: a module, its inputs, and whether its code has the bug.
REPAIRS: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...], Callable[[str], bool]]] = {
    "freeze_flex_decoding_query_layout": (
        ContiguousQueries(),
        (torch.randn(1, 17, 4, 16),) * 3,
        _lays_out_late,
    ),
    "fix_fft_strides": (
        Transforms(),
        (torch.randn(16, 5, 6),),
        lambda model: "xindex // 36" not in model,
    ),
}


@pytest.mark.parametrize("name", REPAIRS)
@pytest.mark.parametrize("repaired", [True, False])
def test_repairs_are_needed(name: str, repaired: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    module, inputs, has_bug = REPAIRS[name]
    if not repaired:
        monkeypatch.delitem(patches.REPAIRS, name)
    assert has_bug(generated(module, SM_90, *inputs).model) != repaired


class Masked(nn.Module):
    def forward(self, q: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(q, q, q, mask)


@pytest.mark.parametrize(("batch", "way"), [(1, "flex"), (2, "library")])
def test_long_masks_of_booleans(batch: int, way: str) -> None:
    q = torch.randn(2, 2, 1024, 32, dtype=torch.float16)
    mask = torch.ones(batch, 1, 1024, 1024, dtype=torch.bool).tril()
    lowered = lower(torch.export.export(Masked(), (q, mask)), SM_90)
    assert f"attention 1 by {way}" in " ".join(str(lowered.explain()).split())


def test_what_was_lowered_before_is_not_lowered_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With equal weights, options and versions; a convolution's weights are folded and permuted."""
    calls: list[Any] = []
    generate = inductor.generate_variants

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return generate(*args, **kwargs)

    cache = ObjectCache(tmp_path / "cache", 1 << 30)
    monkeypatch.setattr(inductor, "generate_variants", counted)
    monkeypatch.setattr(toolchain, "shared_cache", lambda: cache)

    def made(options: CudaOptions) -> list[bytes]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        save(lower(torch.export.export(Residual().eval(), (example,)), options), folder)
        return [path.read_bytes() for path in sorted(folder.iterdir())]

    example = torch.randn(2, 8, 16, 16)
    options = CudaOptions(architectures=("sm_90",))
    first = made(options)
    assert len(first) == 2 and len(calls) == 1
    assert made(options) == first
    assert len(calls) == 1
    made(CudaOptions(architectures=("sm_80",)))
    assert len(calls) == 2
    with monkeypatch.context() as other:
        other.setattr(CudaBackend, "get_versions", classmethod(lambda cls: ["triton 99"]))
        made(options)
    assert len(calls) == 3
    with monkeypatch.context() as other:
        other.setenv("TRITON_PTXAS_UNKNOWN_PATH", "/elsewhere")
        made(options)
        made(options)
    assert len(calls) == 5


@pytest.mark.parametrize(
    "view", [lambda x: x.transpose(0, 1), lambda x: x[:1].expand(5, 3, 2)], ids=["t", "expand"]
)
def test_complex_results_have_any_strides(
    view: Callable[[torch.Tensor], torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, x = Applies(lambda x: torch.view_as_complex(view(x))), torch.randn(4, 3, 2)
    assert "view_as_complex" in generated(module, SM_90, x).model
    name = "keep_traced_strides_of_complex_views"
    _, releases = patches.REPAIRS[name]
    monkeypatch.delitem(patches.REPAIRS, name)
    has_bug = inductor.release() in releases
    with pytest.raises(Exception, match="complex64") if has_bug else contextlib.nullcontext():
        generated(module, SM_90, x)
