"""The names that compiled models may import, read from the lists the runtime is built from.

One line a symbol, in `shims.inc` and its device's siblings::

    AOTI_SHIM(aoti_torch_cpu_mm_out, 1)   // name, first version of the list that has it
    SLEEF_SHIM(Sleef_expf8_u10, 1)        // vector mathematics
    OPENMP_SHIM(GOMP_parallel, 2)         // parallel regions
"""

import dataclasses
import functools
import re
from collections.abc import Iterable
from pathlib import Path

_BACKENDS = Path(__file__).parent.parent
_COMMON = ("aoti/shims/shims.inc",)
_OF_DEVICE = {
    "cpu": (
        "cpu/runtime/shims/shims.inc",
        "cpu/runtime/vector_math/sleef.inc",
        "cpu/runtime/openmp/openmp.inc",
    ),
    "cuda": ("cuda/runtime/shims/shims.inc",),
    "mps": ("apple/metal/runtime/shims/shims.inc",),
}
_ENTRY = re.compile(r"^\s*(?:AOTI|SLEEF|OPENMP)_SHIM\(\s*(\w+)\s*,\s*(\d+)\s*\)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class ShimList:
    """What one device's runtime offers to compiled code.

    Attributes:
        versions: name to the first list version that has it.
    """

    versions: dict[str, int]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.versions)

    @property
    def version(self) -> int:
        """The list's version: a runtime of this version or a later one has every name."""
        return max(self.versions.values(), default=0)

    def version_for(self, names: Iterable[str]) -> int:
        """The oldest list version that has all of `names`."""
        return max((self.versions[name] for name in names), default=0)


def parse(text: str, where: str) -> dict[str, int]:
    """Entries of one list; a name that stands twice is an error."""
    found: dict[str, int] = {}
    for name, version in _ENTRY.findall(text):
        if name in found:
            raise ValueError(f"{where}: {name} is listed twice")
        found[name] = int(version)
    return found


@functools.cache
def load(device: str) -> ShimList:
    """The shims of `device` ("cpu", "cuda", "mps"), common ones included."""
    if device not in _OF_DEVICE:
        raise ValueError(f"no shim lists for device {device!r}; known: {sorted(_OF_DEVICE)}")
    versions: dict[str, int] = {}
    for name in _COMMON + _OF_DEVICE[device]:
        path = _BACKENDS / name
        if path.exists():
            versions |= parse(path.read_text(), name)
    return ShimList(versions)
