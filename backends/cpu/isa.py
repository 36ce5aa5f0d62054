"""x86-64 psABI levels, and those of this machine."""

import dataclasses
import functools
from collections.abc import Iterable
from pathlib import Path

_V2 = frozenset({"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"})
_V3 = _V2 | {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"}
_V4 = _V3 | {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}


@dataclasses.dataclass(frozen=True)
class Isa:
    """One level.

    Attributes:
        name: compiler spelling.
        features: flags in /proc/cpuinfo that it requires.
        vector_bits: vector width of generated code; 0 for scalar code.
        define: macro for torch's vector headers.
    """

    name: str
    features: frozenset[str]
    vector_bits: int
    define: str


LEVELS = (
    Isa("x86-64-v2", _V2, 0, "CPU_CAPABILITY=DEFAULT"),
    Isa("x86-64-v3", _V3, 256, "CPU_CAPABILITY_AVX2"),
    Isa("x86-64-v4", _V4, 512, "CPU_CAPABILITY_AVX512"),
)


def level(name: str) -> Isa:
    """The level of that name; "native" is the highest of this machine."""
    if name == "native":
        return native()
    for isa in LEVELS:
        if isa.name == name:
            return isa
    known = ", ".join(isa.name for isa in LEVELS)
    raise ValueError(f"isa is {name!r}; expected one of {known}, native")


def levels(names: Iterable[str]) -> list[Isa]:
    """The levels of those names without duplicates, in ascending order."""
    wanted = {level(name).name for name in names}
    return [isa for isa in LEVELS if isa.name in wanted]


def native() -> Isa:
    """The highest level of this machine."""
    features = machine_features()
    best = [isa for isa in LEVELS if isa.features <= features]
    if not best:
        missing = ", ".join(sorted(LEVELS[0].features - features))
        raise ValueError(
            f"this machine has none of the levels {', '.join(i.name for i in LEVELS)} "
            f"(x86-64-v2 needs: {missing}); name the target's level instead of native"
        )
    return best[-1]


@functools.cache
def machine_features(cpuinfo: str = "/proc/cpuinfo") -> frozenset[str]:
    """Feature flags of this machine's first CPU."""
    for line in Path(cpuinfo).read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return frozenset(value.split())
    return frozenset()
