"""What one can choose when a model is lowered to BLAS.

BlasOptions(external_tag="weights").to_compile_specs()
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

from pteron.exir.backend.compile_spec_schema import METHOD_NAME_KEY, CompileSpec

_TAG = re.compile(r"[A-Za-z0-9_.-]+")


@dataclasses.dataclass(frozen=True)
class BlasOptions:
    """Options of `BlasBackend`.

    Attributes:
        external_tag: weights go to the file `<external_tag>.ptd`; "" keeps them in the program.
    """

    external_tag: str = ""

    def __post_init__(self) -> None:
        if self.external_tag and not _TAG.fullmatch(self.external_tag):
            raise ValueError(
                f"external_tag is {self.external_tag!r}; expected a file name without suffix, of"
                f" letters, digits, '_', '-' and '.'"
            )

    def to_compile_specs(self) -> list[CompileSpec]:
        """One spec for each option."""
        return [CompileSpec("external_tag", self.external_tag.encode())]

    @classmethod
    def from_compile_specs(cls, specs: Iterable[CompileSpec]) -> BlasOptions:
        """The options that `specs` carry. ValueError for a key that is none of them."""
        values = {}
        for spec in specs:
            if spec.key == METHOD_NAME_KEY:
                continue
            if spec.key != "external_tag":
                raise ValueError(f"BlasBackend has no option {spec.key!r}; known: external_tag")
            values[spec.key] = spec.value.decode()
        return cls(**values)
