"""Files without delegates give the same results in both runtimes, from either writer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import executorch.exir as stock_exir
import pytest
import torch
from executorch.exir.capture._config import ExecutorchBackendConfig as StockConfig
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from executorch.runtime import Runtime as StockRuntime

from pteron.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from pteron.runtime import NotSupportedError, Runtime
from tests.oracle.programs import ATTENTION, CASES, STOCK_CASES, Case


def run_everywhere(case: Case, path: Path, data_path: Sequence[Path] = ()) -> None:
    """Runs all calls in both runtimes, each with its own state, and compares with eager."""
    ours = Runtime.get().load_program(path, data_path=list(data_path)).load_method("forward")
    beside = data_path[0] if data_path else None
    theirs = StockRuntime.get().load_program(path, data_path=beside).load_method("forward")
    eager = case.module()
    for inputs in case.calls:
        with torch.no_grad():
            result = eager(*inputs)
        expected = list(result) if isinstance(result, tuple) else [result]
        assert_equal(ours.execute(list(inputs)), expected)
        assert_equal(theirs.execute(list(inputs)), expected)


def assert_equal(found: Sequence[Any], expected: Sequence[Any]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        if isinstance(other, torch.Tensor):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
        else:
            assert one == other


@pytest.mark.parametrize("name", CASES)
def test_files_of_ours(name: str, tmp_path: Path) -> None:
    edge = to_edge_transform_and_lower(CASES[name].export())
    edge.to_executorch().save(tmp_path / "ours.pte")
    run_everywhere(CASES[name], tmp_path / "ours.pte")


def test_file_of_ours_with_constants_beside(tmp_path: Path) -> None:
    edge = to_edge_transform_and_lower(CASES["constants"].export())
    program = edge.to_executorch(ExecutorchBackendConfig(external_constants=True))
    program.save(tmp_path / "ours.pte")
    program.write_tensor_data_to_file(tmp_path)
    run_everywhere(CASES["constants"], tmp_path / "ours.pte", list(tmp_path.glob("*.ptd")))


@pytest.mark.parametrize("name", STOCK_CASES)
def test_files_of_the_stock(name: str, tmp_path: Path) -> None:
    config = StockConfig(passes=[InitializedMutableBufferPass(["held"])])
    program = stock_exir.to_edge(STOCK_CASES[name].export()).to_executorch(config)
    path = tmp_path / "stock.pte"
    path.write_bytes(program.buffer)
    run_everywhere(STOCK_CASES[name], path)


def test_file_of_the_stock_with_constants_beside(tmp_path: Path) -> None:
    program = stock_exir.to_edge(CASES["constants"].export()).to_executorch(
        StockConfig(external_constants=True)
    )
    (tmp_path / "stock.pte").write_bytes(program.buffer)
    program.write_tensor_data_to_file(str(tmp_path))
    run_everywhere(CASES["constants"], tmp_path / "stock.pte", list(tmp_path.glob("*.ptd")))


def test_kernels_that_ours_has_not_are_listed_at_once(tmp_path: Path) -> None:
    path = tmp_path / "stock.pte"
    path.write_bytes(stock_exir.to_edge(ATTENTION.export()).to_executorch().buffer)
    program = Runtime.get().load_program(path)
    names = program.metadata("forward").operators()
    ours = Runtime.get().operator_registry.operator_names
    missing = sorted(set(names) - set(ours))
    assert len(missing) > 3
    with pytest.raises(NotSupportedError) as raised:
        program.load_method("forward")
    assert f"{len(missing)} kernels are not registered: {', '.join(missing)}." in str(raised.value)


def test_ours_describes_delegates_of_the_stock(tmp_path: Path) -> None:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    edge = stock_exir.to_edge_transform_and_lower(
        ATTENTION.export(), partitioner=[XnnpackPartitioner()]
    )
    path = tmp_path / "xnnpack.pte"
    path.write_bytes(edge.to_executorch().buffer)
    program = Runtime.get().load_program(path)
    meta = program.metadata("forward")
    assert "XnnpackBackend" in meta.backends()
    assert meta.input_tensor_meta(0).sizes() == (2, 6, 8)
    with pytest.raises(Exception, match="no backend XnnpackBackend"):
        program.load_method("forward")
