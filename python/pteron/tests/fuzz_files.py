"""Files that the command reads: whatever is in them, they are read, or an error that it reports."""

import io
import json
import sys
import tempfile
from pathlib import Path
from unittest import mock

import atheris
import numpy as np

with atheris.instrument_imports(include=["zipfile", "numpy.lib", "json", "PIL", "pteron"]):
    from PIL import Image

    from pteron.command import values
    from pteron.command.usage import UsageError
    from pteron.exir._serialize import model_graph
    from pteron.exir._serialize.container import PROGRAM, TENSOR_DATA, open_container
    from pteron.runtime import ScalarType, TensorInfo

# What inputs_of() and main() make a message of.
_REPORTED = (UsageError, OSError, ValueError, KeyError)


def _written(suffix: str, data: bytes) -> Path:
    path = Path(tempfile.gettempdir()) / f"input{suffix}"
    path.unlink(missing_ok=True)  # ext4 waits for the disk when a file is written again
    path.write_bytes(data)
    return path


def _read(suffix: str, data: bytes) -> None:
    values._read(_written(suffix, data))


_ABOUT = mock.create_autospec(TensorInfo, instance=True)
_ABOUT.sizes.return_value = (1, 3, 4, 5)
_ABOUT.dtype.return_value = ScalarType["Float"]
_ABOUT.is_static.return_value = True


def _read_image(suffix: str, data: bytes) -> None:
    assert values._image(_written(suffix, data), "", _ABOUT, {}).shape == (1, 3, 4, 5)


_READERS = (
    lambda data: _read(".npy", data),
    lambda data: _read(".npz", data),
    lambda data: _read(".safetensors", data),
    model_graph.unpack,
    lambda data: _read_image(".png", data),
    lambda data: _read_image(".bmp", data),
    lambda data: open_container(PROGRAM, data),
    lambda data: open_container(TENSOR_DATA, data),
)


def seeds() -> list[bytes]:
    """A file of each kind, after the byte that says which it is."""
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    npy, npz = io.BytesIO(), io.BytesIO()
    np.save(npy, array)
    np.savez_compressed(npz, x=array)
    header = json.dumps({"x": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}).encode()
    tensors = len(header).to_bytes(8, "little") + header + array.tobytes()
    graph = model_graph.pack([model_graph.GraphNode("x", "input", range=[0, 5])])
    files = [npy.getvalue(), npz.getvalue(), tensors, graph]
    for kind in ("png", "bmp"):
        stream = io.BytesIO()
        Image.new("RGB", (3, 2), (9, 8, 7)).save(stream, kind)
        files.append(stream.getvalue())
    return [bytes([kind]) + data for kind, data in enumerate(files)]


def read_input(data: bytes) -> None:
    if not data:
        return
    try:
        _READERS[data[0] % len(_READERS)](data[1:])
    except _REPORTED:
        pass


if __name__ == "__main__":
    folder = Path(tempfile.mkdtemp())
    for index, seed in enumerate(seeds()):
        (folder / str(index)).write_bytes(seed)
        read_input(seed)
    atheris.Setup([*sys.argv, str(folder)], read_input)
    atheris.Fuzz()
