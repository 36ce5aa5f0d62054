"""What a program may use."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from pteron.runtime.python.errors import InvalidArgumentError

_MOST = 2**64 - 1


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a program may use; of a field that is None as much as it asks for.

        Runtime.get().load_program(path, limits=Limits(run_time=0.5, planned_bytes=64 << 20))

    What delegates allocate while they run is not counted.

    Attributes:
      run_time: seconds that one call may take, after which it raises `TimedOutError`.
      instructions: that one call may run; more raise `ResourceError`. A delegate is one.
      planned_bytes: bytes of a method's tensors: planned memory, mutable buffers, and outputs at
        their upper bounds as often as they are returned, but the first time that a planned one is.
        Compared when the method is loaded, before anything is allocated: `ResourceError`.
      load_bytes: bytes that opening a program, and loading a method, may each copy: what is read
        from a file object, files in memory that cannot be used in place, delegates' native code,
        and weights of delegates on a GPU, also those that several delegates share, for each.
        `ResourceError`.

    Raises:
      InvalidArgumentError: a limit that is negative, or no number.
    """

    run_time: float | None = None
    instructions: int | None = 10_000_000
    planned_bytes: int | None = None
    load_bytes: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            kinds = (int, float) if field.name == "run_time" else (int,)
            is_number = isinstance(value, kinds) and not isinstance(value, bool)
            if value is None or (is_number and value >= 0):
                continue
            raise InvalidArgumentError(
                f"limit {field.name}: found {value!r}, expected "
                f"{'seconds' if field.name == 'run_time' else 'an int'} from 0 on, or None"
            )

    def _numbers(self) -> tuple[float, int, int, int]:
        counts = [self.instructions, self.planned_bytes, self.load_bytes]
        a, b, c = (_MOST if count is None else min(count, _MOST) for count in counts)
        return math.inf if self.run_time is None else float(self.run_time), a, b, c
