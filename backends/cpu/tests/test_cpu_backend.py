"""From a program to delegates for a CPU: targets, shared weights, one real lowering."""

import pytest
import torch

import pteron.backends.aoti.schema.metadata_generated as schema
from pteron.backends.aoti.aoti_backend import AotiBackend
from pteron.backends.cpu import CpuBackend, CpuOptions, CpuPartitioner, isa
from pteron.backends.cpu.cpu_backend import share_weights
from pteron.exir.backend.backend_details import BackendDetails, find_backend
from pteron.exir.backend.compile_spec_schema import METHOD_NAME_KEY, CompileSpec


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(64, 64)
        self.idle = torch.nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu()


def target(**options):
    return CpuBackend.get_build_target(CpuOptions(**options))


def test_it_is_a_registered_final_backend() -> None:
    assert find_backend("CpuBackend") is CpuBackend
    assert issubclass(CpuBackend, AotiBackend)
    with pytest.raises(TypeError, match="CpuBackend, which is a backend, and backends are final"):
        type("MyCpuBackend", (CpuBackend,), {})
    assert issubclass(CpuBackend, BackendDetails)


def test_options_become_targets() -> None:
    default = target(num_threads=3)
    assert (default.code.vector_bits, default.code.num_threads) == (256, 2)
    assert default.code.freeze and default.code.templates
    assert default.machine.march == ("-march=x86-64-v3", "-DCPU_CAPABILITY_AVX2")
    assert (default.info.isa, default.info.num_threads) == ("x86-64-v3", 3)
    wide = target(isa="x86-64-v4")
    assert wide.machine.wide_vectors and wide.code.vector_bits == 512
    assert wide.info.num_threads == 0  # as many as there are
    assert target(num_threads=1).code.num_threads == 1


def test_the_default_is_code_for_two_levels_that_read_one_layout_of_weights() -> None:
    narrow, wide = CpuBackend.get_build_targets(CpuOptions())
    assert (narrow.info.isa, wide.info.isa) == ("x86-64-v3", "x86-64-v4")
    assert (narrow.code.vector_bits, narrow.code.packed_for) == (256, 512)
    assert (wide.code.vector_bits, wide.code.packed_for) == (512, 512)
    (alone,) = CpuBackend.get_build_targets(CpuOptions(isa="x86-64-v3"))
    assert alone.code.packed_for == 256


def test_other_variants_than_the_best_are_verified_too(monkeypatch: pytest.MonkeyPatch) -> None:
    specs = CpuOptions(isa=("x86-64-v4", "x86-64-v2", "x86-64-v3")).to_compile_specs()
    monkeypatch.setattr(isa, "machine_features", lambda: isa.level("x86-64-v3").features)
    assert CpuBackend.get_load_options(specs) == [{"isa": "x86-64-v2"}]


def test_scalar_targets_and_library_products_use_no_templates() -> None:
    assert not target(isa="x86-64-v2").code.templates
    assert not target(gemm="library").code.templates
    assert target(gemm="library").code.freeze


def test_shared_weights_are_not_frozen() -> None:
    shared = target(weights="shared")
    assert not shared.code.freeze and shared.info.weights_layout == "shared"
    assert target(weights="packed").info.weights_layout == "packed"


def test_native_is_resolved_and_recorded() -> None:
    assert target(isa="native").info.isa == isa.native().name


def test_weights_are_shared_where_methods_read_one_tensor() -> None:
    layer = Layer()
    example = (torch.randn(1, 64),)
    first = torch.export.export(layer, example)
    again = torch.export.export(layer, example)
    other = torch.export.export(Layer(), example)
    assert share_weights([[first], [again]])
    assert not share_weights([[first], [other]])
    assert not share_weights([[first, again]])


def test_the_partitioner_takes_options_or_compile_specs() -> None:
    specs = CpuOptions(isa="x86-64-v4").to_compile_specs()
    CpuPartitioner(specs)
    CpuPartitioner(CpuOptions())
    with pytest.raises(ValueError, match="no option"):
        CpuPartitioner([type(specs[0])("speed", b'"high"')])


@pytest.fixture(scope="module")
def results():
    """Two methods over one layer, lowered together with shared weights."""
    layer = Layer()
    programs = {
        name: [torch.export.export(layer, (torch.randn(rows, 64),)).run_decompositions()]
        for name, rows in (("prefill", 16), ("decode", 1))
    }
    options = CpuOptions("x86-64-v3", num_threads=2, save_data_externally=True).to_compile_specs()
    specs = {name: [[*options, CompileSpec(METHOD_NAME_KEY, name.encode())]] for name in programs}
    return layer, CpuBackend.preprocess_multimethod(programs, specs)


def metadata_of(result):
    store = result.data_store_output
    so_key, weights_key = result.processed_bytes.decode().split("\n")
    entry = store.pte_data[f"{so_key}/{weights_key}/metadata"]
    data = bytes(store.buffers[entry.buffer_index].data)
    return schema.ModelMetadataT.InitFromObj(schema.ModelMetadata.GetRootAs(data, 0))


def test_methods_share_the_blob_of_their_weight(results) -> None:
    layer, methods = results
    keys = []
    for (result,) in methods.values():
        table = metadata_of(result)
        assert table.weightsLayout == b"shared"
        (weight,) = [c for c in table.constants if c.fqn == b"linear.weight"]
        assert list(weight.sizes) == [64, 64]
        external = result.data_store_output.external_data["aoti_cpu_blob"]
        blob = result.data_store_output.buffers[external[weight.blobKey.decode()].buffer_index]
        assert bytes(blob.data) == layer.linear.weight.detach().numpy().tobytes()
        keys.append(weight.blobKey)
    assert keys[0] == keys[1]


def test_code_and_metadata_stay_in_the_program_file(results) -> None:
    _, methods = results
    for (result,) in methods.values():
        so_key, weights_key = result.processed_bytes.decode().split("\n")
        inline = result.data_store_output.pte_data
        assert inline.keys() == {so_key, f"{so_key}/{weights_key}/metadata"}
        assert weights_key in result.data_store_output.external_data["aoti_cpu_blob"]


def test_metadata_names_the_shims_and_the_machine(results) -> None:
    _, methods = results
    table = metadata_of(methods["prefill"][0])
    assert b"aoti_torch_cpu_addmm_out" in table.shims and table.shimListVersion >= 1
    assert (table.device, table.isa, table.numThreads) == (b"cpu", b"x86-64-v3", 2)
    assert {c.op for c in table.opCounts} >= {b"aten.addmm.default", b"aten.relu.default"}


def test_variants_store_their_weights_once() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 200), torch.nn.ReLU(), torch.nn.Linear(200, 64))
    program = torch.export.export(model.eval(), (torch.randn(20, 64),)).run_decompositions()
    result = CpuBackend.preprocess(program, [])
    store, keys = result.data_store_output, result.processed_bytes.decode().split("\n")
    tables = []
    for so_key, weights_key in zip(keys[::2], keys[1::2], strict=True):
        entry = store.pte_data[f"{so_key}/{weights_key}/metadata"]
        data = bytes(store.buffers[entry.buffer_index].data)
        tables.append(schema.ModelMetadataT.InitFromObj(schema.ModelMetadata.GetRootAs(data)))
    assert [table.isa for table in tables] == [b"x86-64-v3", b"x86-64-v4"]
    assert keys[1] == keys[3]
    blobs = [sorted(c.blobKey for c in table.constants) for table in tables]
    assert blobs[0] == blobs[1] and len(set(blobs[0])) == 3  # two matrices, and what is small
    lines = CpuBackend.describe(result.processed_bytes, store)
    assert lines["isa"] == "x86-64-v3, x86-64-v4"


_ROWS = torch.export.Dim("rows", min=2, max=8)


@pytest.mark.parametrize(
    ("model", "sizes", "options", "is_called"),
    [
        (torch.nn.Linear(16, 4), (2, 16), {}, True),
        (torch.nn.Linear(16, 4), (2, 16), {"gemm": "template"}, False),
        (torch.nn.Linear(64, 65), (1, 64), {}, False),
        (torch.nn.Sequential(torch.nn.Linear(16, 4), torch.nn.ReLU()), (2, 16), {}, False),
        (torch.nn.Linear(16, 4), (_ROWS, 16), {}, False),
    ],
    ids=["small", "template", "large", "with a kernel", "dynamic"],
)
def test_one_small_product_is_a_call(
    model: torch.nn.Module, sizes: tuple, options: dict, is_called: bool
) -> None:
    dynamic = {i: size for i, size in enumerate(sizes) if not isinstance(size, int)}
    x = torch.randn([4 if i in dynamic else size for i, size in enumerate(sizes)])
    exported = torch.export.export(model.eval(), (x,), dynamic_shapes=(dynamic,))
    specs = CpuOptions("x86-64-v3", **options).to_compile_specs()
    programs = {"forward": [exported.run_decompositions()]}
    specs.append(CompileSpec(METHOD_NAME_KEY, b"forward"))
    (result,) = CpuBackend.preprocess_multimethod(programs, {"forward": [specs]})["forward"]
    assert (b"aoti_torch_cpu_addmm_out" in metadata_of(result).shims) == is_called
