"""Damaged and exchanged files: what each level of verification takes; Required takes none.

With PTERON_EVERY_BYTE=1 (--test_env), each byte of the files is changed: half an hour.
"""

import itertools
import os
import random
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import pteron
from pteron.exir._serialize import schema
from pteron.exir._serialize.container import PROGRAM, TENSOR_DATA, open_container
from pteron.exir._serialize.flatbuffer import from_flatbuffer
from pteron.exir._serialize.tensor_data_file import deserialize_tensor_data
from pteron.runtime import PteronError, Runtime, Verification

_X = torch.ones(2, 4)
_AT_LEAST_DEFAULT = [v for v in Verification if v != Verification.Minimal]


class Model(nn.Module):
    """Weights of a delegate, a constant of the program and state."""

    table: torch.Tensor
    state: torch.Tensor

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.linear = nn.Linear(4, 4)
        self.register_buffer("table", torch.randn(4))
        self.register_buffer("state", torch.zeros(2, 4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.state.add_(x)
        return torch.relu(self.linear(x)) + self.state, self.table


def _written(folder: Path, name: str, seed: int, **options: Any) -> tuple[bytes, bytes]:
    """A program and its weights, lowered by `options`."""
    files = pteron.export(Model(seed).eval(), (_X,), folder / f"{name}.pte", **options).files
    (beside,) = [path for path in files if str(path).endswith(".ptd")]
    return (folder / f"{name}.pte").read_bytes(), Path(beside).read_bytes()


_FORMS: dict[str, dict[str, Any]] = {
    "weights of a delegate": {"options": {"cpu.save_data_externally": True}},
    "constants": {"config": pteron.ExecutorchBackendConfig(external_constants=True)},
}


@pytest.fixture(scope="module", params=_FORMS)
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two models of equal shapes: (program, weights) of each."""
    folder = tmp_path_factory.mktemp("files")
    form = _FORMS[request.param]
    return [_written(folder, f"model{seed}", seed, **form) for seed in (1, 2)]


def _load(program: bytes, data: bytes | None, verification: Verification) -> Any:
    return Runtime.get().load_program(program, data_path=data, verification=verification)


def _outputs(program: Any) -> list[bytes]:
    found = program.load_method("forward").execute([_X])
    return [torch.from_dlpack(value).numpy().tobytes() for value in found]


@pytest.mark.parametrize("verification", Verification)
def test_whole_files_are_taken(files: Any, verification: Verification) -> None:
    program, data = files[0]
    found = _outputs(_load(program, data, verification))
    assert found[1] == Model(1).table.numpy().tobytes()


@pytest.mark.parametrize("which", [0, 1], ids=["program", "weights"])
def test_no_changed_byte_is_taken_where_digests_are_required(files: Any, which: int) -> None:
    """Each of the first 8 kB, every 16th between segments, and 2,000 others; or each."""
    whole = files[0]
    draw = random.Random(which)
    taken = []
    changed = [bytearray(data) for data in whole]
    victim = changed[which]
    between = [i for i in range(8192, len(victim)) if not any(victim[i - 8 : i + 8])]
    others = draw.sample(range(8192, len(victim)), min(2000, max(len(victim) - 8192, 0)))
    offsets = [*range(min(8192, len(victim))), *between[::16], *others]
    if os.environ.get("PTERON_EVERY_BYTE"):
        offsets = list(range(len(victim)))
    for offset in offsets:
        for flip in (0xFF, 1 << draw.randrange(8)):
            victim[offset] ^= flip
            try:
                _load(bytes(changed[0]), bytes(changed[1]), Verification.Required)
                taken.append(offset)
            except PteronError:
                pass
            victim[offset] ^= flip
    assert not taken
    assert tuple(map(bytes, changed)) == whole


@pytest.mark.parametrize("which", [0, 1], ids=["program", "weights"])
def test_appended_truncated_and_without_digests(files: Any, which: int) -> None:
    whole = files[0][which]
    table = (40, 48)[which]
    assert whole[table : table + 4] == b"PTI1"
    without = bytearray(whole)
    (nbytes,) = struct.unpack_from("<I", whole, 12)
    without[12:16] = struct.pack("<I", table - 8)
    without[table : nbytes + 8] = bytes(nbytes + 8 - table)
    for damaged in (
        whole + b"\0",
        whole + bytes(4096),
        whole + b"more",
        whole[:-1],
        bytes(without),
    ):
        given = list(files[0])
        given[which] = damaged
        with pytest.raises(PteronError):
            _load(given[0], given[1], Verification.Required)
    # As if another tool had written it; the program names its data all the same.
    given = list(files[0])
    given[which] = bytes(without)
    found = _outputs(_load(given[0], given[1], Verification.Full))
    assert found == _outputs(_load(files[0][0], files[0][1], Verification.Full))


def test_data_that_changes_places_is_refused(files: Any) -> None:
    """As many bytes of two segments as both have, exchanged in the program or in its weights."""
    exchanged = 0
    for which, kind in enumerate((PROGRAM, TENSOR_DATA)):
        whole = files[0][which]
        tables = from_flatbuffer(
            (schema.Program, schema.TensorData)[which],
            bytes(open_container(kind, whole).flatbuffer),
        )
        base = open_container(kind, whole).segment_base
        places = [(base + s.offset, base + s.offset + s.size) for s in tables.segments if s.size]
        for (a, b), (c, d) in itertools.combinations(places, 2):
            n = min(b - a, d - c)
            if whole[a : a + n] == whole[c : c + n]:
                continue
            b, d = a + n, c + n
            given = list(files[0])
            given[which] = whole[:a] + whole[c:d] + whole[b:c] + whole[a:b] + whole[d:]
            assert len(given[which]) == len(whole)
            with pytest.raises(PteronError):
                _load(given[0], given[1], Verification.Required)
            exchanged += 1
    assert exchanged > 10


@pytest.mark.parametrize("verification", _AT_LEAST_DEFAULT)
def test_other_weights_are_refused(files: Any, verification: Verification) -> None:
    """The weights of another model of equal shapes, and the same with digests of its own."""
    (program, data), (_, other) = files
    names = [deserialize_tensor_data(one).named_data.keys() for one in (data, other)]
    says = "is not the data that the program was written with"
    if names[0] == names[1]:
        with pytest.raises(PteronError, match=says):
            _load(program, other, verification)
        assert _outputs(_load(program, other, Verification.Minimal))
    else:  # named by content
        with pytest.raises(PteronError):
            _load(program, other, verification).load_method("forward")


@pytest.mark.parametrize("verification", _AT_LEAST_DEFAULT)
def test_zeroed_weights_with_digests_of_their_own_are_refused(
    files: Any, verification: Verification
) -> None:
    program, data = files[0]
    with pytest.raises(PteronError, match="is not the data that the program was written with"):
        _load(program, _zeroed(data), verification)


def _zeroed(data: bytes) -> bytes:
    """The data file of equal keys and layouts, with zeros for data."""
    from pteron.exir._serialize.named_data_store import NamedDataStore
    from pteron.exir._serialize.tensor_data_file import serialize_tensor_data

    file = deserialize_tensor_data(data)
    store = NamedDataStore()
    for entry in file.root.named_data:
        nbytes = file.named_data[entry.key].nbytes
        store.add_named_data(entry.key, bytes(nbytes), 64, "tag", entry.tensor_layout)
    return serialize_tensor_data(store.get_named_data_store_output(), "tag").tobytes()
