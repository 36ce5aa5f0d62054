"""Files: what is written is read again, damage is found, nothing is half-written."""

import dataclasses
import errno
import hashlib
import os
import signal
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pteron.runtime.schema.program_generated as program_generated
from pteron.exir._serialize import schema
from pteron.exir._serialize.blob import Blob, JoinedBlob
from pteron.exir._serialize.named_data_store import NamedDataStore
from pteron.exir._serialize.program_file import (
    EXTERNAL_DIGESTS,
    ProgramData,
    deserialize_program,
    serialize_program,
)
from pteron.exir._serialize.tensor_data_file import deserialize_tensor_data, serialize_tensor_data


def everything() -> ProgramData:
    """A program with every kind of value, instruction and segment."""
    values = [
        schema.Null(),
        schema.Int(-3),
        schema.Bool(True),
        schema.Double(2.5),
        schema.String("täxt"),
        schema.IntList([1, 1]),
        schema.DoubleList([0.5, -1.0]),
        schema.BoolList([True, False]),
        schema.Tensor(6, sizes=[2, 3], dim_order=[0, 1], data_index=1),
        schema.Tensor(4, sizes=[], dim_order=[], allocation=schema.AllocationInfo.at(1, 1 << 33)),
        schema.Tensor(
            5,
            sizes=[1, 4, 2, 2],
            dim_order=[0, 2, 3, 1],
            data_index=1,
            shape_dynamism=schema.ShapeDynamism.DYNAMIC_BOUND,
            allocation=schema.AllocationInfo.at(2, 64),
            extra=schema.ExtraTensorInfo(fully_qualified_name="layer.cache"),
        ),
        schema.Tensor(
            15,
            sizes=[1],
            dim_order=[0],
            extra=schema.ExtraTensorInfo(0, "w", schema.TensorLocation.EXTERNAL),
        ),
        schema.Tensor(
            6,
            sizes=[1],
            dim_order=[0],
            allocation=schema.AllocationInfo.at(3, 0),
            extra=schema.ExtraTensorInfo(device_type=schema.DeviceType.CUDA, device_index=1),
        ),
        schema.TensorList([8, 9]),
        schema.OptionalTensorList([-1, 8]),
    ]
    calls = [
        schema.KernelCall(0, [8, 9, 9]),
        schema.DelegateCall(0, [8, 9]),
        schema.MoveCall(1, 1),
        schema.JumpFalseCall(2, 5),
        schema.FreeCall(9),
    ]
    frame = schema.Frame("model.py", 41, "forward", "return x")
    chain = schema.Chain(
        instructions=[schema.Instruction(call) for call in calls],
        stacktrace=[schema.FrameList([frame])] + [schema.FrameList()] * 4,
    )
    method = schema.Method(
        name="forward",
        container_types=schema.ContainerTypes("[1, {}]", "", ["x"], ["y", "n"]),
        values=[schema.EValue(value) for value in values],
        inputs=[8],
        outputs=[9, 1],
        chains=[chain],
        operators=[schema.Operator("aten::add", "out"), schema.Operator("aten::relu", "")],
        delegates=[
            schema.Delegate(
                "B",
                schema.DelegateData(schema.DelegateDataLocation.SEGMENT, 0),
                [schema.CompileSpec("key", b"\x00\xff")],
            ),
            schema.Delegate("C", schema.DelegateData(schema.DelegateDataLocation.INLINE, 0)),
        ],
        buffer_sizes=[0, 1 << 34, 128, 64],
        buffer_devices=[schema.BufferDevice(3, schema.DeviceType.CUDA, 1)],
    )
    store = NamedDataStore()
    store.add_named_data("b", b"blob" * 100, alignment=256)
    store.add_named_data("a", b"blob" * 100)
    store.add_named_data("c", b"")
    store.add_named_data("elsewhere", b"1234", external_tag="outside")
    program = schema.Program(methods=[method], inline_delegate_data=[schema.InlineBytes(b"")])
    return ProgramData(
        program,
        constants=[Blob(np.arange(6, dtype=np.float32)), Blob(b"x" * 7)],
        mutable_data=[Blob(torch.ones(16, dtype=torch.float16))],
        delegate_data=[Blob(b"processed")],
        named_data=store.get_named_data_store_output(),
    )


def test_round_trip() -> None:
    data = everything()
    file = deserialize_program(serialize_program(data).tobytes())
    (method,) = file.program.methods
    first = method.delegates[0].processed.index
    assert bytes(file.segments[first]) == b"processed"
    method.delegates[0].processed.index = 0
    assert method == data.program.methods[0]
    assert file.named_data.keys() == {"a", "b", "c", EXTERNAL_DIGESTS}
    assert bytes(file.named_data["a"]) == bytes(file.named_data["b"]) == b"blob" * 100
    assert bytes(file.named_data["c"]) == b""
    constant = method.values[8].value
    assert np.frombuffer(file.constant(constant, 24), np.float32).tolist() == list(range(6))
    state = method.values[10].value
    assert bytes(file.constant(state, 32)) == np.ones(16, np.float16).tobytes()


def test_every_value_and_instruction_is_covered() -> None:
    (method,) = everything().program.methods
    kinds = {type(value.value).__name__ for value in method.values}
    assert kinds == {k.__name__ for k in schema.Value.__args__}  # type: ignore[attr-defined]
    calls = {type(item.call) for item in method.chains[0].instructions}
    assert calls == set(schema.InstructionCall.__args__)  # type: ignore[attr-defined]


def test_generated_classes_read_the_file() -> None:
    """Independently of our translation: what the schema compiler's accessors see."""
    buffer = serialize_program(everything()).tobytes()
    assert program_generated.Program.ProgramBufferHasIdentifier(buffer, 0)
    program = program_generated.Program.GetRootAs(buffer, 0)
    method = program.Methods(0)
    assert method.Name() == b"forward"
    assert method.BufferSizesAsNumpy().tolist() == [0, 1 << 34, 128, 64]
    assert [method.Values(i).ValueType() for i in range(method.ValuesLength())] == [
        1, 2, 3, 4, 6, 7, 8, 9, 5, 5, 5, 5, 5, 10, 11
    ]  # fmt: skip
    assert program.ConstantSegment().OffsetsAsNumpy().tolist() == [0, 0, 64]
    assert program.NamedDataLength() == 4


def test_header_and_alignment() -> None:
    buffer = serialize_program(everything()).tobytes()
    magic, length, end, base, size = struct.unpack_from("<4sIQQQ", buffer, 8)
    assert magic == b"eh00"
    assert base + size == len(buffer)
    file = deserialize_program(buffer)
    segments = file.program.segments
    assert length == 32 + 8 + 32 * (1 + len(segments))
    assert base % 256 == 0 and end <= base
    for segment in segments:
        assert (base + segment.offset) % 128 == 0
    assert [s.offset for s in segments] == sorted(s.offset for s in segments)
    index = next(n.segment_index for n in file.program.named_data if n.key == "a")
    assert (base + segments[index].offset) % 256 == 0
    # The integrity table, as its description says.
    table = 8 + 32
    assert buffer[table : table + 8] == b"PTI1" + struct.pack("<I", len(segments))
    for i, segment in enumerate(segments):
        start = base + segment.offset
        digest = hashlib.sha256(buffer[start : start + segment.size]).digest()
        assert buffer[table + 40 + 32 * i :][:32] == digest
    zeroed = bytearray(buffer[:end])
    zeroed[table + 8 : table + 40 + 32 * len(segments)] = bytes(32 * (1 + len(segments)))
    assert buffer[table + 8 : table + 40] == hashlib.sha256(zeroed).digest()


def test_same_data_same_bytes() -> None:
    assert serialize_program(everything()).tobytes() == serialize_program(everything()).tobytes()


def test_program_without_data() -> None:
    method = schema.Method(name="m", chains=[schema.Chain()], buffer_sizes=[0])
    chunks = serialize_program(ProgramData(schema.Program(methods=[method])))
    file = deserialize_program(chunks.tobytes())
    assert file.program.methods[0].name == "m"
    assert file.program.named_data is None and file.program.mutable_segments is None


def test_every_flipped_bit_is_found() -> None:
    buffer = serialize_program(everything()).tobytes()
    file = deserialize_program(buffer)
    base = struct.unpack_from("<Q", buffer, 24)[0]
    checked = set(range(struct.unpack_from("<Q", buffer, 16)[0]))
    for segment in file.program.segments:
        checked.update(range(base + segment.offset, base + segment.offset + segment.size))
    # What says whether there are digests at all cannot be covered by them.
    header = {*range(8, 16), *range(40, 44)}
    for position in sorted(checked - header):
        damaged = bytearray(buffer)
        damaged[position] ^= 1 << position % 8
        with pytest.raises(ValueError):
            deserialize_program(bytes(damaged))


def test_truncated_file_is_found() -> None:
    buffer = serialize_program(everything()).tobytes()
    for length in (0, 3, 15, 40, 100, len(buffer) // 2, len(buffer) - 1):
        with pytest.raises(ValueError):
            deserialize_program(buffer[:length])


def test_other_files_are_told_apart() -> None:
    buffer = bytearray(serialize_program(everything()).tobytes())
    buffer[4:8] = b"ET13"
    with pytest.raises(ValueError, match="another version of the format"):
        deserialize_program(bytes(buffer))
    buffer[4:8] = b"\x7fELF"
    with pytest.raises(ValueError, match="another kind of file"):
        deserialize_program(bytes(buffer))


def test_tensor_data_round_trip() -> None:
    store = NamedDataStore()
    layout = schema.TensorLayout(6, [2, 3], [0, 1])
    store.add_named_data("w", torch.ones(2, 3), 64, "weights", tensor_layout=layout)
    store.add_named_data("blob", b"opaque", 512, "weights")
    store.add_named_data("other", b"x", 1, "elsewhere")
    output = store.get_named_data_store_output()
    buffer = serialize_tensor_data(output, "weights").tobytes()
    assert buffer[4:12] == b"FT01FH01"
    file = deserialize_tensor_data(buffer)
    assert file.named_data.keys() == {"w", "blob"}
    assert bytes(file.named_data["w"]) == np.ones(6, np.float32).tobytes()
    layouts = {entry.key: entry.tensor_layout for entry in file.root.named_data}
    assert layouts == {"w": layout, "blob": None}
    _, inserted, size, base, data = struct.unpack_from("<IQQQQ", buffer, 12)
    assert base + data == len(buffer) and inserted + size <= base and base % 512 == 0
    damaged = bytearray(buffer)
    damaged[-1] ^= 1
    with pytest.raises(ValueError, match="segment 1 is damaged"):
        deserialize_tensor_data(bytes(damaged))


def test_save_is_all_or_nothing(tmp_path: Path) -> None:
    chunks = serialize_program(everything())
    target = tmp_path / "model.pte"
    target.write_bytes(b"before")
    chunks.save(target)
    assert target.read_bytes() == chunks.tobytes()
    with pytest.raises(OSError, match=r"cannot write .*missing/model.pte \(\d+ bytes\): No such"):
        chunks.save(tmp_path / "missing" / "model.pte")
    with pytest.raises(OSError, match="Not a directory"):
        chunks.save(target / "model.pte")
    (tmp_path / "folder.pte").mkdir()
    with pytest.raises(OSError, match="it is a folder"):
        chunks.save(tmp_path / "folder.pte")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder.pte", "model.pte"]


def test_a_saved_file_is_complete_and_as_readable_as_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = serialize_program(everything())
    target = tmp_path / "model.pte"
    before = os.umask(0o027)
    steps: list[str] = []

    def step(name: str, function: Callable[..., Any]) -> None:
        def noted(*args: Any) -> Any:
            steps.append(name)
            return function(*args)

        monkeypatch.setattr(os, name, noted)

    try:
        step("fsync", os.fsync)
        step("replace", os.replace)
        step("umask", os.umask)
        chunks.save(target)
    finally:
        monkeypatch.undo()
        os.umask(before)
    assert steps == ["fsync", "replace"]  # umask() would be seen by all threads
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_write_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    chunks = serialize_program(everything())
    target = tmp_path / "model.pte"
    target.write_bytes(b"before")
    child = os.fork()
    if child == 0:
        try:

            def write_to(file: Any) -> None:
                file.write(next(iter(chunks)))
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)

            chunks.write_to = write_to  # type: ignore[method-assign]
            chunks.save(target)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert [p.name for p in tmp_path.iterdir()] == ["model.pte"]
    assert target.read_bytes() == b"before"


def test_a_file_system_without_nameless_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = serialize_program(everything())
    opened = os.open

    def open_named(path: Any, flags: int, *args: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return opened(path, flags, *args)

    monkeypatch.setattr(os, "open", open_named)
    chunks.save(tmp_path / "model.pte")
    assert [p.name for p in tmp_path.iterdir()] == ["model.pte"]
    assert (tmp_path / "model.pte").read_bytes() == chunks.tobytes()


def test_a_name_as_long_as_names_can_be(tmp_path: Path) -> None:
    chunks = serialize_program(everything())
    chunks.save(tmp_path / ("m" * 251 + ".pte"))
    assert len(list(tmp_path.iterdir())) == 1


def test_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = serialize_program(everything())
    target = tmp_path / "model.pte"
    target.write_bytes(b"before")

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(chunks), "write_to", full)
    with pytest.raises(OSError, match="No space left on device"):
        chunks.save(target)
    assert target.read_bytes() == b"before"
    assert [p.name for p in tmp_path.iterdir()] == ["model.pte"]


def test_named_data_rules() -> None:
    store = NamedDataStore()
    store.add_named_data("key", b"one", alignment=4)
    store.add_named_data("key", bytearray(b"one"), alignment=6)
    store.add_named_data("same", memoryview(b"one"))
    output = store.get_named_data_store_output()
    assert [blob.alignment for blob in output.buffers] == [12]
    with pytest.raises(ValueError, match="'key' is there already with other bytes"):
        store.add_named_data("key", b"two")
    with pytest.raises(ValueError, match="is in the program file already; a key has one place"):
        store.add_named_data("key", b"one", external_tag="out")
    other = NamedDataStore()
    other.merge_named_data_store(output)
    other.add_named_data("out", b"one", external_tag="out")
    merged = other.get_named_data_store_output()
    assert [blob.alignment for blob in merged.buffers] == [12]
    assert merged.external_data["out"]["out"].buffer_index == 0
    assert [blob.alignment for blob in output.buffers] == [12]


def test_blobs_borrow() -> None:
    tensor = torch.zeros(4)
    blob = Blob(tensor)
    tensor[0] = 1
    assert bytes(blob.data) == np.array([1, 0, 0, 0], np.float32).tobytes()
    assert Blob(torch.ones(3, dtype=torch.bfloat16)).nbytes == 6
    assert Blob(torch.empty(0, 3)).nbytes == 0
    assert Blob(np.empty((0, 3))).nbytes == 0
    with pytest.raises(ValueError, match="contiguous"):
        Blob(np.zeros((4, 4))[:, ::2])
    with pytest.raises(ValueError, match="alignment"):
        Blob(b"", alignment=0)


def test_joined_blobs() -> None:
    joined = JoinedBlob([Blob(b"ab"), Blob(b""), Blob(b"c")], [0, 4, 4])
    assert b"".join(joined.pieces) == b"ab\0\0c" and joined.nbytes == 5
    assert joined.digest == hashlib.sha256(b"ab\0\0c").digest()


def test_schema_has_the_fields_of_the_generated_classes() -> None:
    for cls in vars(schema).values():
        if dataclasses.is_dataclass(cls):
            generated = getattr(program_generated, cls.__name__ + "T", None)
            if generated is None:
                continue
            ours = {f.name.replace("_", "").lower() for f in dataclasses.fields(cls)}
            theirs = {name.lower() for name in vars(generated())}
            assert theirs - ours <= {"valuetype", "calltype"} and ours <= theirs, cls
