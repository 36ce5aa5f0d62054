"""The container around a FlatBuffers part: extended header, integrity table, padded segments.

One layout serves `.pte` and `.ptd`; `runtime/schema/README.md` shows it. Bulk data is never
joined: a file is a list of chunks that are written one after the other.
"""

import contextlib
import errno
import hashlib
import math
import os
import secrets
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pteron.exir._serialize.blob import Blob, JoinedBlob

SEGMENT_ALIGNMENT = 128
"""Every segment starts at a multiple of this many bytes of the file."""

_TABLE_MAGIC = b"PTI1"
_DIGEST_BYTES = 32


@dataclass(frozen=True)
class FileKind:
    """What differs between the two kinds of file.

    Attributes:
      identifier: of the FlatBuffers part.
      header_magic: of the extended header.
      number_count: how many u64 follow its length.
    """

    identifier: bytes
    header_magic: bytes
    number_count: int

    @property
    def table_offset(self) -> int:
        """Where the integrity table starts."""
        return 16 + 8 * self.number_count


PROGRAM = FileKind(b"ET12", b"eh00", 3)
"""Numbers: end of the FlatBuffers part, segment base, bytes of segments."""
TENSOR_DATA = FileKind(b"FT01", b"FH01", 4)
"""Numbers: inserted bytes, bytes of the FlatBuffers part, segment base, bytes of segments."""


def _round_up(value: int, alignment: int) -> int:
    return (value + alignment - 1) // alignment * alignment


def layout_segments(
    blobs: Sequence[Blob | JoinedBlob], alignment: int = SEGMENT_ALIGNMENT
) -> list[int]:
    """Offset of each blob from the segment base, each at its own alignment and the common one."""
    offsets, end = [], 0
    for blob in blobs:
        offset = _round_up(end, math.lcm(alignment, blob.alignment))
        offsets.append(offset)
        end = offset + blob.nbytes
    return offsets


class Chunks:
    """The bytes of a file, as views of other buffers, joined only by `tobytes`."""

    def __init__(self, pieces: list[memoryview]) -> None:
        self._pieces = pieces
        self.nbytes = sum(piece.nbytes for piece in pieces)

    def __iter__(self) -> Iterator[memoryview]:
        return iter(self._pieces)

    def tobytes(self) -> bytes:
        """All bytes in one object; for small files and tests."""
        return b"".join(self._pieces)

    def write_to(self, file: BinaryIO) -> None:
        for piece in self._pieces:
            file.write(piece)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the file whole or not at all, also where the process is killed meanwhile.

        OSError names the path and what to check; whatever was at `path` is then untouched.
        """
        target = Path(path)
        # Not of mkstemp(), whose files only their owner may read: the system applies the umask,
        # which a process can only ask for by changing it, in all its threads.
        temporary = target.parent / f".{target.name[:200]}.{secrets.token_hex(8)}.part"
        try:
            if target.is_dir():
                raise IsADirectoryError("it is a folder")
            with os.fdopen(_create(temporary), "wb") as file:
                self.write_to(file)
                file.flush()
                os.fsync(file.fileno())
                if not temporary.exists():
                    # Only with a descriptor does link() follow /proc's link to the file.
                    fd = file.fileno()
                    os.link(f"/proc/self/fd/{fd}", temporary, src_dir_fd=fd, follow_symlinks=True)
            os.replace(temporary, target)
        except OSError as error:
            reason = error.strerror or str(error)
            raise type(error)(
                f"cannot write {target} ({self.nbytes} bytes): {reason}. Check that the folder"
                f" exists, may be written to and has room; nothing was left behind."
            ) from error
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def _create(path: Path) -> int:
    """A new file's descriptor; the file has no name yet where the file system allows that."""
    try:
        return os.open(path.parent, os.O_WRONLY | os.O_TMPFILE, 0o666)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            raise
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)


class Container:
    """A file to be written: a FlatBuffers part and the segments after it."""

    def __init__(
        self,
        kind: FileKind,
        flatbuffer: bytes,
        segments: Sequence[Blob | JoinedBlob],
        alignment: int = SEGMENT_ALIGNMENT,
    ) -> None:
        self._kind = kind
        self._flatbuffer = flatbuffer
        self._segments = segments
        self._alignment = alignment

    def chunks(self) -> Chunks:
        """Puts the file together. Reads every segment once, for its digest."""
        kind = self._kind
        offsets = layout_segments(self._segments, self._alignment)
        segments_nbytes = offsets[-1] + self._segments[-1].nbytes if offsets else 0
        table_nbytes = 8 + _DIGEST_BYTES * (1 + len(self._segments))
        header_nbytes = kind.table_offset - 8 + table_nbytes
        inserted = _round_up(header_nbytes, 16)
        flatbuffer_end = len(self._flatbuffer) + inserted
        alignments = [math.lcm(self._alignment, blob.alignment) for blob in self._segments]
        base = _round_up(flatbuffer_end, math.lcm(*alignments)) if alignments else 0
        if kind is PROGRAM:
            numbers = [flatbuffer_end, base, segments_nbytes]
        else:
            numbers = [inserted, len(self._flatbuffer), base, segments_nbytes]

        head = bytearray(8 + inserted)
        # Every offset in a flatbuffer is relative, except that of the root table.
        (root,) = struct.unpack_from("<I", self._flatbuffer)
        struct.pack_into("<I4s4sI", head, 0, root + inserted, kind.identifier, kind.header_magic,
                         header_nbytes)  # fmt: skip
        struct.pack_into(f"<{kind.number_count}Q", head, 16, *numbers)
        struct.pack_into("<4sI", head, kind.table_offset, _TABLE_MAGIC, len(self._segments))
        rest = memoryview(self._flatbuffer)[8:]
        digest = hashlib.sha256(head)
        digest.update(rest)
        digests = b"".join([digest.digest(), *(blob.digest for blob in self._segments)])
        head[kind.table_offset + 8 : kind.table_offset + 8 + len(digests)] = digests

        pieces = [memoryview(head), rest]
        end = flatbuffer_end
        for blob, offset in zip(self._segments, offsets, strict=True):
            if blob.nbytes:
                pieces += [memoryview(bytes(base + offset - end)), *blob.pieces]
                end = base + offset + blob.nbytes
        # Segments without bytes at the end may start after it.
        if base + segments_nbytes > end:
            pieces.append(memoryview(bytes(base + segments_nbytes - end)))
        return Chunks([piece for piece in pieces if piece.nbytes])


@dataclass(frozen=True)
class OpenedContainer:
    """A parsed file.

    Attributes:
      flatbuffer: its FlatBuffers part, header included (offsets are valid unchanged).
      segment_base: where segment data starts.
      data: the whole file.
      digests: of the FlatBuffers part and of each segment; None if the file has none.
    """

    flatbuffer: memoryview
    segment_base: int
    data: memoryview
    digests: list[bytes] | None

    def segment(self, index: int, offset: int, size: int) -> memoryview:
        """The bytes of a segment, checked against the file's size and its digest."""
        start = self.segment_base + offset
        if start + size > self.data.nbytes:
            raise ValueError(
                f"segment {index} ends at byte {start + size} of a file of {self.data.nbytes}:"
                f" the file is truncated or damaged"
            )
        view = self.data[start : start + size]
        if self.digests is not None:
            if index + 1 >= len(self.digests):
                raise ValueError(f"segment {index} has no digest: the file is damaged")
            if hashlib.sha256(view).digest() != self.digests[index + 1]:
                raise ValueError(f"segment {index} is damaged: its digest differs")
        return view


def open_container(kind: FileKind, data: bytes | memoryview) -> OpenedContainer:
    """Parses a file. ValueError says what is wrong with it."""
    view = memoryview(data).cast("B")
    if view.nbytes < 16:
        raise ValueError(f"a file of {view.nbytes} bytes is too short to be a program")
    found = bytes(view[4:8])
    if found != kind.identifier:
        family = kind.identifier[:2]
        what = "another version of the format" if found[:2] == family else "another kind of file"
        raise ValueError(
            f"the file's identifier is {found!r}, not {kind.identifier!r}: this is {what}"
        )
    if bytes(view[8:12]) != kind.header_magic:
        return OpenedContainer(view, 0, view, None)
    (length,) = struct.unpack_from("<I", view, 12)
    minimum = kind.table_offset - 8
    if length < minimum - (8 if kind is PROGRAM else 0) or 8 + length > view.nbytes:
        raise ValueError(f"the file's extended header claims {length} bytes: the file is damaged")
    numbers = list(struct.unpack_from(f"<{kind.number_count}Q", view, 16))
    if kind is PROGRAM:
        flatbuffer_end, base = numbers[0], numbers[1]
    else:
        flatbuffer_end, base = numbers[0] + numbers[1], numbers[2]
    if max(flatbuffer_end, base) > view.nbytes:
        raise ValueError(
            f"the file should hold at least {max(flatbuffer_end, base)} bytes, but has"
            f" {view.nbytes}: it is truncated or damaged"
        )
    digests = None
    if bytes(view[kind.table_offset : kind.table_offset + 4]) == _TABLE_MAGIC and length > minimum:
        digests = _read_table(kind, view, flatbuffer_end)
    return OpenedContainer(view[:flatbuffer_end], base, view, digests)


def _read_table(kind: FileKind, view: memoryview, flatbuffer_end: int) -> list[bytes]:
    (count,) = struct.unpack_from("<I", view, kind.table_offset + 4)
    start = kind.table_offset + 8
    end = start + _DIGEST_BYTES * (count + 1)
    if end > flatbuffer_end:
        raise ValueError("the integrity table is longer than the header: the file is damaged")
    digests = [bytes(view[i : i + _DIGEST_BYTES]) for i in range(start, end, _DIGEST_BYTES)]
    digest = hashlib.sha256(view[:start])
    digest.update(bytes(end - start))
    digest.update(view[end:flatbuffer_end])
    if digest.digest() != digests[0]:
        raise ValueError("the FlatBuffers part is damaged: its digest differs")
    return digests
