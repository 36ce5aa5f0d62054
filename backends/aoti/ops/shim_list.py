"""The symbols that compiled models may import, read from the runtime's lists.

One entry per symbol, in a device's `shims.inc` and its includes::

    AOTI_SHIM(mm_out, 1, Tensor(out), Tensor(self), Tensor(mat2))  // aoti_torch_<device>_mm_out
    AOTI_COMMON_SHIM(zero_, 1, ...)    // aoti_torch_zero_; first version of the list that has it
    AOTI_CONSTANT_SHIM(dtype_bool, 1, 11)
    SLEEF_SHIM(Sleef_expf8_u10, 1)     // vector mathematics
    OPENMP_SHIM(GOMP_parallel, 2)      // parallel regions
    MICRO_GEMM_SHIM(aoti_torch_cpu_multiply_pairs, 4)  // parts of GEMMs
    CUDA_SHIM(cudaMalloc, 1)           // of the CUDA runtime and driver
"""

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

_BACKENDS = Path(__file__).parents[2]
_COMMON = ("aoti/shims/shims.inc",)
_OF_DEVICE = {
    "cpu": (
        "cpu/runtime/shims/shims.inc",
        "cpu/runtime/vector_math/sleef.inc",
        "cpu/runtime/openmp/openmp.inc",
        "cpu/runtime/shims/micro_gemm.inc",
    ),
    "cuda": ("cuda/runtime/shims/shims.inc",),
    "mps": ("apple/metal/runtime/shims/shims.inc",),
}
_ENTRY = re.compile(r"^\s*(\w+_SHIM)\(\s*(\w+)\s*,\s*(\d+)\s*[,)]", re.MULTILINE)
_INCLUDE = re.compile(r'^#include "pteron/backends/(.*)"$', re.MULTILINE)
_PARAMETER = re.compile(r"\s*(\w+)\((\w+)\)\s*([,)])")
#: The parameters of backends/aoti/ops/parameters.h in C, where {0} is the name.
_IN_C = {
    "Tensor": "AtenTensorHandle {0}",
    "OptionalTensor": "AtenTensorHandle* {0}",
    "OptionalTensorList": "const AtenTensorHandle** {0}, int64_t {0}_len_",
    "Int": "int64_t {0}",
    "Float": "double {0}",
    "String": "const char* {0}",
    "Bool": "int32_t {0}",
    "Dtype": "int32_t {0}",
    "OptionalInt": "int64_t* {0}",
    "OptionalFloat": "double* {0}",
    "OptionalBool": "int32_t* {0}",
    "OptionalString": "const char** {0}",
    "OptionalDtype": "int32_t* {0}",
    "OptionalLayout": "int32_t* {0}",
    "OptionalDevice": "int32_t* {0}, int32_t {0}_index_",
    "Generator": "void** {0}",
    "IntList": "const int64_t* {0}, int64_t {0}_len_",
    "Result": "AtenTensorHandle* {0}",
}


@dataclasses.dataclass(frozen=True)
class Shim:
    """One symbol.

    Attributes:
        name: as models import it.
        version: first list version with it.
        parameters: types and names in the table; None if it has none.
    """

    name: str
    version: int
    parameters: tuple[tuple[str, str], ...] | None = None

    @property
    def declaration(self) -> str:
        """The C function of an operator."""
        parameters = ", ".join(_IN_C[kind].format(name) for kind, name in self.parameters or ())
        return f"AOTITorchError {self.name}({parameters})"


@dataclasses.dataclass(frozen=True)
class ShimList:
    """The functions that a device's runtime provides to compiled code.

    Attributes:
        shims: by name.
    """

    shims: dict[str, Shim]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.shims)

    @property
    def versions(self) -> dict[str, int]:
        return {name: shim.version for name, shim in self.shims.items()}

    @property
    def declarations(self) -> dict[str, str]:
        """The C functions of operators, by name."""
        return {n: shim.declaration for n, shim in self.shims.items() if shim.parameters}

    @property
    def version(self) -> int:
        """The list's version: a runtime of this version or later has every symbol."""
        return max(self.versions.values(), default=0)

    def version_for(self, names: Iterable[str]) -> int:
        """The oldest list version with all of `names`."""
        return max((self.shims[name].version for name in names), default=0)


def parse(text: str, where: str, device: str = "cpu") -> dict[str, Shim]:
    """Entries of a list and its includes; a duplicate is an error."""
    found: dict[str, Shim] = {}
    for shim in _entries(text, device):
        if shim.name in found:
            raise ValueError(f"{where}: {shim.name} is listed twice")
        found[shim.name] = shim
    return found


def _entries(text: str, device: str) -> Iterator[Shim]:
    for match in _ENTRY.finditer(text):
        if match[1] == "AOTI_SHIM":
            parameters = tuple(_parameters(text, match.end()))
            yield Shim(f"aoti_torch_{device}_{match[2]}", int(match[3]), parameters)
        else:
            prefix = "aoti_torch_" if match[1].startswith("AOTI_") else ""
            yield Shim(prefix + match[2], int(match[3]))
    for path in _INCLUDE.findall(text):
        yield from _entries((_BACKENDS / path).read_text(), device)


def _parameters(text: str, position: int) -> Iterator[tuple[str, str]]:
    while match := _PARAMETER.match(text, position):
        yield match[1], match[2]
        position = match.end()
        if match[3] == ")":
            return


@functools.cache
def load(device: str) -> ShimList:
    """The shims of `device` ("cpu", "cuda", "mps"), common ones included."""
    if device not in _OF_DEVICE:
        raise ValueError(f"no shim lists for device {device!r}; known: {sorted(_OF_DEVICE)}")
    shims: dict[str, Shim] = {}
    for name in _COMMON + _OF_DEVICE[device]:
        path = _BACKENDS / name
        if path.exists():
            shims |= parse(path.read_text(), name, device)
    return ShimList(shims)
