"""Resource limits of a program."""

import math
from dataclasses import dataclass, fields

from pteron.runtime.python.errors import InvalidArgumentError

_MOST = 2**64 - 1


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Resource limits of a program; None means no limit.

        Runtime.get().load_program(path, limits=Limits(run_time=0.5, planned_bytes=64 << 20))

    Allocations of running delegates are not counted.

    Attributes:
      run_time: maximum seconds of one call, which then raises `TimedOutError`.
      instructions: maximum instructions of one call; more raise `ResourceError`. A delegate call is
          one.
      planned_bytes: maximum bytes of a method's tensors: planned memory, mutable buffers, and
        outputs at their upper bounds, counted once per return, except a planned output's first
        return. Checked when the method is loaded, before any allocation: `ResourceError`.
      load_bytes: maximum bytes that opening a program, and loading a method, may each copy: data
        read from a file object, in-memory files that cannot be used in place, native code of
        delegates, and GPU weights of each delegate, also shared ones. `ResourceError`.

    Raises:
      InvalidArgumentError: a limit is negative or not a number.
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
