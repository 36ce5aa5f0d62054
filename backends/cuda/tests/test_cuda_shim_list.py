"""The list of CUDA shims against the library and the tests: every name is exported and tested."""

import ctypes
import pathlib
import re

from pteron.backends.aoti.ops.shim_list import Shim, parse

_CUDA = pathlib.Path(__file__).parent.parent
_PREFIXES = {"aoti_torch_": "ptrn_torch_", "cuda": "ptrn", "cu": "pt"}


def _shims() -> dict[str, Shim]:
    path = _CUDA / "runtime/shims/shims.inc"
    return parse(path.read_text(), path.name, "cuda")


def _private(name: str) -> str:
    prefix = next(prefix for prefix in _PREFIXES if name.startswith(prefix))
    return _PREFIXES[prefix] + name.removeprefix(prefix)


def test_every_name_is_exported() -> None:
    library = ctypes.CDLL(str(_CUDA / "runtime/libcuda_backend.so"))
    assert [name for name in _shims() if not hasattr(library, _private(name))] == []
    assert hasattr(library, "ptrn_torch_index_put_out")  # a common one, for tensors of any device
    assert not hasattr(library, "ptrn_torch_cuda_no_such_shim")


def test_every_shim_has_a_test() -> None:
    tests = sorted((_CUDA / "runtime/shims/tests").glob("test_*.cpp"))
    called = set(re.findall(r"ptrn_torch_\w+", "\n".join(path.read_text() for path in tests)))
    # Operators are tested by //backends/aoti/ops/tests:conformance, which looks for that itself.
    ours = [n for n, s in _shims().items() if n.startswith("aoti_torch_") and not s.parameters]
    assert ours
    assert [name for name in ours if _private(name) not in called] == []
