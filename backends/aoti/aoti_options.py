"""What all options of AOTInductor backends have in common: their way through compile specs.

CpuOptions(isa="native", weights="shared").to_compile_specs()
"""

import dataclasses
import json
from collections.abc import Iterable
from typing import Any, ClassVar, Self

from pteron.exir.backend.compile_spec_schema import METHOD_NAME_KEY, CompileSpec


@dataclasses.dataclass(frozen=True)
class AotiOptions:
    """A frozen dataclass that derives from it has an option for each of its fields."""

    # Written as they are, for the runtime; the others are JSON.
    TEXTS: ClassVar[tuple[str, ...]] = ()

    def to_compile_specs(self) -> list[CompileSpec]:
        """One spec for each option."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return [
            CompileSpec(name, (value if name in self.TEXTS else json.dumps(value)).encode())
            for name, value in values.items()
        ]

    @classmethod
    def specs_of(cls, options: "AotiOptions | Iterable[CompileSpec] | None") -> list[CompileSpec]:
        """What a partitioner's delegates carry: one spec for each option, and the method's name if
        the caller gave one.

        Args:
            options: an instance of this class, compile specs, or None for the defaults.
        """
        if isinstance(options, AotiOptions):
            options = options.to_compile_specs()
        given = list(options or ())
        specs = cls.from_compile_specs(given).to_compile_specs()
        return specs + [spec for spec in given if spec.key == METHOD_NAME_KEY]

    @classmethod
    def from_compile_specs(cls, specs: Iterable[CompileSpec]) -> Self:
        """The options that `specs` carry; those not there have their defaults.

        Raises:
            ValueError: a key is unknown or a value is not what the option takes.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        values: dict[str, Any] = {}
        for spec in specs:
            if not isinstance(spec, CompileSpec):
                raise TypeError(
                    f"found a {type(specs).__name__} of {type(spec).__name__}, expected"
                    f" {cls.__name__} or a list of CompileSpec; try {cls.__name__}(name=value)"
                )
            if spec.key == METHOD_NAME_KEY:
                continue
            if spec.key not in known:
                raise ValueError(
                    f"{cls.__name__} has no option {spec.key!r}; known: {', '.join(sorted(known))}"
                )
            try:
                text = spec.value.decode()
                values[spec.key] = text if spec.key in cls.TEXTS else json.loads(text)
            except ValueError as error:
                raise ValueError(
                    f"compile spec {spec.key!r} is {spec.value!r}; expected JSON ({error})"
                ) from error
        return cls(**values)
