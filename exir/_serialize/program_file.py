"""A program file (.pte): from an emitted program to bytes, and back.

chunks = serialize_program(ProgramData(program, constants, ...))
chunks.save("model.pte")
data = deserialize_program(Path("model.pte").read_bytes())
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from pteron.exir._serialize import schema
from pteron.exir._serialize.blob import Blob, JoinedBlob
from pteron.exir._serialize.container import (
    PROGRAM,
    SEGMENT_ALIGNMENT,
    Chunks,
    Container,
    layout_segments,
    open_container,
)
from pteron.exir._serialize.flatbuffer import from_flatbuffer, to_flatbuffer
from pteron.exir._serialize.named_data_store import NamedDataStoreOutput

CONSTANT_ALIGNMENT = 64
"""Of each constant within the constant segment: what vector loads and BLAS like."""

EXTERNAL_DIGESTS = "external_sha256"
"""Named data: the digests of data in other files."""


@dataclass
class ProgramData:
    """A program and the bytes that it refers to.

    Attributes:
      program: methods; its segments are filled in by `serialize_program`.
      constants: contents of `Tensor.data_index` 1, 2, ... of tensors without allocation.
      mutable_data: likewise of tensors with allocation: initial values.
      delegate_data: contents of `DelegateData.index` where the location is a segment.
      named_data: keys and blobs of the program file (external ones are ignored here).
    """

    program: schema.Program
    constants: list[Blob] = field(default_factory=list)
    mutable_data: list[Blob] = field(default_factory=list)
    delegate_data: list[Blob] = field(default_factory=list)
    named_data: NamedDataStoreOutput = field(default_factory=NamedDataStoreOutput)


def serialize_program(
    data: ProgramData,
    *,
    segment_alignment: int = SEGMENT_ALIGNMENT,
    constant_alignment: int = CONSTANT_ALIGNMENT,
) -> Chunks:
    """Puts a program file together. The same data always gives the same bytes.

    Segments are: constants, initial values, delegates' data, named data. Bytes are not copied.
    """
    segments: list[Blob | JoinedBlob] = []
    constant_segment = _join(segments, data.constants, constant_alignment)
    mutable_segments = None
    if data.mutable_data:
        mutable_segments = [_join(segments, data.mutable_data, 1)]
    first_delegate = len(segments)
    segments += data.delegate_data
    segment_by_buffer: dict[int, int] = {}
    named_data = []
    for key, entry in data.named_data.pte_data.items():
        if entry.buffer_index not in segment_by_buffer:
            segment_by_buffer[entry.buffer_index] = len(segments)
            segments.append(data.named_data.buffers[entry.buffer_index])
        named_data.append(schema.NamedData(key, segment_by_buffer[entry.buffer_index]))

    if data.named_data.external_data:
        named_data.append(schema.NamedData(EXTERNAL_DIGESTS, len(segments)))
        segments.append(_external_digests(data.named_data))

    offsets = layout_segments(segments, segment_alignment)
    program = schema.Program(
        version=data.program.version,
        methods=[_shift_delegates(m, first_delegate) for m in data.program.methods],
        inline_delegate_data=data.program.inline_delegate_data,
        segments=[
            schema.Segment(offset, blob.nbytes)
            for offset, blob in zip(offsets, segments, strict=True)
        ],
        constant_segment=constant_segment,
        mutable_segments=mutable_segments,
        named_data=sorted(named_data, key=lambda item: item.key) or None,
    )
    flatbuffer = to_flatbuffer(program, PROGRAM.identifier)
    return Container(PROGRAM, flatbuffer, segments, segment_alignment).chunks()


def _external_digests(named_data: NamedDataStoreOutput) -> Blob:
    """SHA-256 of everything that goes to other files, by key (runtime/schema/README.md)."""
    digests = {
        key.encode(): named_data.buffers[entry.buffer_index].digest
        for key, entry, tag in named_data.entries()
        if tag is not None
    }
    return Blob(
        b"".join(
            struct.pack("<I", len(key)) + key + digest for key, digest in sorted(digests.items())
        )
    )


def _join(
    segments: list[Blob | JoinedBlob], blobs: list[Blob], alignment: int
) -> schema.SegmentOffsets:
    """Adds `blobs` as one segment; its offsets have the placeholder at 0."""
    offsets = layout_segments(blobs, alignment)
    segments.append(JoinedBlob(blobs, offsets))
    return schema.SegmentOffsets(len(segments) - 1, [0, *offsets])


def _shift_delegates(method: schema.Method, first_segment: int) -> schema.Method:
    """The method with delegates' data at segments from `first_segment` on."""

    def shifted(delegate: schema.Delegate) -> schema.Delegate:
        data = delegate.processed
        if data.location == schema.DelegateDataLocation.INLINE:
            return delegate
        data = schema.DelegateData(data.location, data.index + first_segment)
        return schema.Delegate(delegate.id, data, delegate.compile_specs)

    return schema.Method(
        **{
            **vars(method),
            "delegates": [shifted(delegate) for delegate in method.delegates],
        }
    )


@dataclass(frozen=True)
class ProgramFile:
    """A program file, read.

    Attributes:
      program: as in the file; indices of delegates' data are segment indices.
      segments: bytes of each segment, views of the file's bytes.
      named_data: key to bytes.
    """

    program: schema.Program
    segments: list[memoryview]
    named_data: Mapping[str, memoryview]

    def constant(self, tensor: schema.Tensor, nbytes: int) -> memoryview:
        """The bytes of a constant tensor, or the initial value of a planned one."""
        segment = self.program.constant_segment
        if tensor.allocation is not None:
            assert self.program.mutable_segments is not None
            segment = self.program.mutable_segments[0]
        assert segment is not None and tensor.data_index > 0
        offset = segment.offsets[tensor.data_index]
        return self.segments[segment.segment_index][offset : offset + nbytes]


def deserialize_program(data: bytes | memoryview) -> ProgramFile:
    """Reads a program file and checks its digests. ValueError says what is wrong."""
    opened = open_container(PROGRAM, data)
    program = from_flatbuffer(schema.Program, bytes(opened.flatbuffer))
    segments = [
        opened.segment(index, segment.offset, segment.size)
        for index, segment in enumerate(program.segments)
    ]
    named = {item.key: segments[item.segment_index] for item in program.named_data or ()}
    return ProgramFile(program, segments, named)
