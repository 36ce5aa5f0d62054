"""The names of the pull requests that this project starts from: each is there and does its work.

Export scripts of ExecuTorch call them; none of them may go.
"""

import importlib
import inspect
import operator
import os
import subprocess
import sys
import warnings
from collections.abc import Iterable
from enum import Enum
from typing import Any

import pytest
import torch

from pteron.backends.aoti.aoti_backend import (
    COMPILE_SPEC_KEYS,
    AotiBackend,
    BuildTarget,
    ExperimentalWarning,
)
from pteron.backends.aoti.aoti_options import AotiOptions
from pteron.backends.aoti.aoti_partitioner import AotiPartitioner
from pteron.backends.apple.metal import MetalBackend, MetalOptions, MetalPartitioner
from pteron.backends.cpu import CpuBackend, CpuOptions, CpuPartitioner
from pteron.backends.cuda import CudaBackend, CudaOptions, CudaPartitioner
from pteron.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from pteron.exir.backend.backend_api import to_backend
from pteron.exir.backend.backend_details import BackendDetails, PreprocessResult
from pteron.exir.backend.compile_spec_schema import CompileSpec
from pteron.exir.graph.lowered_backend_module import lowered_modules
from pteron.runtime import Runtime

#: Module, without `pteron.`, and what `getattr` finds there, by the pull request that brought it.
NAMES = {
    14715: {
        "backends.cuda.cuda_backend": ["CudaBackend"],
        "backends.cuda.cuda_partitioner": ["CudaPartitioner"],
        "backends.aoti.passes.replace_view_copy_with_view": ["ReplaceSliceCopyWithSlicePass"],
        "backends.aoti.aoti_backend": ["COMPILE_SPEC_KEYS.METHOD_NAME"],
        "exir.backend.compile_spec_schema": ["CompileSpec"],
        "exir.backend.partitioner": ["DelegationSpec", "Partitioner", "PartitionResult"],
    },
    15528: {
        "backends.aoti.aoti_backend": ["AotiBackend"],
        "backends.aoti.aoti_partitioner": ["AotiPartitioner"],
        "backends.apple.metal.metal_backend": ["MetalBackend"],
        "backends.apple.metal.metal_partitioner": ["MetalPartitioner"],
        "backends.cpu.cpu_backend": ["CpuBackend"],
        "backends.cpu.cpu_partitioner": ["CpuPartitioner"],
        "exir.backend.backend_details": ["BackendDetails", "PreprocessResult"],
        "exir._serialize.named_data_store": ["NamedDataStore", "NamedDataStoreOutput"],
    },
    20077: {"exir.backend.utils": ["get_non_lowered_nodes", "get_delegates", "tag_constant_data"]},
    20384: {"exir.backend.utils": ["tag_mutated_buffer"]},
}

CLASS_METHODS = [
    "codesign_so",
    "generate_method_name_compile_spec",
    "get_aoti_compile_options",
    "get_custom_passes",
    "get_decomposition_table",
    "get_device_name",
    "get_extra_aoti_compile_context_manager",
    "get_supported_fallback_kernels",
    "method_name_from_compile_specs",
    "preprocess",
    "preprocess_multimethod",
    "save_data_externally",
]

#: Backend, the torch device, partitioner, options that need no device.
BACKENDS: list[Any] = [
    (CpuBackend, "cpu", CpuPartitioner, CpuOptions()),
    (CudaBackend, "cuda", CudaPartitioner, CudaOptions(architectures=("sm_90",))),
    (MetalBackend, "mps", MetalPartitioner, MetalOptions()),
]
all_backends = pytest.mark.parametrize(
    ("backend", "device", "partitioner", "options"), BACKENDS, ids=["cpu", "cuda", "metal"]
)


@pytest.mark.parametrize(
    ("module", "name"),
    [(module, name) for found in NAMES.values() for module in found for name in found[module]],
)
def test_a_name_is_there(module: str, name: str) -> None:
    value = operator.attrgetter(name)(importlib.import_module(f"pteron.{module}"))
    assert callable(value) or isinstance(value, Enum)


@pytest.mark.parametrize("backend", [AotiBackend, CpuBackend, CudaBackend, MetalBackend])
@pytest.mark.parametrize("name", CLASS_METHODS)
def test_a_class_method_is_there(backend: Any, name: str) -> None:
    assert getattr(backend, name).__self__ is backend
    assert inspect.getdoc(getattr(backend, name))


@all_backends
def test_a_backend_is_final_and_no_other_backend(
    backend: Any, device: str, partitioner: Any, options: Any
) -> None:
    assert backend.__final__
    assert issubclass(backend, AotiBackend)
    assert issubclass(backend, BackendDetails)
    assert issubclass(partitioner, AotiPartitioner)
    with pytest.raises(TypeError, match="backends are final"):
        type("Derived", (backend,), {})


@all_backends
def test_a_backend_says_what_it_is(
    backend: Any, device: str, partitioner: Any, options: Any
) -> None:
    assert backend.get_device_name() == device
    kernels = backend.get_supported_fallback_kernels()
    assert f"aoti_torch_{device}_mm_out" in kernels
    assert isinstance(backend.get_decomposition_table(), dict)
    assert isinstance(backend.get_aoti_compile_options(options), dict)
    assert all(callable(each) for each in backend.get_custom_passes(options))
    assert isinstance(backend.save_data_externally(options), bool)
    assert backend.codesign_so(b"code", options) == b"code"
    with backend.get_extra_aoti_compile_context_manager():
        pass


@pytest.mark.parametrize("backend", [AotiBackend, CpuBackend, CudaBackend, MetalBackend])
def test_the_method_name_goes_there_and_back(backend: Any) -> None:
    assert backend.COMPILE_SPEC_KEYS is COMPILE_SPEC_KEYS
    assert issubclass(COMPILE_SPEC_KEYS, Enum)
    assert [(key.name, key.value) for key in COMPILE_SPEC_KEYS] == [("METHOD_NAME", "method_name")]
    spec = backend.generate_method_name_compile_spec("préfill")
    assert spec == CompileSpec("method_name", "préfill".encode())
    specs = [CompileSpec("other", b"\xff"), spec]
    assert backend.method_name_from_compile_specs(specs) == "préfill"
    with pytest.raises(RuntimeError) as caught:
        backend.method_name_from_compile_specs(specs[:1])
    text = str(caught.value)
    assert "['other']" in text
    assert "'method_name'" in text
    assert f"{backend.__name__}.generate_method_name_compile_spec" in text


class Model(torch.nn.Module):
    """Something to lower."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) + 1


def exported() -> torch.export.ExportedProgram:
    return torch.export.export(Model(), (torch.randn(3),))


@all_backends
def test_a_partitioner_takes_the_method_name(
    monkeypatch: pytest.MonkeyPatch, backend: Any, device: str, partitioner: Any, options: Any
) -> None:
    compiled = []

    def compile_partition(edge_program: Any, found: Any) -> PreprocessResult:
        compiled.append(found)
        return PreprocessResult(b"nothing")

    monkeypatch.setattr(backend, "compile_partition", compile_partition)
    name = backend.generate_method_name_compile_spec("decode")
    for specs in ([name], [*options.to_compile_specs(), name], iter([name])):
        lowered = to_backend(exported().run_decompositions(), partitioner(specs))
        ((_, module),) = lowered_modules(lowered.graph_module)
        assert backend.method_name_from_compile_specs(module.compile_specs) == "decode"
    assert compiled == [type(options)(), options, type(options)()]
    # Nobody has to: lowering says which method it is.
    methods = {"prefill": exported(), "decode": exported()}
    manager = to_edge_transform_and_lower(methods, partitioner=[partitioner(options)])
    for method in methods:
        graph_module = manager.exported_program(method).graph_module
        ((_, module),) = lowered_modules(graph_module)
        assert backend.method_name_from_compile_specs(module.compile_specs) == method


@all_backends
def test_options_of_another_backend_are_refused(
    backend: Any, device: str, partitioner: Any, options: Any
) -> None:
    specs = [backend.generate_method_name_compile_spec("forward"), CompileSpec("speed", b'"high"')]
    with pytest.raises(ValueError, match="no option 'speed'; known: "):
        partitioner(specs)
    (other, *_) = (each[3] for each in BACKENDS if each[0] is not backend)
    with pytest.raises(ValueError, match=f"{type(options).__name__} has no option"):
        partitioner(other)
    with pytest.raises(TypeError, match="expected .* or a list of CompileSpec"):
        partitioner(["forward"])


def test_a_script_of_executorch_runs() -> None:
    specs = [CpuBackend.generate_method_name_compile_spec("forward")]
    manager = to_edge_transform_and_lower(exported(), partitioner=[CpuPartitioner(specs)])
    program = manager.to_executorch(ExecutorchBackendConfig())
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    assert method is not None
    x = torch.randn(3)
    torch.testing.assert_close(method.execute([x])[0], torch.relu(x) + 1)


def test_what_nobody_took_has_the_name_of_its_own_method() -> None:
    """Options of delegates that are there go on to it; the method's name does not."""
    partitioner = CpuPartitioner(
        [*CpuOptions(num_threads=1).to_compile_specs(), CompileSpec("method_name", b"other")],
        leave_out=["aten.add"],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        manager = to_edge_transform_and_lower(exported(), partitioner=[partitioner])
    graph_module = manager.to_executorch().exported_program().graph_module
    specs = [module.compile_specs for _, module in lowered_modules(graph_module)]
    names = [CpuBackend.method_name_from_compile_specs(each) for each in specs]
    assert names == ["other", "forward"]
    assert [CpuOptions.from_compile_specs(each).num_threads for each in specs] == [1, 1]


def test_the_base_is_abstract() -> None:
    assert inspect.isabstract(AotiBackend)
    assert not issubclass(AotiBackend, BackendDetails)
    make: Any = AotiBackend
    with pytest.raises(TypeError, match="abstract class AotiBackend"):
        make()
    with pytest.raises(NotImplementedError, match="AotiBackend is abstract: use .* CpuBackend"):
        AotiBackend.preprocess(exported(), [])
    with pytest.raises(ValueError, match="no backend is named 'AotiBackend'"):
        AotiPartitioner("AotiBackend")


def test_the_base_is_experimental() -> None:
    assert "xperimental" in str(inspect.getdoc(AotiBackend))
    with pytest.warns(ExperimentalWarning, match="Ours derives from AotiBackend") as caught:

        class Ours(AotiBackend[AotiOptions]):
            @classmethod
            def get_device_name(cls) -> str:
                return "cpu"

            @classmethod
            def get_options(cls, compile_specs: Iterable[CompileSpec]) -> AotiOptions:
                return AotiOptions.from_compile_specs(compile_specs)

            @classmethod
            def get_build_target(cls, options: AotiOptions) -> BuildTarget:
                raise NotImplementedError

    assert Ours.get_device_name() == "cpu"
    assert caught[0].filename == __file__


def test_the_backends_warn_nobody() -> None:
    script = """
import warnings
from pteron.backends.aoti.aoti_backend import ExperimentalWarning
warnings.simplefilter("error", ExperimentalWarning)
import pteron.backends.apple.metal.metal_backend
import pteron.backends.cpu.cpu_backend
import pteron.backends.cuda.cuda_backend
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
