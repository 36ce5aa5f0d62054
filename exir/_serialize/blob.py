"""Bytes that are written to a file without a copy.

    blob = Blob(model.weight)     # also bytes, memoryview, mmap, numpy arrays
    blob.digest                   # SHA-256, computed once

A blob is a view of its source, which must not change until the file is written.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import torch

BytesLike: TypeAlias = Any
"""A torch tensor, or anything with the buffer protocol (bytes, memoryview, mmap, numpy arrays)."""


def _tensor_view(tensor: torch.Tensor) -> memoryview:
    import torch

    tensor = tensor.detach().cpu().contiguous()
    if tensor.numel() == 0:
        return memoryview(b"")
    return memoryview(tensor.reshape(-1).view(torch.uint8).numpy())  # type: ignore[arg-type] # for numpy's types, from 3.12


def as_bytes_view(data: BytesLike) -> memoryview:
    """The bytes of `data` in memory order, read-only and flat. Copies only what is not dense."""
    if hasattr(data, "untyped_storage"):
        view = _tensor_view(data)
    else:
        view = memoryview(data)
        if not view.c_contiguous:
            raise ValueError("the bytes of a blob must be contiguous")
        # cast() refuses views with a zero in their shape
        view = view.cast("B") if view.nbytes else memoryview(b"")
    return view.toreadonly()


class Blob:
    """Immutable bytes with an alignment. Two blobs of equal content and size are equal."""

    __slots__ = ("_digest", "alignment", "data")

    def __init__(self, data: BytesLike, alignment: int = 1, digest: bytes | None = None) -> None:
        """`digest` is the SHA-256 of `data` where the caller knows it already."""
        if alignment < 1:
            raise ValueError(f"alignment must be at least 1, not {alignment}")
        self.data = as_bytes_view(data)
        self.alignment = alignment
        self._digest = digest

    @property
    def nbytes(self) -> int:
        return self.data.nbytes

    @property
    def digest(self) -> bytes:
        """SHA-256 of the bytes."""
        if self._digest is None:
            self._digest = hashlib.sha256(self.data).digest()
        return self._digest

    @property
    def pieces(self) -> list[memoryview]:
        """The bytes, as they are written one after the other."""
        return [self.data]

    def align(self, alignment: int) -> None:
        """Makes the blob fit `alignment` too."""
        self.alignment = math.lcm(self.alignment, alignment)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Blob):
            return NotImplemented
        return self is other or (self.nbytes == other.nbytes and self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)


class JoinedBlob:
    """Several blobs as one, each at its offset with zeros between. Nothing is copied."""

    def __init__(self, blobs: list[Blob], offsets: list[int]) -> None:
        self.alignment = 1
        self.pieces: list[memoryview] = []
        self.nbytes = 0
        hasher = hashlib.sha256()
        for blob, offset in zip(blobs, offsets, strict=True):
            for piece in (memoryview(bytes(offset - self.nbytes)), blob.data):
                hasher.update(piece)
                self.pieces.append(piece)
            self.nbytes = offset + blob.nbytes
        self.digest = hasher.digest()
