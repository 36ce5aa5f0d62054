"""A profile as ExecuTorch's ETDump, for its Inspector.

    Inspector(etdump_path="a.etdp", delegate_metadata_parser=lambda texts: json.loads(texts[0]))

Each row is an event with an instruction id of its own: of events with one id and name, the
Inspector keeps one. Events inside delegates are delegated operators, with metadata: JSON with
`kind`, `op`, `module`, `source` and `shapes`. Times are in nanoseconds.
"""

import json
from typing import Any

import flatbuffers

from pteron.exir._serialize.container import Chunks
from pteron.runtime import Profile

_INSTRUCTIONS = ("method", "delegate", "kernel", "move", "jump")  # the others are in delegates
_METADATA = ("kind", "op", "module", "source", "shapes")


def etdump(profile: Profile, method: str) -> Chunks:
    """The file, by the field numbers of ExecuTorch's `etdump_schema_flatcc.fbs`."""
    builder = flatbuffers.Builder()
    events = [_event(builder, index, row) for index, row in enumerate(profile.rows)]
    builder.StartVector(4, len(events), 4)
    for event in reversed(events):
        builder.PrependUOffsetTRelative(event)
    vector = builder.EndVector()
    run = _table(builder, 4, {0: builder.CreateString(method), 3: vector})
    builder.StartVector(4, 1, 4)
    builder.PrependUOffsetTRelative(run)
    builder.FinishSizePrefixed(_table(builder, 2, {1: builder.EndVector()}), b"ED00")
    return Chunks([memoryview(bytes(builder.Output()))])


def _event(builder: Any, index: int, row: dict[str, Any]) -> int:
    is_instruction = row["kind"] in _INSTRUCTIONS
    name = "Method::execute" if row["kind"] == "method" else row["name"]
    offsets = {0: builder.CreateString(name)}
    if not is_instruction:
        metadata = json.dumps({key: row[key] for key in _METADATA})
        offsets |= {4: offsets[0], 5: builder.CreateByteVector(metadata.encode())}
    start = round(1000 * row["start_us"])
    end = start + round(1000 * row["dur_us"])
    builder.StartObject(8)
    for field, offset in offsets.items():
        builder.PrependUOffsetTRelativeSlot(field, offset, 0)
    builder.PrependInt32Slot(2, index, -1)
    builder.PrependUint64Slot(6, start, 0)
    builder.PrependUint64Slot(7, end, 0)
    return _table(builder, 3, {0: builder.EndObject()})


def _table(builder: Any, fields: int, offsets: dict[int, int]) -> int:
    builder.StartObject(fields)
    for field, offset in offsets.items():
        builder.PrependUOffsetTRelativeSlot(field, offset, 0)
    return int(builder.EndObject())
