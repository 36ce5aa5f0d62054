"""A tensor-data file (.ptd): named blobs and constants that are stored beside the program file."""

from collections.abc import Mapping
from dataclasses import dataclass

from pteron.exir._serialize import schema
from pteron.exir._serialize.blob import Blob
from pteron.exir._serialize.container import (
    SEGMENT_ALIGNMENT,
    TENSOR_DATA,
    Chunks,
    Container,
    layout_segments,
    open_container,
)
from pteron.exir._serialize.flatbuffer import from_flatbuffer, to_flatbuffer
from pteron.exir._serialize.named_data_store import NamedDataStoreOutput


def serialize_tensor_data(
    data: NamedDataStoreOutput,
    external_tag: str,
    *,
    segment_alignment: int = SEGMENT_ALIGNMENT,
) -> Chunks:
    """Puts the file of one external tag together. The same data always gives the same bytes."""
    segments: list[Blob] = []
    segment_by_buffer: dict[int, int] = {}
    entries = []
    for key, entry in data.external_data[external_tag].items():
        if entry.buffer_index not in segment_by_buffer:
            segment_by_buffer[entry.buffer_index] = len(segments)
            segments.append(data.buffers[entry.buffer_index])
        entries.append(
            schema.TensorDataEntry(key, segment_by_buffer[entry.buffer_index], entry.tensor_layout)
        )
    root = schema.TensorData(
        segments=[
            schema.TensorDataSegment(offset, blob.nbytes)
            for offset, blob in zip(
                layout_segments(segments, segment_alignment), segments, strict=True
            )
        ],
        named_data=sorted(entries, key=lambda item: item.key),
    )
    flatbuffer = to_flatbuffer(root, TENSOR_DATA.identifier)
    return Container(TENSOR_DATA, flatbuffer, segments, segment_alignment).chunks()


@dataclass(frozen=True)
class TensorDataFile:
    """A tensor-data file, read.

    Attributes:
      root: as in the file.
      named_data: key to bytes, views of the file's bytes.
    """

    root: schema.TensorData
    named_data: Mapping[str, memoryview]


def deserialize_tensor_data(data: bytes | memoryview) -> TensorDataFile:
    """Reads a tensor-data file and checks its digests. ValueError says what is wrong."""
    opened = open_container(TENSOR_DATA, data)
    root = from_flatbuffer(schema.TensorData, bytes(opened.flatbuffer))
    segments = [
        opened.segment(index, segment.offset, segment.size)
        for index, segment in enumerate(root.segments)
    ]
    named = {item.key: segments[item.segment_index] for item in root.named_data}
    return TensorDataFile(root, named)
