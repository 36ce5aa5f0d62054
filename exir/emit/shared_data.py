"""Data that the methods of a program share in its file."""

from dataclasses import dataclass, field

from pteron.exir._serialize.blob import Blob
from pteron.exir._serialize.named_data_store import NamedDataStore


@dataclass
class SharedData:
    """Data stored once for all methods of a program."""

    named_data: NamedDataStore = field(default_factory=NamedDataStore)
    constants: dict[Blob, int] = field(default_factory=dict)
    mutable_data: dict[Blob, int] = field(default_factory=dict)
    delegate_data: dict[Blob, int] = field(default_factory=dict)
    inline_delegate_data: dict[bytes, int] = field(default_factory=dict)

    def constant_index(self, blob: Blob) -> int:
        """`Tensor.data_index` of a constant with these bytes."""
        return self.constants.setdefault(blob, len(self.constants)) + 1
