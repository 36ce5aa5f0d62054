"""The stock ExecuTorch opens files of ours and reads the same in them as we do."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir._serialize._cord import Cord
from executorch.exir._serialize._flatbuffer_program import _flatbuffer_to_program
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.extension.flat_tensor.serialize.serialize import FlatTensorSerializer
from executorch.runtime import Runtime as StockRuntime
from executorch.runtime import Verification as StockVerification

from pteron.backends.example.blas.blas_partitioner import BlasPartitioner
from pteron.exir import (
    ExecutorchBackendConfig,
    ExecutorchProgramManager,
    to_edge_transform_and_lower,
)
from pteron.exir._serialize.program_file import ProgramFile, deserialize_program
from pteron.exir._serialize.tensor_data_file import deserialize_tensor_data
from pteron.runtime import Runtime
from tests.oracle.fields import differences, in_stock_words, plain
from tests.oracle.programs import CASES, PRODUCT


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with every kind of value, instruction and segment, and a .ptd beside it."""
    folder = tmp_path_factory.mktemp("everything")
    program = folder / "everything.pte"
    writer = os.path.abspath(os.environ["WRITE_EVERYTHING"])
    subprocess.run([writer, program, folder / "everything.ptd"], check=True)
    return program


def lower(name: str, **options: Any) -> ExecutorchProgramManager:
    edge = to_edge_transform_and_lower(CASES[name].export())
    return edge.to_executorch(ExecutorchBackendConfig(**options))


def delegated() -> ExecutorchProgramManager:
    edge = to_edge_transform_and_lower(
        {"forward": PRODUCT.export(), "other": PRODUCT.export()},
        partitioner=[BlasPartitioner(external_tag="blas")],
        constant_methods={"length": 128, "sizes": [1, 2], "name": "text"},
    )
    return edge.to_executorch(ExecutorchBackendConfig(emit_stacktrace=True))


def stock_program(data: bytes) -> Any:
    """All tables as the stock reads them, before it puts segments back into them."""
    return _flatbuffer_to_program(data)


def read(data: bytes) -> ProgramFile:
    return deserialize_program(data)


def test_everything_is_in_everything(everything: Path) -> None:
    """Otherwise the comparisons below would say less than they seem to."""
    program = read(everything.read_bytes()).program
    method = max(program.methods, key=lambda m: len(m.values))
    values = {type(v.value).__name__ for v in method.values}
    assert values == {
        "Null", "Int", "Bool", "Double", "Tensor", "String", "IntList", "DoubleList", "BoolList",
        "TensorList", "OptionalTensorList",
    }  # fmt: skip
    calls = {type(i.call).__name__ for chain in method.chains for i in chain.instructions}
    assert calls == {"KernelCall", "DelegateCall", "MoveCall", "JumpFalseCall", "FreeCall"}
    assert program.constant_segment and program.mutable_segments and program.named_data
    assert {d.processed.location for d in method.delegates} == {0, 1}


def test_fields_of_everything(everything: Path) -> None:
    data = everything.read_bytes()
    assert differences(in_stock_words(read(data).program), plain(stock_program(data))) == []


@pytest.mark.parametrize("name", CASES)
def test_fields_of_lowered_programs(name: str) -> None:
    data = lower(name, emit_stacktrace=True).buffer
    assert differences(in_stock_words(read(data).program), plain(stock_program(data))) == []


def test_fields_and_bytes_of_delegates(tmp_path: Path) -> None:
    program = delegated()
    data = program.buffer
    ours = read(data)
    assert differences(in_stock_words(ours.program), plain(stock_program(data))) == []
    restored = deserialize_pte_binary(data)
    inline = restored.program.backend_delegate_data
    for mine, theirs in zip(ours.program.methods, restored.program.execution_plan, strict=True):
        for our, their in zip(mine.delegates, theirs.delegates, strict=True):
            assert ours.segments[our.processed.index] == inline[their.processed.index].data
            assert [(s.key, s.value) for s in our.compile_specs] == [
                (s.key, bytes(s.value)) for s in their.compile_specs
            ]

    program.write_tensor_data_to_file(tmp_path)
    compare_tensor_data((tmp_path / "blas.ptd").read_bytes())


def test_bytes_of_constants_state_and_named_data(everything: Path) -> None:
    data = everything.read_bytes()
    ours, stock = read(data), deserialize_pte_binary(data)
    constants = [bytes(item.storage) for item in stock.program.constant_buffer]
    offsets = ours.program.constant_segment
    assert offsets and len(constants) == len(offsets.offsets) and any(constants)
    segment = bytes(ours.segments[offsets.segment_index])
    for start, constant in zip(offsets.offsets[1:], constants[1:], strict=True):
        assert segment[start : start + len(constant)] == constant
    assert stock.mutable_data and ours.program.mutable_segments
    (mutable,) = ours.program.mutable_segments
    assert bytes(ours.segments[mutable.segment_index]) == bytes(stock.mutable_data[-1].storage)
    named = {
        key: bytes(stock.named_data.buffers[entry.buffer_index])
        for key, entry in stock.named_data.pte_data.items()
    }
    assert named == {key: bytes(value) for key, value in ours.named_data.items()} != {}


def compare_tensor_data(data: bytes) -> None:
    ours = deserialize_tensor_data(data)
    stock = FlatTensorSerializer().deserialize(Cord(data))
    assert stock.named_data.keys() == ours.named_data.keys() != set()
    for item in ours.root.named_data:
        entry = stock.named_data[item.key]
        assert bytes(stock.buffers[entry.buffer_index]) == bytes(ours.named_data[item.key])
        assert (item.tensor_layout is None) == (entry.tensor_layout is None)
        if item.tensor_layout is not None:
            assert differences(plain(item.tensor_layout), plain(entry.tensor_layout)) == []


def test_tensor_data(everything: Path) -> None:
    compare_tensor_data(everything.with_suffix(".ptd").read_bytes())


def test_external_constants(tmp_path: Path) -> None:
    program = lower("constants", external_constants=True)
    program.write_tensor_data_to_file(tmp_path)
    (path,) = tmp_path.glob("*.ptd")
    compare_tensor_data(path.read_bytes())


def test_stock_runtime_describes_everything(everything: Path) -> None:
    stock = StockRuntime.get().load_program(
        everything, verification=StockVerification.InternalConsistency
    )
    ours = Runtime.get().load_program(everything)
    assert stock.method_names == ours.method_names == {"forward", "get_length"}
    for name in sorted(stock.method_names):
        theirs, mine = stock.metadata(name), ours.metadata(name)
        assert theirs.num_inputs() == mine.num_inputs()
        assert theirs.num_outputs() == mine.num_outputs()
        for kind, count in (("input", mine.num_inputs()), ("output", mine.num_outputs())):
            for index in range(count):
                info = getattr(mine, f"{kind}_meta")(index)
                if not hasattr(info, "sizes"):
                    continue
                other = getattr(theirs, f"{kind}_tensor_meta")(index)
                assert tuple(other.sizes()) == info.sizes()
                assert other.dtype() == int(info.dtype())
                assert other.nbytes() == info.nbytes()
                assert other.is_memory_planned() == info.is_memory_planned()


def test_stock_refuses_to_load_what_it_has_no_backend_for(tmp_path: Path) -> None:
    path = tmp_path / "delegated.pte"
    delegated().save(path)
    stock = StockRuntime.get().load_program(path)
    assert {"forward", "other", "length", "sizes", "name"} <= stock.method_names
    with pytest.raises(RuntimeError):
        stock.load_method("forward")
    assert torch.equal(torch.tensor(stock.load_method("length").execute([])), torch.tensor([128]))
