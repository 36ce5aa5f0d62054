"""Blobs by name: what backends put into a file beside their processed bytes.

    store = NamedDataStore()
    store.add_named_data("0fa1..._weight", weight, alignment=64)
    store.add_named_data("9b2c..._blob", packed, external_tag="aoti_cpu_blob")  # goes to a .ptd
    return PreprocessResult(..., data_store_output=store.get_named_data_store_output())

Keys are unique over everything that is loaded together. The same key with the same bytes may be
added again; equal bytes under several keys are stored once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from pteron.exir._serialize.blob import Blob, BytesLike
from pteron.exir._serialize.schema import TensorLayout


@dataclass(frozen=True)
class DataEntry:
    """Where the bytes of a key are.

    Attributes:
      buffer_index: into `NamedDataStoreOutput.buffers`.
      alignment: in bytes, as given when the key was first added; that of the buffer fits all.
      tensor_layout: dtype and shape, if the bytes are a tensor; None for an opaque blob.
    """

    buffer_index: int
    alignment: int
    tensor_layout: TensorLayout | None = None


@dataclass
class NamedDataStoreOutput:
    """All that a store holds.

    Attributes:
      buffers: distinct contents; each has the alignment that all its keys need.
      pte_data: key to entry, for the program file.
      external_data: tag to key to entry; each tag becomes one .ptd file.
    """

    buffers: list[Blob] = field(default_factory=list)
    pte_data: dict[str, DataEntry] = field(default_factory=dict)
    external_data: dict[str, dict[str, DataEntry]] = field(default_factory=dict)

    def entries(self) -> Iterator[tuple[str, DataEntry, str | None]]:
        """Key, entry and external tag (None: in the program file) of everything."""
        for key, entry in self.pte_data.items():
            yield key, entry, None
        for tag, entries in self.external_data.items():
            for key, entry in entries.items():
                yield key, entry, tag


class NamedDataStore:
    """Collects blobs by name. Not thread-safe."""

    def __init__(self) -> None:
        self._output = NamedDataStoreOutput()
        self._index_by_content: dict[Blob, int] = {}
        self._entry_by_key: dict[str, tuple[str | None, DataEntry]] = {}

    def add_named_data(
        self,
        key: str,
        data: BytesLike,
        alignment: int | None = 1,
        external_tag: str | None = None,
        tensor_layout: TensorLayout | None = None,
        *,
        digest: bytes | None = None,
    ) -> None:
        """Adds `data` under `key`.

        Args:
          key: its name.
          data: bytes, a buffer or a tensor; kept as a view, not copied.
          alignment: in bytes, of its start in the file.
          external_tag: name of the .ptd it goes to; None puts it into the program file.
          tensor_layout: dtype and shape, if it is a tensor.
          digest: SHA-256 of the bytes, if known already.

        Raises:
          ValueError: `key` is there with other bytes, another layout or in another file.
        """
        self._add(key, Blob(data, digest=digest), alignment or 1, external_tag, tensor_layout)

    def merge_named_data_store(self, other: NamedDataStoreOutput) -> None:
        """Adds everything of another store, under the same rules."""
        for key, entry, tag in other.entries():
            blob = other.buffers[entry.buffer_index]
            self._add(key, blob, blob.alignment, tag, entry.tensor_layout)

    def get_named_data_store_output(self) -> NamedDataStoreOutput:
        return self._output

    def _add(
        self,
        key: str,
        blob: Blob,
        alignment: int,
        tag: str | None,
        layout: TensorLayout | None,
    ) -> None:
        buffers = self._output.buffers
        known = self._entry_by_key.get(key)
        if known is not None:
            old_tag, old = known
            if buffers[old.buffer_index] != blob:
                raise ValueError(
                    f"named data {key!r} is there already with other bytes"
                    f" ({buffers[old.buffer_index].nbytes}, now {blob.nbytes})."
                    f" Derive keys from the content, or make them unique to the partition."
                )
            if old_tag != tag:
                raise ValueError(
                    f"named data {key!r} is to go to {_file_name(tag)}, but is in"
                    f" {_file_name(old_tag)} already; a key has one place."
                )
            if old.tensor_layout != layout:
                raise ValueError(
                    f"named data {key!r} has layout {old.tensor_layout} already, not {layout}"
                )
            buffers[old.buffer_index].align(alignment)
            return
        index = self._index_by_content.get(blob)
        if index is None:
            index = len(buffers)
            blob = Blob(blob.data, digest=blob.digest)
            buffers.append(blob)
            self._index_by_content[blob] = index
        buffers[index].align(alignment)
        entry = DataEntry(index, alignment, layout)
        self._entry_by_key[key] = (tag, entry)
        entries = (
            self._output.pte_data if tag is None else self._output.external_data.setdefault(tag, {})
        )
        entries[key] = entry


def _file_name(tag: str | None) -> str:
    return "the program file" if tag is None else f"external file {tag!r}"
