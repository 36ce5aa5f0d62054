"""Numbers from tensors that reach indices, offsets, sizes and divisors.

A model's author states bounds in some of them and none in others. Nobody could state those of
`x[i.item()]` in a model that was written for eager.
"""

from typing import Any

import torch

from tests.hostile.together import Case

T = torch.Tensor

_X = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
_FAR = (2**40, -(2**40), 2**62, -(2**62), 2**63 - 1, -(2**63))


def _one(value: int) -> T:
    return torch.tensor(value)


def _of(*values: int) -> T:
    return torch.tensor(values)


def _with(*before: T, values: Any, far: bool = True) -> list[tuple[T, ...]]:
    """`before` and each of the values, a number or several."""
    numbers = [*values, *(_FAR if far and isinstance(values[0], int) else ())]
    return [(*before, torch.tensor(number)) for number in numbers]


def _number(i: T) -> Any:
    return i.item()


def _row(x: T, i: T) -> T:
    return x[_number(i)] * 2


def _column(x: T, i: T) -> T:
    return x[:, _number(i)] * 2


def _element(x: T, i: T) -> T:
    row, column = i.tolist()
    return x[row, column] * 2


def _row_of_weights(self: Any, x: T, i: T) -> T:
    return self.weight[_number(i)] + x


def _row_by_formula(x: T, i: T) -> T:
    return x[3 * _number(i) - 5] * 2


def _row_by_remainder(x: T, i: T) -> T:
    return x[_number(i) % 64] * 2


def _row_of_what_is_found(x: T, i: T) -> T:
    return torch.nonzero(x > 0)[_number(i)]


def _row_in_a_loop(x: T, i: T) -> T:
    def goes_on(step: T, i: T, total: T) -> T:
        return step < 2

    def add(step: T, i: T, total: T) -> tuple[T, T, T]:
        return step + 1, i + 1, total + x[_number(i)]

    return torch.while_loop(goes_on, add, (torch.zeros((), dtype=torch.int64), i, x[0] * 0))[2]


def _row_within_bounds(x: T, i: T) -> T:
    number = _number(i)
    torch._check(number >= 0)
    torch._check(number < 64)
    return x[number] * 2


def _narrow(x: T, i: T) -> T:
    return x.narrow(0, _number(i), 4) + 1


def _narrow_by_two(x: T, i: T) -> T:
    start, length = i.tolist()
    return x.narrow(0, start, length).sum(0)


def _from(x: T, i: T) -> T:
    return x[_number(i) :].sum(0)


def _until(x: T, i: T) -> T:
    return x[: _number(i)].sum(0)


def _between(x: T, i: T) -> T:
    start, end = i.tolist()
    return x[start:end].sum(0)


def _strided(x: T, i: T) -> T:
    return x.as_strided((4, 2), (8, 1), _number(i)) * 2


def _strided_by(x: T, i: T) -> T:
    return x.as_strided((4, 2), (_number(i), 1)) * 2


def _parts(x: T, i: T) -> T:
    a, b = i.tolist()
    first, second = torch.split(x, [a, b])
    return first.sum(0) + 2 * second.sum(0)


def _scattered_slice(x: T, k: T, i: T) -> T:
    start = _number(i)
    torch._check(start >= 0)
    return torch.slice_scatter(x, k, 0, start, start + 2)


def _scattered_row(x: T, k: T, i: T) -> T:
    return torch.select_scatter(x, k, 0, _number(i))


def _written_row(self: Any, k: T, i: T) -> T:
    self.rows[_number(i)] = k
    return self.rows + 1


def _written_slice(self: Any, k: T, i: T) -> T:
    start = _number(i)
    self.rows[:, start : start + 2] = k
    return self.rows + 1


def _written_at_an_offset(self: Any, k: T, i: T) -> T:
    self.rows.as_strided((8,), (1,), _number(i)).copy_(k)
    return self.rows + 1


def _reshaped(x: T, i: T) -> T:
    return x.view(_number(i), -1).cumsum(0).sum()


def _reshaped_by_two(x: T, i: T) -> T:
    rows, columns = i.tolist()
    torch._check(rows >= 0)
    torch._check(columns >= 0)
    torch._check(rows * columns == 512)
    return x.view(rows, columns).cumsum(0).sum()


def _expanded(x: T, i: T) -> T:
    return (x[:1].expand(_number(i), 8) * 2).sum(0)


def _expanded_to_its_size(x: T, i: T) -> T:
    return x.expand(_number(i), 8) + 1


def _repeated(x: T, i: T) -> T:
    return x.repeat(_number(i), 1).sum(0)


def _counted(i: T) -> T:
    return torch.arange(_number(i)).sum()


def _filled(i: T) -> T:
    return torch.full((_number(i),), 2.0).sum()


def _filled_by_two(i: T) -> T:
    rows, columns = i.tolist()
    return torch.ones(rows, columns, 4).sum()


def _identity(i: T) -> T:
    return torch.eye(_number(i)).sum()


def _joined(x: T, i: T) -> T:
    return torch.cat([x, torch.ones(_number(i), 8)]).cumsum(0)[-1]


def _added(x: T, i: T) -> T:
    return x + torch.ones(_number(i), 8)


def _best(x: T, i: T) -> T:
    return torch.topk(x[:, 0], _number(i))[0].sum()


def _rolled(x: T, i: T) -> T:
    return torch.roll(x, _number(i), 0)


def _divided(x: T, i: T) -> T:
    return x * (64 // _number(i))


def _remainder(x: T, i: T) -> T:
    return x * (64 % _number(i))


def _true_division(x: T, i: T) -> T:
    return x * (64 / _number(i))


def _number_divided(x: T, i: T) -> T:
    a, b = i.tolist()
    return x[(a // b) % 8] + (a % b)


_INDICES = (63, -64, 0, 64, -65)
_PAIRS = _of(3, 4)
_INVERSE = pow(3, -1, 2**63)

CASES = [
    Case("row", _row, (_X, _one(3)), _with(_X, values=_INDICES), says="the index"),
    Case("column", _column, (_X, _one(3)), _with(_X, values=(7, -8, 8, -9))),
    Case(
        "element",
        _element,
        (_X, _PAIRS),
        _with(_X, values=((63, 7), (-64, -8), (64, 0), (0, 8), (-65, 0), (2**61, 0), (0, 2**62))),
    ),
    Case(
        "row of weights",
        _row_of_weights,
        (torch.ones(8), _one(3)),
        _with(torch.ones(8), values=(31, -32, 32, -33)),
        {"weight": _X[:32].clone()},
    ),
    Case(
        "row by formula",
        _row_by_formula,
        (_X, _one(3)),
        _with(_X, values=(22, -19, 23, -20, (2**64 + 5) // 3)),
    ),
    Case("row by remainder", _row_by_remainder, (_X, _one(3)), _with(_X, values=(64, -1))),
    Case(
        "row of what is found",
        _row_of_what_is_found,
        (torch.ones(8, 2), _one(3)),
        [*_with(torch.ones(8, 2), values=(15, -16, 16, -17)), (-torch.ones(8, 2), _one(0))],
    ),
    Case("row in a loop", _row_in_a_loop, (_X, _one(3)), _with(_X, values=(62, -64, 63, -65))),
    Case("row within bounds", _row_within_bounds, (_X, _one(3)), _with(_X, values=(0, 63, 64, -1))),
    Case("narrow", _narrow, (_X, _one(3)), _with(_X, values=(60, -64, 61, -65, -3))),
    Case(
        "narrow by two",
        _narrow_by_two,
        (_X, _PAIRS),
        _with(
            _X, values=((60, 4), (64, 0), (60, 5), (3, -1), (2**63 - 1, 2), (4, 2**63 - 4), (-8, 9))
        ),
    ),
    Case("from", _from, (_X, _one(3)), _with(_X, values=(64, 65, -64, -65))),
    Case("until", _until, (_X, _one(3)), _with(_X, values=(64, 65, -64, -65))),
    Case(
        "between",
        _between,
        (_X, _PAIRS),
        _with(_X, values=((0, 64), (60, 70), (70, 60), (-3, -1), (-100, 100), (2**62, -(2**62)))),
    ),
    Case("strided", _strided, (_X, _one(3)), _with(_X, values=(486, 487, -1))),
    Case("strided by", _strided_by, (_X, _one(3)), _with(_X, values=(170, 171, 0, -1))),
    Case(
        "parts",
        _parts,
        (_X, _of(30, 34)),
        _with(_X, values=((0, 64), (64, 0), (100, -36), (1, 1), (2**62, 64 - 2**62), (70, 70))),
    ),
    Case(
        "scattered slice",
        _scattered_slice,
        (_X, torch.ones(2, 8), _one(3)),
        _with(_X, torch.ones(2, 8), values=(0, 62, 63, 64, -1, -2)),
    ),
    Case(
        "scattered row",
        _scattered_row,
        (_X, torch.ones(8), _one(3)),
        _with(_X, torch.ones(8), values=_INDICES),
    ),
    Case(
        "written row",
        _written_row,
        (torch.ones(8), _one(3)),
        _with(torch.ones(8), values=(31, -32, 32, -33)),
        {"rows": torch.zeros(32, 8)},
    ),
    Case(
        "written slice",
        _written_slice,
        (torch.ones(32, 2), _one(3)),
        _with(torch.ones(32, 2), values=(0, 6, 7, 8, -1, -8)),
        {"rows": torch.zeros(32, 8)},
    ),
    Case(
        "written at an offset",
        _written_at_an_offset,
        (torch.ones(8), _one(3)),
        _with(torch.ones(8), values=(248, 249, -1)),
        {"rows": torch.zeros(32, 8)},
    ),
    Case("reshaped", _reshaped, (_X, _one(8)), _with(_X, values=(512, 1, 7, 0, -1, 1024))),
    Case(
        "reshaped by two",
        _reshaped_by_two,
        (_X, _of(8, 64)),
        _with(
            _X, values=((512, 1), (7, 7), (-8, -64), (2**60, 2**60), (3, 512 * _INVERSE % 2**63))
        ),
    ),
    Case("expanded", _expanded, (_X, _one(3)), _with(_X, values=(0, 1, -2))),
    Case(
        "expanded to its size", _expanded_to_its_size, (_X, _one(64)), _with(_X, values=(63, 65, 1))
    ),
    Case("repeated", _repeated, (_X, _one(3)), _with(_X, values=(1, 0, -1))),
    Case("counted", _counted, (_one(3),), _with(values=(0, 1, -1))),
    Case("filled", _filled, (_one(3),), _with(values=(0, 1, -1))),
    Case(
        "filled by two",
        _filled_by_two,
        (_PAIRS,),
        _with(values=((0, 2), (2, 0), (-1, 2), (2**32, 2**32), (2**62, 4), (2**20, 2**20))),
    ),
    Case("identity", _identity, (_one(3),), _with(values=(1, 0, -1))),
    Case("joined", _joined, (_X, _one(3)), _with(_X, values=(1, 0, -1, -64))),
    Case("added", _added, (_X, _one(64)), _with(_X, values=(63, 65, 0))),
    Case("best", _best, (_X, _one(3)), _with(_X, values=(64, 1, 65, -1))),
    Case(
        "rolled",
        _rolled,
        (_X, _one(3)),
        _with(_X, values=(64, -64, 1000)),
        refuses=lambda x, i: i == 2**63 - 1,  # 64 - i is computed in 64 bits
    ),
    Case("divided", _divided, (_X, _one(3)), _with(_X, values=(64, -1, 0)), says="the divisor"),
    Case("remainder", _remainder, (_X, _one(3)), _with(_X, values=(64, -1, 0)), says="the divisor"),
    Case("true division", _true_division, (_X, _one(4)), _with(_X, values=(64, -1, 0))),
    Case(
        "number divided",
        _number_divided,
        (_X, _of(7, 2)),
        _with(_X, values=((7, -2), (7, 0), (-(2**63), -1), (-(2**63), 0))),
        refuses=lambda x, i: i[0] == -(2**63),  # the quotient does not fit
    ),
]
